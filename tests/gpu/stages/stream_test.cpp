// Stages in the order of their stream, on the streams that have no handle, and in captured graphs.
#include <gqsgd.h>
#include <gqsgd_stages.h>
#include <gtest/gtest.h>
#include <string.h>

#include <functional>
#include <string>
#include <thread>

#include "src/gpu/device/device.h"
#include "tests/gpu/cuda_call.h"
#include "tests/support/inputs.h"
#include "tests/gpu/stages/side.h"

namespace gq::test {
namespace {

constexpr size_t kCount = 1 << 20;

Bytes random_floats(uint64_t seed) {
  Bytes bytes(4 * kCount);
  for (size_t e = 0; e < kCount; ++e) {
    const float value = static_cast<float>(uniform_at(seed, e) - 0.5);
    memcpy(&bytes[4 * e], &value, 4);
  }
  return bytes;
}

/** The stages of a direct allreduce of one rank, on buffers that stay where they are. */
class Chain {
 public:
  explicit Chain(const char* text) : text_(text) {
    EXPECT_EQ(gqsgd_quantizer_create(text, &quantizer_), GQSGD_OK) << gqsgd_last_error();
    site_.size = 1;
    site_.step = 4;
  }
  ~Chain() { gqsgd_quantizer_destroy(quantizer_); }
  Chain(const Chain&) = delete;
  Chain& operator=(const Chain&) = delete;

  void enqueue(void* stream) {
    auto* const norms = static_cast<float*>(norms_.data());
    auto* const words = static_cast<uint32_t*>(words_.data());
    auto* const scales = static_cast<float*>(scales_.data());
    const uint32_t* const list[] = {words};
    expect(gqsgd_norm(quantizer_, &site_, values_.data(), kCount, GQSGD_FLOAT32, norms,
                      workspace_.data(), kWorkspace, stream));
    expect(gqsgd_quantize(quantizer_, &site_, values_.data(), kCount, GQSGD_FLOAT32, norms, words,
                          nullptr, 0, stream));
    expect(gqsgd_reduce_many(quantizer_, &site_, list, kCount, norms, words, scales,
                             workspace_.data(), kWorkspace, stream));
    if (text_ == "adaptive-4") {
      expect(gqsgd_dequantize_adaptive(quantizer_, &site_, words, norms, scales, kCount,
                                       GQSGD_FLOAT32, GQSGD_MEAN, results_.data(), stream));
    } else {
      expect(gqsgd_dequantize(quantizer_, &site_, words, scales, kCount, GQSGD_FLOAT32, GQSGD_MEAN,
                              results_.data(), stream));
    }
  }
  void put(const Bytes& values, cudaStream_t stream) {
    done(cudaMemcpyAsync(values_.data(), values.data(), values.size(), cudaMemcpyHostToDevice,
                         stream));
  }
  Bytes results(cudaStream_t stream) const {
    done(cudaStreamSynchronize(stream));
    return results_.bytes();
  }

  /** What the host makes of the same values. */
  Bytes expected(const Bytes& values) const {
    Subject subject{text_, 1, 0, GQSGD_FLOAT32, kCount};
    subject.step = 4;
    subject.index = 0;
    Side host(subject, false);
    const Bytes norms = host.norm(values);
    const std::vector<Bytes> made =
        host.reduce_many({host.quantize(values, norms, 0)}, norms, false);
    return host.dequantize(made[0], norms, made[1], GQSGD_MEAN);
  }

 private:
  static constexpr size_t kWorkspace = 1 << 16;
  void expect(gqsgd_status status) const {
    EXPECT_EQ(status, GQSGD_OK) << text_ << ": " << gqsgd_last_error();
  }

