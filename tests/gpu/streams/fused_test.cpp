// Allreduces by one kernel of each rank: where groups make them and where not, which bits they
// have, and what becomes of kernels that wait for one that never begins.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <limits>
#include <memory>
#include <thread>

#include "tests/gpu/streams/local_group.h"
#include "tests/gpu/streams/typed_call.h"
#include "tests/support/host_device/host_fused.h"

namespace gq::test {
namespace {

using Clock = std::chrono::steady_clock;

Operation direct(const char* quantizer = "paper-ge8") {
  Operation call;
  call.quantizer = quantizer;
  call.schedule = GQSGD_SCHEDULE_DIRECT;
  return call;
}

/** Of one rank's communicator after the other: "" or what went wrong. */
std::string make_direct(const LocalGroup& group, const char* quantizer = "paper-ge8",
                        size_t value_count = 5000) {
  const Calls calls(group.size(), {direct(quantizer)}, {value_count});
  return group.run([&](int rank, gqsgd_comm comm) { return calls.make_and_compare(rank, comm); });
}

uint32_t kernels_of(const LocalGroup& group, const char* quantizer, size_t value_count = 5000) {
  const uint32_t before = fused_kernels_enqueued();
  EXPECT_EQ(make_direct(group, quantizer, value_count), "") << quantizer;
  return fused_kernels_enqueued() - before;
}

TEST(Fused, Call_OneKernelOfEachRank) {
  for (const int ranks : {1, 2, 3, 4, 5, 6, 7, 8}) {
    const LocalGroup group(ranks);
    for (const char* quantizer :
         {"paper-gl8", "paper-ge8", "paper-gl4", "paper-ge4", "relative-8",
          "paper-gl8,rounding=correlated", "blocks-8", "paper-gl4,block=64,rescale=true", "none"}) {
      EXPECT_EQ(kernels_of(group, quantizer), static_cast<uint32_t>(ranks)) << quantizer;
    }
  }
}

/** One after the other with other calls, in place and not, and with steps on the device. */
TEST(Fused, ListOfOneTensor_OneKernelOfEachRank) {
  constexpr int kRanks = 3;
  const LocalGroup group(kRanks);
  std::vector<Operation> calls;
  for (const char* quantizer : {"paper-gl8", "paper-ge4", "relative-8", "blocks-8",
                                "paper-gl4,block=64,rescale=true", "none"}) {
    for (const int kind : {0, 1, 2, 3}) {
      Operation call = direct(quantizer);
      call.in_list = kind != 3;
      call.in_place = kind == 1;
      call.at_device = kind == 2;
      call.step = calls.size();
      calls.push_back(call);
    }
  }
  const Calls made(kRanks, calls, {4000, 33, 9001});
  const uint32_t before = fused_kernels_enqueued();
  EXPECT_EQ(group.run([&](int rank, gqsgd_comm comm) { return made.make_and_compare(rank, comm); }),
            "");
  EXPECT_EQ(fused_kernels_enqueued() - before, kRanks * calls.size());
}

/** Tensors without values, in several shards; more than are arguments of a kernel. */
std::vector<std::vector<size_t>> lists() {
  std::vector<size_t> many;
  for (size_t k = 0; k < 400; ++k) many.push_back(k * k % 97);
  return {{1000, 5000}, {0, 1, 31, 33, 0}, many, {10000, 1, 4096, 70}};
}

/** One after the other with calls in one piece. */
TEST(Fused, ListOfTensors_OneKernelOfEachRank) {
  constexpr int kRanks = 3;
  const LocalGroup group(kRanks);
  std::vector<Operation> calls;
  for (const char* quantizer : {"blocks-8", "paper-gl8", "paper-ge4", "relative-8",
                                "paper-gl4,block=64,rescale=true", "none"}) {
    for (const std::vector<size_t>& counts : lists()) {
      Operation call = direct(quantizer);
      call.counts = calls.size() % 5 == 4 ? std::vector<size_t>() : counts;
      call.in_place = calls.size() % 3 == 1;
      call.at_device = calls.size() % 3 == 2;
      call.step = calls.size();
      calls.push_back(call);
    }
  }
  const Calls made(kRanks, calls, {4000});
  const uint32_t before = fused_kernels_enqueued();
  EXPECT_EQ(group.run([&](int rank, gqsgd_comm comm) { return made.make_and_compare(rank, comm); }),
            "");
  EXPECT_EQ(fused_kernels_enqueued() - before, kRanks * calls.size());
}

/** A list of 16-bit values and longer ones as bytes, each tensor where the last one ended; by
 *  schedule hierarchical the stages make the same moves. */
Bytes list_result(gqsgd_comm comm, int rank, const char* quantizer, gqsgd_dtype dtype,
                  gqsgd_schedule schedule, const std::vector<size_t>& counts) {
  const Quantizer made(quantizer);
  const Bytes given = typed_values(dtype, total_of(counts), rank);
  const size_t element_bytes = given.size() / total_of(counts);
  const DeviceMemory memory(given.size());
  const OwnStream stream;
  auto* const values = memory.as<unsigned char>();
  std::copy(given.begin(), given.end(), values);
  std::vector<void*> places;
  for (size_t k = 0, offset = 0; k < counts.size(); offset += element_bytes * counts[k++]) {
    places.push_back(values + offset);
  }
  const gqsgd_status status = gqsgd_allreduce_many(
      comm, made.get(), places.data(), places.data(), counts.data(), counts.size(), dtype,
      GQSGD_MEAN, config_at(3, 1, schedule), stream.get());
  if (status != GQSGD_OK || !stream.synchronize()) throw std::runtime_error(gqsgd_last_error());
  return Bytes(values, values + given.size());
}

TEST(Fused, ListOfEveryType_SameBitsAsStages) {
  const LocalGroup group(3);
  const uint32_t before = fused_kernels_enqueued();
  EXPECT_EQ(group.run([&](int rank, gqsgd_comm comm) -> std::string {
    for (const gqsgd_dtype dtype : {GQSGD_FLOAT16, GQSGD_BFLOAT16, GQSGD_FLOAT32, GQSGD_FLOAT64}) {
      for (const std::vector<size_t>& counts : lists()) {
        for (const char* quantizer : {"blocks-8", "paper-ge8", "none", "none,rounding=nearest"}) {
          const auto result = [&](gqsgd_schedule schedule) {
            return list_result(comm, rank, quantizer, dtype, schedule, counts);
          };
          if (result(GQSGD_SCHEDULE_DIRECT) == result(GQSGD_SCHEDULE_HIERARCHICAL)) continue;
          return quantizer + (", dtype " + std::to_string(dtype)) + ", list of " +
                 std::to_string(counts.size());
        }
      }
    }
    return "";
  }),
            "");
  EXPECT_EQ(fused_kernels_enqueued() - before, 3 * 4 * 4 * lists().size());
}

/** More tensors than the memory of a kernel has places for. */
TEST(Fused, TooManyTensors_MadeByStages) {
  const LocalGroup group(2);
  Operation call = direct("blocks-8");
  for (const size_t more : {0, 1}) {
    call.counts = std::vector<size_t>(kFusedSegmentsMax + more, 1);
    const Calls made(2, {call}, {0});
    const uint32_t before = fused_kernels_enqueued();
    EXPECT_EQ(
        group.run([&](int rank, gqsgd_comm comm) { return made.make_and_compare(rank, comm); }),
        "");
    EXPECT_EQ(fused_kernels_enqueued() - before, more == 0 ? 2u : 0u);
  }
}

TEST(Fused, NoSuchKernel_MadeByStages) {
  const LocalGroup group(3);
  for (const char* quantizer :
       {"paper-gl8,block=64", "rotated-8", "paper-gl8,norm=2:2", "paper-gl8,norm=inf:2",
        "paper-gl4,bits_down=8", "paper-gl8,rounding_down=subtractive"}) {
    EXPECT_EQ(kernels_of(group, quantizer), 0u) << quantizer;
  }
  const LocalGroup pair(2);
  constexpr size_t kBucketValues = (25u << 20) / sizeof(float);  // PyTorch's default
  EXPECT_EQ(kernels_of(pair, "blocks-8", kBucketValues), 2u);
  EXPECT_EQ(kernels_of(pair, "paper-gl8", kFusedValuesMax + 1), 0u);
  EXPECT_EQ(kernels_of(pair, "none", kFusedValuesMax / 4), 2u);
  EXPECT_EQ(kernels_of(pair, "none", kFusedValuesMax / 4 + 1), 0u);
  const LocalGroup chunks(3, "timeout_ms=20000,chunk_value_count=1024");
  EXPECT_EQ(kernels_of(chunks, "paper-gl8", 5000), 0u);
  EXPECT_EQ(kernels_of(chunks, "paper-gl8", 3000), 3u);
}

/** The same moves by the stages. */
TEST(Fused, ScheduleHierarchical_SameBits) {
  const LocalGroup group(4);
  EXPECT_EQ(group.run([&](int rank, gqsgd_comm comm) {
    std::string found;
    for (const gqsgd_dtype dtype : {GQSGD_FLOAT16, GQSGD_BFLOAT16, GQSGD_FLOAT32, GQSGD_FLOAT64}) {
      for (const char* quantizer : {"paper-gl8", "paper-ge4", "blocks-8", "none"}) {
        for (const gqsgd_schedule schedule : {GQSGD_SCHEDULE_DIRECT, GQSGD_SCHEDULE_HIERARCHICAL}) {
          for (const size_t value_count : {1, 31, 4097, 9001}) {
            Operation call = direct(quantizer);
            call.schedule = schedule;
            call.op = value_count % 3 == 0 ? GQSGD_SUM : GQSGD_MEAN;
            found += compare_typed(comm, rank, 4, call, dtype, value_count);
          }
        }
      }
    }
    return found;
  }),
            "");
}

/** Calls that are fused and calls that are not, alternately, and no host waits between them. */
TEST(Fused, OtherCalls_SameBits) {
  const LocalGroup group(4);
  std::vector<Operation> calls;
  for (size_t k = 0; k < 40; ++k) {
    Operation call = direct(k % 3 == 0 ? "rotated-8" : k % 3 == 1 ? "paper-gl8" : "paper-ge4");
    if (k % 5 == 4) call.schedule = GQSGD_SCHEDULE_AUTO;
    call.in_place = k % 2 == 0;
    call.step = k;
    calls.push_back(call);
  }
  const Calls made(4, calls, {4000, 900, 9001, 1, 40});
  const uint32_t before = fused_kernels_enqueued();
  EXPECT_EQ(group.run([&](int rank, gqsgd_comm comm) { return made.make_and_compare(rank, comm); }),
            "");
  EXPECT_EQ(fused_kernels_enqueued() - before, 4u * 26u);
}

/** NaN, infinity and zeros say what the whole result is. */
TEST(Fused, NonfiniteValues_SameBits) {
  const LocalGroup group(3);
  for (const float special : {std::nanf(""), std::numeric_limits<float>::infinity(), 0.0f}) {
    auto inputs = std::vector<Values>(3, Values(6000, 0.0f));
    inputs[1][5000] = special;
    const Operation call = direct("paper-gl8,nonfinite=poison");
    const Values expected = simulate(call, inputs);
    EXPECT_EQ(group.run([&](int rank, gqsgd_comm comm) -> std::string {
      StreamCall made(inputs[static_cast<size_t>(rank)]);
      if (made.make(comm, call) != GQSGD_OK || !made.wait()) return gqsgd_last_error();
      return difference(made.result(), expected);
    }),
              "");
  }
}

/** Groups share a device: each takes half of what is left, until there is too little. */
TEST(FusedShare, OneDevice_HalfOfWhatIsLeft) {
  set_fused_blocks_at_once(16);
  {
    const LocalGroup first(4);  // 2 blocks each
    EXPECT_EQ(kernels_of(first, "paper-gl8"), 4u);
    const LocalGroup second(4);  // 1 each
    EXPECT_EQ(kernels_of(second, "paper-gl8"), 4u);
    const LocalGroup third(4);
    EXPECT_EQ(kernels_of(third, "paper-gl8"), 0u);
    EXPECT_EQ(kernels_of(first, "paper-gl8"), 4u);
  }
  const LocalGroup fourth(8);
  EXPECT_EQ(kernels_of(fourth, "paper-gl8"), 8u);
  set_fused_blocks_at_once(kFusedBlocks);
}

TEST(FusedShare, SeveralDevices_EachOfItsOwn) {
  set_fused_blocks_at_once(4);
  const LocalGroup group(5);  // two ranks on devices 0 and 1, one on device 2
  const Calls calls(5, {direct(), direct(), direct()}, {9000, 200, 5000});
  const uint32_t before = fused_kernels_enqueued();
  EXPECT_EQ(group.run([&](int rank, gqsgd_comm comm) {
    EXPECT_TRUE(host_device().set_current(rank % 3).ok());
    return calls.make_and_compare(rank, comm);
  }),
            "");
  EXPECT_EQ(fused_kernels_enqueued() - before, 15u);
  EXPECT_EQ(fused_kernels_before_reach(), before) << "a kernel may wait while CUDA waits for it";
  set_fused_blocks_at_once(kFusedBlocks);
}

/** Makes a call on as many devices; returns its kernels. */
uint32_t kernels_on_own_devices(const LocalGroup& group) {
  const Calls calls(group.size(), {direct()}, {9000});
  const uint32_t before = fused_kernels_enqueued();
  EXPECT_EQ(group.run([&](int rank, gqsgd_comm comm) {
    EXPECT_TRUE(host_device().set_current(rank).ok());
    return calls.make_and_compare(rank, comm);
  }),
            "");
  return fused_kernels_enqueued() - before;
}

/** Each has as many peers as CUDA allows, or would have more. */
TEST(FusedShare, MoreDevicesThanPeers_Stages) {
  EXPECT_EQ(kernels_on_own_devices(LocalGroup(9)), 9u);
  EXPECT_EQ(kernels_on_own_devices(LocalGroup(10)), 0u);
}

Device device_without_room_for_peers() {
  Device device = host_device();
  device.reach = [](int32_t, bool* direct) { return *direct = false, Status(); };
  return device;
}

/** Others than this library may have given a device its peers. */
TEST(NoRoomForPeers, Copies_SameBits) {
  static const Device device = device_without_room_for_peers();
  const LocalGroup group(3);
  const UseHostDevice here(device);
  Operation copies = direct();
  copies.schedule = GQSGD_SCHEDULE_HIERARCHICAL;
  const Calls calls(3, {copies}, {9000});
  EXPECT_EQ(group.run([&](int rank, gqsgd_comm comm) {
    EXPECT_TRUE(host_device().set_current(rank).ok());
    return calls.make_and_compare(rank, comm);
  }),
            "");
}

TEST(NoRoomForPeers, Kernels_SaidByARankAndKnownToAll) {
  static const Device device = device_without_room_for_peers();
  const LocalGroup group(3);
  const UseHostDevice here(device);
  std::atomic<int> said{0};
  EXPECT_EQ(group.run([&](int rank, gqsgd_comm comm) -> std::string {
    EXPECT_TRUE(host_device().set_current(rank).ok());
    StreamCall made(gradients(1, 5000, 2)[0]);
    const gqsgd_status status = made.make(comm, direct());
    const std::string sentence = gqsgd_last_error();
    if (!made.wait() || !made.untouched()) return "values were written";
    const bool here_first = sentence.find("cannot read the memory of device") != std::string::npos;
    if (status == GQSGD_BACKEND && here_first) return ++said, "";
    return status == GQSGD_REMOTE_ERROR || status == GQSGD_REVOKED ? "" : sentence;
  }),
            "");
  EXPECT_GT(said, 0);
}

/** A kernel that never begins: the others leave in time, and the group is broken on all ranks. */
TEST(LostKernel, NextCall_NamesIt) {
  const LocalGroup group(3, "timeout_ms=300");
  EXPECT_EQ(make_direct(group), "");
  lose_fused_kernels_of(1);
  const auto begun = Clock::now();
  std::atomic<int> left{0};
  EXPECT_EQ(group.run([&](int rank, gqsgd_comm comm) -> std::string {
    StreamCall made(gradients(1, 5000, 2)[0]);
    if (made.make(comm, direct()) != GQSGD_OK) return gqsgd_last_error();
    if (!made.wait()) return "the stream does not get through";
    if (!made.untouched()) return "values were written";
    left += rank == 1 ? 0 : 1;
    for (int k = 0; k < 10000 && left < 2; ++k) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    const gqsgd_status status = made.make(comm, direct());
    const std::string sentence = gqsgd_last_error();
    const bool named = sentence.find("for the start or norms of rank 1") != std::string::npos;
    if (status != GQSGD_TIMEOUT || !named) return gqsgd_status_name(status) + (": " + sentence);
    return gqsgd_comm_status(comm) == GQSGD_TIMEOUT ? "" : "gqsgd_comm_status says something else";
  }),
            "");
  EXPECT_LT(Clock::now() - begun, std::chrono::seconds(9));
  lose_fused_kernels_of(-1);
}

TEST(LostKernel, Request_Ends) {
  const LocalGroup group(3, "timeout_ms=300");
  lose_fused_kernels_of(2);
  EXPECT_EQ(group.run([](int rank, gqsgd_comm comm) -> std::string {
    StreamCall made(gradients(1, 5000, 2)[0]);
    gqsgd_request request = nullptr;
    if (made.start(comm, direct(), &request) != GQSGD_OK) return gqsgd_last_error();
    const gqsgd_status status = gqsgd_request_wait(request);
    if (!made.wait()) return "the stream does not get through";
    if (rank == 2) return "";  // It may have ended before the others gave up.
    // The other one may have broken the group before.
    const bool told = status == GQSGD_TIMEOUT || status == GQSGD_REVOKED;
    return told ? "" : gqsgd_status_name(status);
  }),
            "");
  lose_fused_kernels_of(-1);
}

/** Without a deadline an abort is what ends them. */
TEST(LostKernel, AfterAnAbort_NotWaitedFor) {
  const LocalGroup group(3, "timeout_ms=-1");
  lose_fused_kernels_of(1);
  EXPECT_EQ(group.run([](int rank, gqsgd_comm comm) -> std::string {
    StreamCall made(gradients(1, 5000, 2)[0]);
    if (made.make(comm, direct()) != GQSGD_OK) return gqsgd_last_error();
    if (rank == 0) {
      if (made.wait(50)) return "the kernel has not waited";
      if (gqsgd_comm_abort(comm) != GQSGD_OK) return gqsgd_last_error();
    }
    if (!made.wait()) return "the stream does not get through";
    if (!made.untouched()) return "values were written";
    if (rank == 1) std::this_thread::sleep_for(std::chrono::milliseconds(200));
    return made.make(comm, direct()) == GQSGD_ABORTED ? "" : gqsgd_last_error();
  }),
            "");
  lose_fused_kernels_of(-1);
}

TEST(LostKernel, Destroy_DoesNotWait) {
  const size_t before = allocations_in_use();
  {
    const LocalGroup group(2, "timeout_ms=300");
    lose_fused_kernels_of(0);
    EXPECT_EQ(group.run([](int, gqsgd_comm comm) -> std::string {
      StreamCall made(gradients(1, 5000, 2)[0]);
      if (made.make(comm, direct()) != GQSGD_OK) return gqsgd_last_error();
      return made.wait() ? "" : "the stream does not get through";
    }),
              "");
  }
  lose_fused_kernels_of(-1);
  EXPECT_EQ(allocations_in_use(), before);
}

}  // namespace
}  // namespace gq::test
