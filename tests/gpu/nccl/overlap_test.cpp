// Calls whose messages travel beside their stages: the bits of virtual ranks however long either of
// them takes, and other bits as soon as one wait between the two streams is left out.
#include <gtest/gtest.h>

#include "tests/gpu/nccl/group.h"

namespace gq::test {
namespace {

/** Aborts, and checks: then NCCL is called. */
void give_up(gqsgd_comm comm) {
  gqsgd_comm_abort(comm);
  gqsgd_comm_status(comm);
}

constexpr int kRanks = 3;
constexpr size_t kCount = 1200;
constexpr char kInChunks[] = "chunk_value_count=128";

Operation usual() { return {"paper-gl8", GQSGD_SCHEDULE_DIRECT}; }

/** What a test does to one call. */
struct Trouble {
  int rank = -1;          ///< whose stages are slow; -1: all ranks'
  int stage_time_ms = 0;  ///< longer than they take
  int exchange_time_ms = 0;
  int slow_exchange = 0;   ///< the only one that takes it; 0: all of them
  int forgotten_wait = 0;  ///< of that rank
};

/** "" or where the result differs from what virtual ranks make. */
std::string make_in(const Trouble& trouble, const NcclGroup& group, const Operation& call,
                    int* waits = nullptr) {
  const std::vector<Values> inputs = gradients(group.size(), kCount, 20 + call.step);
  const Values expected = simulate(call, inputs);
  StandInFaults faults{};
  faults.exchange_time_ms = trouble.exchange_time_ms;
  faults.slow_exchange = trouble.slow_exchange;
  set_faults(faults);
  const std::string found = group.run([&](int rank, gqsgd_comm comm) -> std::string {
    StreamCall made(inputs[static_cast<size_t>(rank)]);
    const int before = waits_asked_for();
    if (trouble.rank == rank) forget_wait(trouble.forgotten_wait);
    if (trouble.rank == rank || trouble.rank < 0) slow_down_stages(trouble.stage_time_ms);
    const gqsgd_status status = made.make(comm, call);
    if (rank == 0 && waits != nullptr) *waits = waits_asked_for() - before;
    if (status != GQSGD_OK) return gqsgd_last_error();
    if (made.wait(trouble.forgotten_wait > 0 ? 5000 : 60000)) {
      return difference(made.result(), expected);
    }
    give_up(comm);
    return made.wait() ? "the stream does not get through" : "nor when the group is aborted";
  });
  set_faults({});
  return found;
}

TEST(Overlap, HasTheSameBitsWhateverIsSlow) {
  for (const gqsgd_schedule schedule : kSchedules) {
    const NcclGroup group(kRanks, kInChunks);
    Operation call = usual();
    call.schedule = schedule;
    for (const Trouble& trouble : {Trouble{-1, 0, 0}, {-1, 0, 3}, {-1, 1, 0}, {2, 2, 0}}) {
      call.step += 1;
      EXPECT_EQ(make_in(trouble, group, call), "") << describe(call);
    }
  }
}

/** Each exchange waits for stages, and what comes after it for the exchange, in turn. Seen where
 * what is waited for, and nothing else, is late enough: a busy machine gets more than one chance.
 */
bool is_missed(int nth, const NcclGroup& group) {
  const int exchange = nth / 2;
  const bool messages_wait = nth % 2 == 0;
  Operation call = usual();
  for (int time_ms = 4; time_ms < 1000; time_ms *= 3) {
    call.step += 1;
    const Trouble trouble =
        messages_wait ? Trouble{0, time_ms, 0, 0, nth} : Trouble{0, 0, time_ms, exchange, nth};
    if (!make_in(trouble, group, call).empty()) return true;
  }
  return false;
}

/** The first wait is for earlier calls, of which there are none under way here. Messages that do
 * not keep their order may also wait for ever. */
TEST(Overlap, IsWrongWithoutAnyOfItsWaits) {
  int waits = 10;
  for (int nth = 2; nth <= waits; ++nth) {
    const NcclGroup group(kRanks, kInChunks);
    EXPECT_EQ(make_in({}, group, usual()), "");
    EXPECT_EQ(make_in({}, group, usual(), &waits), "");
    EXPECT_TRUE(is_missed(nth, group)) << "wait " << nth << " of " << waits;
  }
  EXPECT_GE(waits, 10);
}

TEST(Overlap, MakesNoStreamAndNoEventInACall) {
  const NcclGroup group(kRanks, kInChunks);
  const std::vector<Values> inputs = gradients(kRanks, kCount, 5);
  std::vector<std::unique_ptr<StreamCall>> calls;
  for (int k = 0; k < 2 * kRanks; ++k) {
    calls.push_back(std::make_unique<StreamCall>(inputs[static_cast<size_t>(k % kRanks)]));
  }
  const size_t before = streams_and_events_made();
  EXPECT_EQ(group.run([&](int rank, gqsgd_comm comm) -> std::string {
    for (const int k : {rank, kRanks + rank}) {
      if (calls[static_cast<size_t>(k)]->make(comm, usual()) != GQSGD_OK) return gqsgd_last_error();
    }
    return "";
  }),
            "");
  EXPECT_EQ(streams_and_events_made(), before);
  for (const auto& call : calls) EXPECT_TRUE(call->wait());
}

/** The n-th call of NCCL fails from now on. */
void fail_call(int nth) {
  StandInFaults faults{};
  faults.fail_call = nth;
  faults.fail_result = 1;
  set_faults(faults);
}

/** Whatever of a call fails, the caller's stream gets through. */
TEST(Overlap, LetsTheCallersStreamThroughWhereACallFails) {
  for (int nth = 1; nth < 20; ++nth) {
    const NcclGroup group(2, "chunk_value_count=256");
    const std::vector<Values> inputs = gradients(2, kCount, 7);
    ASSERT_EQ(make_in({}, group, usual()), "");
    fail_call(nth);
    EXPECT_EQ(group.run([&](int rank, gqsgd_comm comm) -> std::string {
      StreamCall made(inputs[static_cast<size_t>(rank)]);
      if (made.make(comm, usual()) != GQSGD_OK) give_up(comm);
      if (made.wait(200)) return "";  // else its peer has failed
      give_up(comm);
      return made.wait(5000) ? "" : "the stream does not get through";
    }),
              "")
        << nth;
    set_faults({});
  }
}

/** And comes after all that went aside, without which a capture could not end. */
TEST(Overlap, LeavesTheCallersStreamBehindAllOfItWhereACallFails) {
  int failures = 0;
  for (bool failed = true; failed; failures += failed ? 1 : 0) {
    const NcclGroup group(2, "chunk_value_count=256");
    const std::vector<Values> inputs = gradients(2, kCount, 7);
    ASSERT_EQ(make_in({}, group, usual()), "");
    const DeviceMemory memory(kCount * sizeof(float));
    const Quantizer quantizer(usual().quantizer);
    const OwnStream stream;
    HostGraph graph;
    fail_call(failures + 1);
    graph.begin_capture(stream.get());
    failed = gqsgd_allreduce(group.comm(0), quantizer.get(), memory.as<float>(), memory.as<float>(),
                             kCount, GQSGD_FLOAT32, usual().op, config_of(usual().schedule),
                             stream.get()) == GQSGD_BACKEND;
    EXPECT_TRUE(graph.end_capture(stream.get())) << "call " << failures + 1 << " of NCCL";
    set_faults({});
  }
  EXPECT_GT(failures, 10);
}

}  // namespace
}  // namespace gq::test
