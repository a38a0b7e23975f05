// Graphs of allreduces by one kernel of each rank: no host meets another one at a replay, and what
// goes wrong ends in time. What graphs of all transports do is in
// tests/gpu/stream_calls/graphs_test.cpp.
#include <gtest/gtest.h>

#include <barrier>
#include <chrono>
#include <thread>

#include "tests/gpu/stream_calls/counted_call.h"
#include "tests/gpu/streams/local_group.h"
#include "tests/support/host_device/host_fused.h"
#include "tests/support/host_device/host_stages.h"

namespace gq::test {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

Operation usual(const char* quantizer = "paper-ge8") { return {quantizer, GQSGD_SCHEDULE_DIRECT}; }

/** A captured call of one rank, which was made once: the counter is at 1. */
struct Replayed {
  explicit Replayed(const Operation& operation, size_t value_count = kCount)
      : call(operation, value_count), value_count(value_count) {}

  std::string capture_at(gqsgd_comm comm, int rank, int ranks) {
    const std::vector<Values> inputs = inputs_of(0, ranks, value_count);
    return capture(comm, &call, stream, inputs[static_cast<size_t>(rank)], &graph);
  }
  void give(uint64_t step, int rank, int ranks) {
    call.give(inputs_of(step, ranks, value_count)[static_cast<size_t>(rank)]);
  }