  std::string text_;
  gqsgd_quantizer quantizer_ = nullptr;
  gqsgd_site site_ = {};
  DeviceBytes values_{Bytes(4 * kCount), 0}, results_{Bytes(4 * kCount), 0};
  DeviceBytes words_{Bytes(kCount), 0}, norms_{Bytes(kCount / 8), 0}, scales_{Bytes(kCount / 8), 0};
  DeviceBytes workspace_{Bytes(kWorkspace), 0};
};

const char* const kQuantizers[] = {"paper-gl8", "paper-ge8,norm=2:2", "blocks-8", "rotated-8",
                                   "adaptive-4"};

TEST(Stream, EnqueuedWork_RunsInOrder) {
  cudaStream_t made = nullptr;
  done(cudaStreamCreateWithFlags(&made, cudaStreamNonBlocking));
  const Bytes first = random_floats(1), second = random_floats(2);
  for (cudaStream_t stream : {made, cudaStreamLegacy, cudaStreamPerThread}) {
    for (const char* text : kQuantizers) {
      Chain chain(text);
      chain.put(first, stream);
      chain.put(second, stream);
      chain.enqueue(stream);
      chain.put(first, stream);  // Comes too late to be seen.
      EXPECT_TRUE(chain.results(stream) == chain.expected(second)) << text;
    }
  }
  done(cudaStreamDestroy(made));
}

TEST(Stream, CapturedGraph_BitsOfItsInputAtEachReplay) {
  cudaStream_t stream = nullptr;
  done(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  for (const char* text : kQuantizers) {
    Chain chain(text);
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t program = nullptr;
    done(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    chain.enqueue(stream);
    done(cudaStreamEndCapture(stream, &graph));
    done(cudaGraphInstantiate(&program, graph, 0));
    for (const uint64_t seed : {5, 6}) {
      const Bytes values = random_floats(seed);
      chain.put(values, stream);
      done(cudaGraphLaunch(program, stream));
      EXPECT_TRUE(chain.results(stream) == chain.expected(values)) << text << ", seed " << seed;
    }
    done(cudaGraphExecDestroy(program));
    done(cudaGraphDestroy(graph));
  }
  done(cudaStreamDestroy(stream));
}

/** What of the device's table a capture in mode global forbids, in the thread that captures and in
 *  all others. */
TEST(Stream, GlobalCapture_EventsQueriedAndMemoryAllocatedBeside) {
  const Device& device = *process_device(nullptr);
  cudaStream_t captured = nullptr, other = nullptr;
  EventHandle event = nullptr;
  done(cudaStreamCreateWithFlags(&captured, cudaStreamNonBlocking));
  done(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
  EXPECT_TRUE(device.make_event(&event).ok());
  EXPECT_TRUE(device.record(event, other).ok());
  const auto query = [&]() -> std::string {
    bool passed = false;
    const Status asked = device.query(event, &passed);
    return asked.ok() ? "" : asked.sentence();
  };
  std::string queried, allocated;
  cudaGraph_t graph = nullptr;
  done(cudaStreamBeginCapture(captured, cudaStreamCaptureModeGlobal));
  std::thread([&] {
    queried = query();
    for (const bool pinned : {false, true}) {
      void* memory = nullptr;
      const Status made = (pinned ? device.allocate_pinned : device.allocate)(4096, &memory);
      if (!made.ok()) allocated += made.sentence();
      if (made.ok()) (pinned ? device.release_pinned : device.release)(memory);
    }
  }).join();
  queried += query();
  EXPECT_EQ(cudaStreamEndCapture(captured, &graph), cudaSuccess);
  EXPECT_EQ(queried, "");
  EXPECT_EQ(allocated, "");
  if (graph != nullptr) done(cudaGraphDestroy(graph));
  device.end_event(event);
  done(cudaStreamDestroy(captured));
  done(cudaStreamDestroy(other));
}

/** The thread's last error is whatever a caller left there: none of a stage, and still there. */
TEST(Stream, ErrorLeftByTheCaller_NotReportedByAStage) {
  cudaStream_t stream = nullptr;
  done(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  const Bytes values = random_floats(8);
  for (const char* text : kQuantizers) {
    Chain chain(text);
    chain.put(values, stream);
    void* never = nullptr;
    EXPECT_EQ(cudaMalloc(&never, SIZE_MAX / 2), cudaErrorMemoryAllocation);
    chain.enqueue(stream);
    EXPECT_EQ(cudaGetLastError(), cudaErrorMemoryAllocation) << text;
    EXPECT_TRUE(chain.results(stream) == chain.expected(values)) << text;
  }
  done(cudaStreamDestroy(stream));
}

}  // namespace
}  // namespace gq::test
