// Captured calls: each replay has the bits of an eager call with the next step, of the values that
// are there by then; the counter of host and device is one; differences are found at each replay.
#include <gtest/gtest.h>

#include "tests/gpu/stream_calls/counted_call.h"
#include "tests/gpu/stream_calls/stream_group.h"
#include "tests/support/monitor.h"

namespace gq::test {
namespace {

Operation usual() { return {"blocks-8", GQSGD_SCHEDULE_DIRECT}; }

#ifdef GQ_LOCAL_GROUP
// What one kernel of each rank makes, where hosts would have to meet for anything else.
constexpr char kOptions[] = "timeout_ms=20000";
constexpr char kChunks[] = "timeout_ms=20000";
constexpr std::pair<const char*, gqsgd_schedule> kCases[] = {
    {"blocks-8", GQSGD_SCHEDULE_DIRECT},
    {"paper-gl8", GQSGD_SCHEDULE_DIRECT},
    {"paper-ge8", GQSGD_SCHEDULE_AUTO},
    {"paper-gl4,rounding=correlated", GQSGD_SCHEDULE_DIRECT},
    {"paper-ge4", GQSGD_SCHEDULE_DIRECT},
    {"relative-8", GQSGD_SCHEDULE_DIRECT},
    {"paper-gl4,block=64,rescale=true", GQSGD_SCHEDULE_DIRECT},
};
#else
constexpr char kOptions[] = "chunk_value_count=128";
constexpr char kChunks[] = "chunk_value_count=1024";
constexpr std::pair<const char*, gqsgd_schedule> kCases[] = {
    {"blocks-8", GQSGD_SCHEDULE_DIRECT},
    {"paper-gl8", GQSGD_SCHEDULE_RING},
    {"paper-ge8", GQSGD_SCHEDULE_TREE},
    {"paper-gl4,norm=2:2", GQSGD_SCHEDULE_BUTTERFLY},
    {"rotated-4-8", GQSGD_SCHEDULE_DIRECT},
    {"relative-8", GQSGD_SCHEDULE_DIRECT},
    {"adaptive-4", GQSGD_SCHEDULE_DIRECT},
    {"rice-4", GQSGD_SCHEDULE_DIRECT},
    {"paper-gl8,rotate=hadamard,rounding=correlated", GQSGD_SCHEDULE_NATIVE},
};
#endif

/** One eager call, two replays, another eager call: steps 0 to 3. */
std::string replay_twice(gqsgd_comm comm, int rank, int ranks, const Operation& operation,
                         const std::vector<Values>& expected) {
  const size_t r = static_cast<size_t>(rank);
  CountedCall call(operation);
  HostGraph graph;
  const OwnStream stream;
  if (gqsgd_comm_set_counter(comm, 0) != GQSGD_OK) return gqsgd_last_error();
  std::string failure = capture(comm, &call, stream, inputs_of(0, ranks)[r], &graph);
  if (!failure.empty()) return failure;
  failure = difference(call.result(), expected[0]);
  for (uint64_t step = 1; step < 4 && failure.empty(); ++step) {
    call.give(inputs_of(step, ranks)[r]);
    if (step == 3) {
      if (call.make(comm, stream) != GQSGD_OK) return gqsgd_last_error();
    } else {
      graph.replay(stream.get());
    }
    if (!stream.synchronize()) return "the stream does not get through";
    failure = difference(call.result(), expected[step]);
    uint64_t counter = 0;
    if (gqsgd_comm_counter(comm, &counter) != GQSGD_OK) return gqsgd_last_error();
    if (counter != step + 1) return "the counter is " + std::to_string(counter);
  }
  return failure.empty() ? "" : describe(operation) + ": " + failure;
}

TEST(Graphs, EagerCalls_SameBitsWithTheNextStep) {
  for (const int ranks : {1, 3}) {
    for (const auto& [quantizer, schedule] : kCases) {
      const StreamGroup group(ranks, kOptions);
      Operation operation = usual();
      operation.quantizer = quantizer;
      operation.schedule = schedule;
      std::vector<Values> expected;
      for (uint64_t step = 0; step < 4; ++step) {
        expected.push_back(expected_of(operation, step, ranks));
      }
      EXPECT_EQ(group.run([&](int rank, gqsgd_comm comm) {
        return replay_twice(comm, rank, ranks, operation, expected);
      }),
                "");
    }
  }
}

/** A thread that asks disturbs neither; replays have no host that could count them. */
TEST(Graphs, CountersReadMeanwhile_ReplaysNotCounted) {
  constexpr int kRanks = 3;
  const StreamGroup group(kRanks, kOptions);
  Operation last = usual();
  last.step = 5;
  const Values expected = simulate(last, inputs_of(0, kRanks));
  EXPECT_EQ(group.run([&](int rank, gqsgd_comm comm) -> std::string {
    CountedCall call(usual());
    HostGraph graph;
    const OwnStream stream;
    const Values values = inputs_of(0, kRanks)[static_cast<size_t>(rank)];
    Monitor monitor(comm);
    std::string failure = capture(comm, &call, stream, values, &graph);
    Stats captured{}, replayed{};
    if (failure.empty()) failure = read_stats(comm, &captured);
    for (int k = 0; k < 5 && failure.empty(); ++k) graph.replay(stream.get());
    if (!stream.synchronize()) return "the stream does not get through";
    if (failure.empty()) failure = read_stats(comm, &replayed);
    failure += monitor.end();
    if (captured[0] != 1 || captured != replayed) failure += "replays were counted";
    return failure + difference(call.result(), expected);
  }),
            "");
}

/** Replays without a wait between them, and eager calls on another stream. */
TEST(Graphs, OtherCalls_Ordered) {
  constexpr int kRanks = 3;
  const StreamGroup group(kRanks);
  const std::vector<Values> same = inputs_of(0, kRanks);
  std::vector<Values> expected;
  for (uint64_t step = 0; step < 7; ++step) {
    Operation operation = usual();
    operation.step = step;
    expected.push_back(simulate(operation, same));
  }
  EXPECT_EQ(group.run([&](int rank, gqsgd_comm comm) -> std::string {
    const Values& values = same[static_cast<size_t>(rank)];
    CountedCall captured(usual()), eager(usual());
    HostGraph graph;
    const OwnStream stream, other;
    const std::string failure = capture(comm, &captured, stream, values, &graph);
    if (!failure.empty()) return failure;
    eager.give(values);
    stream.sleep(50);
    for (int k = 0; k < 3; ++k) graph.replay(stream.get());  // steps 1 to 3
    if (eager.make(comm, other) != GQSGD_OK) return gqsgd_last_error();
    for (int k = 0; k < 2; ++k) graph.replay(stream.get());  // 5 and 6
    if (!stream.synchronize() || !other.synchronize()) return "a stream does not get through";
    return difference(eager.result(), expected[4]) + difference(captured.result(), expected[6]);
  }),
            "");
}

/** Workspace that grows, and kinds of calls without end, leave to a graph what it uses. */
TEST(Graphs, WorkspaceOfAGraph_Kept) {
  constexpr int kRanks = 2;
  const StreamGroup group(kRanks, kChunks);
  Operation operation = usual();
  const Values first = expected_of(operation, 1, kRanks),
               second = expected_of(operation, 72, kRanks);
  EXPECT_EQ(group.run([&](int rank, gqsgd_comm comm) -> std::string {
    const size_t r = static_cast<size_t>(rank);
    CountedCall call(operation);
    HostGraph graph;
    const OwnStream stream;
    const std::string failure = capture(comm, &call, stream, inputs_of(0, kRanks)[r], &graph);
    if (!failure.empty()) return failure;
    call.give(inputs_of(1, kRanks)[r]);
    graph.replay(stream.get());
    if (!stream.synchronize()) return "the stream does not get through";
    if (call.result() != first) return "the first replay: " + difference(call.result(), first);
    for (size_t k = 0; k < 70; ++k) {  // steps 2 to 71
      const size_t value_count = 20 * kCount + k;
      CountedCall larger(operation, value_count);
      larger.give(Values(value_count, 1.0f));
      if (larger.make(comm, stream) != GQSGD_OK) return gqsgd_last_error();
      if (!stream.synchronize()) return "the stream does not get through";
    }
    call.give(inputs_of(72, kRanks)[r]);
    graph.replay(stream.get());
    if (!stream.synchronize()) return "the stream does not get through";
    return difference(call.result(), second);
  }),
            "");
}

TEST(Graphs, UnrepeatableCalls_Refused) {
  const StreamGroup group(1);
  const gqsgd_comm comm = group.comm(0);
  const OwnStream stream;
  const auto refused = [&](const char* part, const auto& make) {
    HostGraph graph;
    graph.begin_capture(stream.get());
    const gqsgd_status status = make();
    graph.end_capture(stream.get());
    EXPECT_EQ(status, GQSGD_UNSUPPORTED) << gqsgd_last_error();
    EXPECT_NE(std::string(gqsgd_last_error()).find(part), std::string::npos) << gqsgd_last_error();
  };
  CountedCall call(usual());
  call.give(inputs_of(0, 1)[0]);
  refused("has not been made", [&] { return call.make(comm, stream); });
  ASSERT_EQ(call.make(comm, stream), GQSGD_OK) << gqsgd_last_error();
  ASSERT_TRUE(stream.synchronize());
  StreamCall at_a_step(inputs_of(0, 1)[0]);
  const Quantizer quantizer(usual().quantizer);
  const DeviceMemory memory(400);
  refused("numbers of step 7", [&] {
    return gqsgd_allreduce(comm, quantizer.get(), memory.as<float>(), memory.as<float>(), 100,
                           GQSGD_FLOAT32, GQSGD_SUM, config_at(7, 0), stream.get());
  });
  refused("a request cannot be tested", [&] {
    gqsgd_request request = nullptr;
    EXPECT_EQ(gqsgd_allreduce_start(comm, quantizer.get(), memory.as<float>(), memory.as<float>(),
                                    100, GQSGD_FLOAT32, GQSGD_SUM, nullptr, stream.get(), &request),
              GQSGD_OK);
    return gqsgd_request_wait(request);
  });
  uint64_t counter = 0;
  ASSERT_EQ(gqsgd_comm_counter(comm, &counter), GQSGD_OK);
  EXPECT_EQ(counter, 1u) << "what is captured or refused is not counted";
}

/** The gate of each replay closes where ranks differ; the next replay is none the worse. */
TEST(Graphs, DifferenceAtAReplay_Found) {
  constexpr int kRanks = 3;
  const StreamGroup group(kRanks);
  const Values expected = expected_of(usual(), 9, kRanks);
  EXPECT_EQ(group.run([&](int rank, gqsgd_comm comm) -> std::string {
    const size_t r = static_cast<size_t>(rank);
    CountedCall call(usual());
    HostGraph graph;
    const OwnStream stream;
    const std::string failure = capture(comm, &call, stream, inputs_of(0, kRanks)[r], &graph);
    if (!failure.empty()) return failure;
    call.give(inputs_of(9, kRanks)[r]);
    if (gqsgd_comm_set_counter(comm, rank == 1 ? 8 : 5) != GQSGD_OK) return gqsgd_last_error();
    graph.replay(stream.get());
    if (!stream.synchronize()) return "the stream does not get through";
    if (!call.untouched()) return "something was written";
    if (gqsgd_comm_status(comm) != GQSGD_MISMATCH) return "nothing was found";
    if (std::string(gqsgd_last_error()).find("step differs") == std::string::npos) {
      return gqsgd_last_error();
    }
    if (gqsgd_comm_set_counter(comm, 9) != GQSGD_OK) return gqsgd_last_error();
    graph.replay(stream.get());
    if (!stream.synchronize()) return "the stream does not get through";
    return difference(call.result(), expected);
  }),
            "");
}

#ifndef GQ_LOCAL_GROUP

/** A call that rank 1 makes while the others replay a graph, and the failures of both. */
struct OtherCall {
  size_t value_count;
  gqsgd_status told, others;
  bool without_memory;
};

std::string make_beside_replays(gqsgd_comm comm, int rank, int ranks, const OtherCall& case_of) {
  const size_t r = static_cast<size_t>(rank);
  CountedCall call(usual());
  HostGraph graph;
  const OwnStream stream;
  std::string failure = capture(comm, &call, stream, inputs_of(0, ranks)[r], &graph);
  if (!failure.empty()) return failure;
  call.give(inputs_of(1, ranks)[r]);
  if (rank == 1) {
    CountedCall other(usual(), case_of.value_count);
    other.give(inputs_of(1, ranks, case_of.value_count)[r]);
    if (case_of.without_memory) fail_allocations_from(1);
    const gqsgd_status status = other.make(comm, stream);
    fail_allocations_from(0);
    if (status != case_of.told) return gqsgd_last_error();
    if (!other.untouched()) return "something was written";
  } else {
    graph.replay(stream.get());
  }
  if (!stream.synchronize()) return "the stream does not get through";
  if (!call.untouched()) return "something was written";
  if (rank != 1 && gqsgd_comm_status(comm) != case_of.others) return "nothing was found";
  call.give(inputs_of(2, ranks)[r]);
  graph.replay(stream.get());
  if (!stream.synchronize()) return "the stream does not get through";
  return difference(call.result(), expected_of(usual(), 2, ranks));
}

/** A rank that makes another call sees at once that the others replay a graph, and answers them,
 *  also where there is no memory for its call. */
TEST(Graphs, AnotherRankMakesAnotherCall_Answered) {
  constexpr int kRanks = 3;
  for (const OtherCall& case_of :
       {OtherCall{kCount / 2, GQSGD_MISMATCH, GQSGD_MISMATCH, false},
        OtherCall{90 * kCount, GQSGD_NO_MEMORY, GQSGD_REMOTE_ERROR, true}}) {
    const NcclGroup group(kRanks);
    EXPECT_EQ(group.run([&](int rank, gqsgd_comm comm) {
      return make_beside_replays(comm, rank, kRanks, case_of);
    }),
              "");
  }
}

#endif

TEST(Graphs, GroupAborted_Ended) {
  const StreamGroup group(2);
  EXPECT_EQ(group.run([&](int rank, gqsgd_comm comm) -> std::string {
    const size_t r = static_cast<size_t>(rank);
    CountedCall call(usual());
    HostGraph graph;
    const OwnStream stream;
    const std::string failure = capture(comm, &call, stream, inputs_of(0, 2)[r], &graph);
    if (!failure.empty() || rank == 1) return failure;
    call.give(inputs_of(1, 2)[r]);
    graph.replay(stream.get());
    if (stream.synchronize(100)) return "it ended without its peer";
    if (gqsgd_comm_abort(comm) != GQSGD_OK) return gqsgd_last_error();
    if (gqsgd_comm_status(comm) != GQSGD_ABORTED) return "it is not aborted";  // NCCL is called
    if (!stream.synchronize(5000)) return "the stream does not get through";
    return call.untouched() ? "" : "something was written";
  }),
            "");
}

}  // namespace
}  // namespace gq::test