  CountedCall call;
  size_t value_count;
  HostGraph graph;
  OwnStream stream;
};

TEST(FusedGraphs, Replays_OneKernelOfEachRank) {
  for (const int ranks : {2, 5, 8}) {
    const LocalGroup group(ranks);
    Operation operation = usual("blocks-8");
    operation.in_list = ranks == 5;
    if (ranks == 2) operation.counts = {1000, 0, 1900, 100};
    if (ranks == 8) operation.counts = std::vector<size_t>(100, 30);
    const Values expected = expected_of(operation, 1, ranks);
    const uint32_t before = fused_kernels_enqueued();
    EXPECT_EQ(group.run([&](int rank, gqsgd_comm comm) -> std::string {
      Replayed made(operation);
      const std::string failure = made.capture_at(comm, rank, ranks);
      if (!failure.empty()) return failure;
      made.give(1, rank, ranks);
      made.graph.replay(made.stream.get());
      if (!made.stream.synchronize()) return "the stream does not get through";
      return difference(made.call.result(), expected);
    }),
              "");
    EXPECT_EQ(fused_kernels_enqueued() - before, 2u * static_cast<uint32_t>(ranks));
  }
}

/** A call on another long list comes between: a graph has segments of its own. */
TEST(FusedGraphs, ListBetweenReplays_SameBits) {
  constexpr int kRanks = 3;
  const LocalGroup group(kRanks);
  Operation operation = usual("blocks-8"), between = usual("blocks-8");
  operation.counts = std::vector<size_t>(100, 30);
  between.counts = std::vector<size_t>(60, 50);
  const Values expected = expected_of(operation, 2, kRanks);
  EXPECT_EQ(group.run([&](int rank, gqsgd_comm comm) -> std::string {
    Replayed made(operation), other(between);
    std::string failure = made.capture_at(comm, rank, kRanks);
    other.give(1, rank, kRanks);
    if (failure.empty() && other.call.make(comm, other.stream) != GQSGD_OK) {
      failure = gqsgd_last_error();
    }
    if (!failure.empty()) return failure;
    made.give(2, rank, kRanks);
    made.graph.replay(made.stream.get());
    if (!made.stream.synchronize()) return "the stream does not get through";
    return difference(made.call.result(), expected);
  }),
            "");
}

/** Calls on one list, on another one of as many tensors, on one of fewer, and on the first again:
 *  memory has places of the last one. A replay in between makes every later call write them. */
TEST(FusedGraphs, RepeatedList_WrittenOnce) {
  constexpr int kRanks = 2;
  const LocalGroup group(kRanks);
  Operation operation = usual("blocks-8"), fewer = operation;
  operation.counts = std::vector<size_t>(100, 30);
  fewer.counts = std::vector<size_t>(60, 50);
  std::vector<Values> expected;
  for (const uint64_t step : {6, 9}) expected.push_back(expected_of(operation, step, kRanks));
  const uint32_t before = segment_lists_enqueued();
  std::barrier all(kRanks);
  EXPECT_EQ(group.run([&](int rank, gqsgd_comm comm) -> std::string {
    Replayed first(operation), second(operation), third(fewer);
    std::string failure;
    const auto expect_written = [&](uint32_t lists) {
      all.arrive_and_wait();
      const uint32_t made = segment_lists_enqueued() - before;
      all.arrive_and_wait();
      if (made != kRanks * lists) failure += std::to_string(made) + " writes\n";
    };
    const auto make = [&](Replayed& made, uint64_t step) {
      made.give(step, rank, kRanks);
      if (made.call.make(comm, first.stream) != GQSGD_OK) failure += gqsgd_last_error();
      if (!first.stream.synchronize()) failure += "the stream does not get through";
    };
    for (const uint64_t step : {0, 1, 2}) make(first, step);
    expect_written(1);
    make(second, 3);
    expect_written(2);
    make(third, 4);
    expect_written(3);
    for (const uint64_t step : {5, 6}) make(first, step);
    expect_written(4);
    failure += difference(first.call.result(), expected[0]);
    failure += capture_only(comm, &third.call, third.stream, &third.graph);
    expect_written(5);
    make(first, 7);
    expect_written(6);
    third.give(8, rank, kRanks);
    third.graph.replay(third.stream.get());
    make(first, 9);
    expect_written(7);
    return failure + difference(first.call.result(), expected[1]);
  }),
            "");
}

/** Rank 0's host has enqueued all of its replays before the others begin with theirs. */
TEST(FusedGraphs, Graphs_NeedNoHostAgreement) {
  constexpr int kRanks = 3;
  const LocalGroup group(kRanks);
  const std::vector<Values> same = inputs_of(0, kRanks);
  Operation last = usual();
  last.step = 6;
  const Values expected = simulate(last, same);
  EXPECT_EQ(group.run([&](int rank, gqsgd_comm comm) -> std::string {
    Replayed made(usual());
    const std::string failure = made.capture_at(comm, rank, kRanks);
    if (!failure.empty()) return failure;
    std::this_thread::sleep_for(milliseconds(100 * rank));
    for (int k = 0; k < 6; ++k) made.graph.replay(made.stream.get());
    if (!made.stream.synchronize()) return "the stream does not get through";
    return difference(made.call.result(), expected);
  }),
            "");
}

/** Two graphs, and calls by kernels and by stages, on streams of their own; no host waits. */
TEST(FusedGraphs, CallsOfAllKinds_SameBits) {
  constexpr int kRanks = 3;
  const LocalGroup group(kRanks);
  const Operation kinds[] = {usual("paper-gl8"), usual("blocks-8"), usual("paper-ge4"),
                             usual("rotated-8")};
  const std::vector<Values> same = inputs_of(0, kRanks);
  const auto expected = [&](size_t kind, uint64_t step) {
    Operation operation = kinds[kind];
    operation.step = step;
    return simulate(operation, same);
  };
  const Values of_first = expected(0, 10), of_second = expected(1, 9), by_kernel = expected(2, 7),
               by_stages = expected(3, 8);
  EXPECT_EQ(group.run([&](int rank, gqsgd_comm comm) -> std::string {
    const Values& values = same[static_cast<size_t>(rank)];
    Replayed first(kinds[0]), second(kinds[1]);
    CountedCall kernel(kinds[2]), stages(kinds[3]);
    const OwnStream third, fourth;
    std::string failure = first.capture_at(comm, rank, kRanks);            // step 0
    if (failure.empty()) failure = second.capture_at(comm, rank, kRanks);  // 1
    kernel.give(values);
    stages.give(values);
    for (int k = 0; k < 2; ++k) {  // 2 to 5
      if (kernel.make(comm, third) != GQSGD_OK) return gqsgd_last_error();
      if (stages.make(comm, fourth) != GQSGD_OK) return gqsgd_last_error();
    }
    first.stream.sleep(20 * rank);
    first.graph.replay(first.stream.get());                                // 6
    if (kernel.make(comm, third) != GQSGD_OK) return gqsgd_last_error();   // 7
    if (stages.make(comm, fourth) != GQSGD_OK) return gqsgd_last_error();  // 8
    second.graph.replay(second.stream.get());                              // 9
    first.graph.replay(first.stream.get());                                // 10
    const OwnStream* const streams[] = {&first.stream, &second.stream, &third, &fourth};
    for (const OwnStream* stream : streams) {
      if (!stream->synchronize()) return "a stream does not get through";
    }
    return failure + difference(first.call.result(), of_first) +
           difference(second.call.result(), of_second) + difference(kernel.result(), by_kernel) +
           difference(stages.result(), by_stages);
  }),
            "");
}

/** Calls on host memory and on the device count on, and so does what is captured later. */
TEST(FusedGraphs, CallsOnHostMemory_CountersAgree) {
  constexpr int kRanks = 2;
  const LocalGroup group(kRanks);
  const std::vector<Values> same = inputs_of(0, kRanks);
  Operation third = usual(), fourth = usual();
  third.step = 3;
  fourth.step = 4;
  const Values by_host = simulate(third, same), by_device = simulate(fourth, same);
  EXPECT_EQ(group.run([&](int rank, gqsgd_comm comm) -> std::string {
    const Values& values = same[static_cast<size_t>(rank)];
    Replayed made(usual());
    std::string failure = made.capture_at(comm, rank, kRanks);
    for (int k = 0; k < 2; ++k) made.graph.replay(made.stream.get());  // 1 and 2
    const Quantizer quantizer(usual().quantizer);
    Values result(kCount);
    if (gqsgd_allreduce(comm, quantizer.get(), values.data(), result.data(), kCount, GQSGD_FLOAT32,
                        GQSGD_MEAN, nullptr, nullptr) != GQSGD_OK) {
      return gqsgd_last_error();
    }
    failure += difference(result, by_host);
    failure += capture_only(comm, &made.call, made.stream, &made.graph);
    made.graph.replay(made.stream.get());
    if (!made.stream.synchronize()) return "the stream does not get through";
    uint64_t counter = 0;
    if (gqsgd_comm_counter(comm, &counter) != GQSGD_OK) return gqsgd_last_error();
    if (counter != 5) return "the counter is " + std::to_string(counter);
    return failure + difference(made.call.result(), by_device);
  }),
            "");
}

/** "" if a call that was made once is refused in a capture, in these words. */
std::string refused(gqsgd_comm comm, int rank, int ranks, const Operation& operation,
                    const std::string& part, size_t value_count = kCount) {
  CountedCall call(operation, value_count);
  const OwnStream stream;
  call.give(inputs_of(0, ranks, value_count)[static_cast<size_t>(rank)]);
  if (call.make(comm, stream) != GQSGD_OK || !stream.synchronize()) return gqsgd_last_error();
  HostGraph graph;
  graph.begin_capture(stream.get());
  const gqsgd_status status = call.make(comm, stream);
  const std::string sentence = gqsgd_last_error();
  graph.end_capture(stream.get());
  const bool as_meant = status == GQSGD_UNSUPPORTED && sentence.find(part) != std::string::npos;
  return as_meant ? "" : std::string(gqsgd_status_name(status)) + ": " + sentence + "\n";
}

TEST(FusedGraphs, CallsOfHostAgreement_Refused) {
  constexpr int kRanks = 2;
  const LocalGroup group(kRanks);
  EXPECT_EQ(group.run([](int rank, gqsgd_comm comm) {
    Operation ring = usual("paper-gl8"), sparse = usual("paper-gl8");
    ring.schedule = GQSGD_SCHEDULE_RING;
    sparse.schedule = GQSGD_SCHEDULE_SPARSE;
    return refused(comm, rank, kRanks, ring, "none but allreduces of schedule direct") +
           refused(comm, rank, kRanks, sparse, "schedule sparse") +
           refused(comm, rank, kRanks, usual("rotated-8"), "neither rotate") +
           refused(comm, rank, kRanks, usual("none"), "not too many", kFusedValuesMax / 4 + 1) +
           refused(comm, rank, kRanks, usual(), "not too many", kFusedValuesMax + 1);
  }),
            "");
}

TEST(FusedGraphs, NoFreeBlocks_Refused) {
  set_fused_blocks_at_once(4);
  {
    const LocalGroup group(3);
    EXPECT_EQ(group.run([](int rank, gqsgd_comm comm) {
      return refused(comm, rank, 3, usual(), "do not fit on the device");
    }),
              "");
  }
  set_fused_blocks_at_once(kFusedBlocks);
}

/** Kernels of graphs need queues of their own; others need no more than one for each rank. */
TEST(FusedGraphs, RanksShareQueues_Refused) {
  set_fused_queues(5);
  {
    const LocalGroup pair(2), three(3);
    EXPECT_EQ(pair.run([](int rank, gqsgd_comm comm) {
      Replayed made(usual());
      return made.capture_at(comm, rank, 2);
    }),
              "");
    const uint32_t before = fused_kernels_enqueued();
    EXPECT_EQ(three.run([](int rank, gqsgd_comm comm) {
      return refused(comm, rank, 3, usual(), "has 5 ranks, whose streams share its 5 queues");
    }),
              "");
    EXPECT_EQ(fused_kernels_enqueued() - before, 3u);
    const LocalGroup one_more(1);
    EXPECT_EQ(one_more.run([](int rank, gqsgd_comm comm) {
      return refused(comm, rank, 1, usual(), "do not fit on the device");
    }),
              "");
  }
  set_fused_queues(1);
  {
    const LocalGroup group(2);  // a device each
    EXPECT_EQ(group.run([](int rank, gqsgd_comm comm) {
      EXPECT_TRUE(host_device().set_current(rank).ok());
      Replayed made(usual());
      return made.capture_at(comm, rank, 2);
    }),
              "");
  }
  set_fused_queues(kFusedQueues);
}

/** Graphs of different calls, whose kernels have as many blocks: found, and nothing is written.
 *  Rank 1 replays that of a call of `other_count` values. */
void expect_found(const Operation& operation, const Operation& other_operation, size_t other_count,
                  const char* words) {
  constexpr int kRanks = 3;
  const LocalGroup group(kRanks);
  const Values expected = expected_of(operation, 9, kRanks);
  EXPECT_EQ(group.run([&](int rank, gqsgd_comm comm) -> std::string {
    Replayed made(operation), other(other_operation, other_count);
    std::string failure = made.capture_at(comm, rank, kRanks);
    if (failure.empty()) failure = other.capture_at(comm, rank, kRanks);
    if (!failure.empty()) return failure;
    Replayed& taken = rank == 1 ? other : made;
    taken.give(1, rank, kRanks);
    taken.graph.replay(taken.stream.get());
    if (!taken.stream.synchronize()) return "the stream does not get through";
    if (!taken.call.untouched()) return "something was written";
    if (gqsgd_comm_status(comm) != GQSGD_MISMATCH) return "nothing was found";
    const std::string sentence = gqsgd_last_error();
    if (sentence.find(words) == std::string::npos) return sentence;
    if (gqsgd_comm_set_counter(comm, 9) != GQSGD_OK) return gqsgd_last_error();
    made.give(9, rank, kRanks);
    made.graph.replay(made.stream.get());
    if (!made.stream.synchronize()) return "the stream does not get through";
    return difference(made.call.result(), expected);
  }),
            "");
}

TEST(FusedGraphs, DifferentCalls_Found) {
  expect_found(usual(), usual(), kCount / 2, "rank 1 has 1500");
  Operation list = usual();
  list.in_list = true;
  expect_found(usual(), list, kCount, "rank 1 has allreduce_many");
}

/** As many values in other tensors. */
TEST(FusedGraphs, DifferentLists_Found) {
  Operation list = usual("blocks-8"), other = list;
  list.counts = {1000, 2000};
  other.counts = {1001, 1999};
  expect_found(list, other, kCount, "counts differ");
}

/** A rank replays once less: the others leave in time, and so does all that comes later. */
TEST(LostReplay, Timeout_NamedInTime) {
  constexpr int kRanks = 3;
  const LocalGroup group(kRanks);
  std::barrier all(kRanks);
  const auto begun = Clock::now();
  EXPECT_EQ(group.run([&](int rank, gqsgd_comm comm) -> std::string {
    Replayed made(usual());
    std::string failure = made.capture_at(comm, rank, kRanks);
    if (failure.empty() && gqsgd_comm_set_timeout(comm, 2000) == GQSGD_OK) {
      failure = capture_only(comm, &made.call, made.stream, &made.graph);
    }
    made.give(1, rank, kRanks);
    all.arrive_and_wait();
    if (!failure.empty()) return failure;
    if (rank != 1) {
      for (int k = 0; k < 2; ++k) made.graph.replay(made.stream.get());
      if (!made.stream.synchronize()) return "the stream does not get through";
    }
    all.arrive_and_wait();
    if (rank == 1) made.graph.replay(made.stream.get());
    if (!made.stream.synchronize()) return "the stream does not get through";
    if (!made.call.untouched()) return "something was written";
    const gqsgd_status asked = gqsgd_comm_status(comm);
    const std::string sentence = gqsgd_last_error();
    const bool told = asked == GQSGD_TIMEOUT && sentence.find("of rank 1") != std::string::npos;
    if (!told) return gqsgd_status_name(asked) + (": " + sentence);
    return made.call.make(comm, made.stream) == GQSGD_TIMEOUT ? "" : gqsgd_last_error();
  }),
            "");
  EXPECT_LT(Clock::now() - begun, std::chrono::seconds(30));
}

}  // namespace
}  // namespace gq::test
