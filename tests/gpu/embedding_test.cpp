// What a program has of its device stays what it was: memory comes back, what leads nowhere and
// what does not fit are refused, and calls go on.
#include <gqsgd.h>
#include <gtest/gtest.h>

#include "tests/gpu/allreduce_call.h"
#include "tests/gpu/cuda_call.h"
#include "tests/gpu/device_values.h"
#include "tests/support/ranks.h"

namespace gq::test {
namespace {

constexpr size_t kCount = 1 << 20;

size_t free_bytes() {
  size_t free = 0, total = 0;
  done(cudaMemGetInfo(&free, &total));
  return free;
}

/** Both ways of the transport, more workspace than what a driver keeps by itself. */
void use_a_group() {
  const DirectCalls fused(gradients(2, 4097, 3), {"paper-gl8"}, 1);
  const DeviceCalls stages(2, {"blocks-8"}, kCount);
  EXPECT_EQ(run_threads(2, "timeout_ms=20000",
                        [&](int rank, gqsgd_comm comm) {
                          const std::string found = fused.make_and_compare(rank, comm);
                          return found.empty() ? stages.make_and_compare(rank, comm) : found;
                        }),
            "");
}

TEST(Embedding, MemoryOfTheDevice_ComesBack) {
  constexpr size_t kCycles = 20, kSlackBytes = 8 << 20;  // a group has more than 1 MiB a cycle
  for (int warm = 0; warm < 2; ++warm) use_a_group();
  const size_t before = free_bytes();
  for (size_t cycle = 0; cycle < kCycles; ++cycle) use_a_group();
  const size_t after = free_bytes();
  EXPECT_TRUE(after + kSlackBytes >= before) << before << " bytes were free, then " << after;
}

gqsgd_status allreduce(gqsgd_comm comm, float* values, StreamHandle stream) {
  const Quantizer quantizer("blocks-8");
  return gqsgd_allreduce(comm, quantizer.get(), values, values, 1000, GQSGD_FLOAT32, GQSGD_MEAN,
                         nullptr, stream);
}

TEST(Embedding, FreedMemory_Refused) {
  EXPECT_EQ(run_threads(1, "",
                        [](int, gqsgd_comm comm) -> std::string {
                          const DeviceQueue queue;
                          DeviceValues there(1000);
                          there.clear(queue);
                          void* gone = nullptr;
                          done(cudaMalloc(&gone, 64 << 20));
                          done(cudaFree(gone));
                          if (allreduce(comm, static_cast<float*>(gone), queue.get()) !=
                              GQSGD_INVALID_ARGUMENT) {
                            return std::string("freed memory: ") + gqsgd_last_error();
                          }
                          if (cudaPeekAtLastError() != cudaSuccess) return "an error is left";
                          if (allreduce(comm, there.data(), queue.get()) != GQSGD_OK) {
                            return gqsgd_last_error();
                          }
                          return queue.wait(20000) ? "" : "the stream does not get through";
                        }),
            "");
}

/** What CUDA refuses ends a capture, and with it what the stream takes. */
std::string call_in_ended_capture(gqsgd_comm comm, float* values, StreamHandle stream) {
  const auto captured = static_cast<cudaStream_t>(stream);
  void* refused = nullptr;
  cudaGraph_t graph = nullptr;
  done(cudaStreamBeginCapture(captured, cudaStreamCaptureModeThreadLocal));
  const cudaError_t error = cudaMalloc(&refused, 64);
  (void)cudaGetLastError();
  const gqsgd_status status = allreduce(comm, values, stream);
  const std::string sentence = gqsgd_last_error();
  const cudaError_t ended = cudaStreamEndCapture(captured, &graph);
  (void)cudaGetLastError();
  if (error == cudaSuccess || ended == cudaSuccess) return "the capture has not ended";
  const bool named = sentence.find("an error has ended its capture") != std::string::npos;
  return status == GQSGD_UNSUPPORTED && named ? "" : sentence;
}

TEST(Embedding, CaptureEndedByAnError_Refused) {
  EXPECT_EQ(run_threads(1, "",
                        [](int, gqsgd_comm comm) -> std::string {
                          const DeviceQueue queue;
                          DeviceValues there(1000);
                          there.clear(queue);
                          for (int k = 0; k < 2; ++k) {
                            if (allreduce(comm, there.data(), queue.get()) != GQSGD_OK) {
                              return gqsgd_last_error();
                            }
                            if (!queue.wait(20000)) return "the stream does not get through";
                            const std::string found =
                                call_in_ended_capture(comm, there.data(), queue.get());
                            if (!found.empty()) return found;
                          }
                          return gqsgd_comm_status(comm) == GQSGD_OK ? "" : gqsgd_last_error();
                        }),
            "");
}

TEST(Embedding, MoreThanTheDeviceHas_NoMemory) {
  EXPECT_EQ(run_threads(1, "",
                        [](int, gqsgd_comm comm) -> std::string {
                          const DeviceQueue queue;
                          DeviceValues there(1000);
                          there.clear(queue);
                          const Quantizer longest("none");
                          if (allreduce(comm, there.data(), queue.get()) != GQSGD_OK) {
                            return gqsgd_last_error();
                          }
                          if (gqsgd_comm_reserve(comm, longest.get(), size_t{1} << 39,
                                                 GQSGD_FLOAT32) != GQSGD_NO_MEMORY) {
                            return std::string("2 TiB of words: ") + gqsgd_last_error();
                          }
                          if (cudaPeekAtLastError() != cudaSuccess) return "an error is left";
                          if (allreduce(comm, there.data(), queue.get()) != GQSGD_OK) {
                            return gqsgd_last_error();
                          }
                          return queue.wait(20000) ? "" : "the stream does not get through";
                        }),
            "");
}

}  // namespace
}  // namespace gq::test
