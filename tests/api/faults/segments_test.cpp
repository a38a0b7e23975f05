// Calls on tensors and slices when arguments are wrong or differ: named on all ranks, nothing
// written, and the group goes on.
#include <cmath>
#include <functional>
#include <thread>

#include "tests/api/faults/support/call.h"

namespace gq::test {
namespace {

constexpr int kRanks = 2;
constexpr float kUntouched = -77.0f;

/** One call on segments with every argument open to change. */
struct SegmentCall {
  enum class Kind { many, scatter, gather };

  SegmentCall(Kind kind, int rank)
      : kind(kind), rank(static_cast<size_t>(rank)), values(3000, 1.5f), results(3000, kUntouched) {
    EXPECT_TRUE(is_ok(outcome_of(gqsgd_quantizer_create("blocks-8", &quantizer))));
    send = values.data();
    recv = results.data();
    for (size_t k = 0; k < 2; ++k) {
      senders.push_back(values.data() + 1000 * k);
      receivers.push_back(results.data() + 1000 * k);
    }
  }
  ~SegmentCall() { gqsgd_quantizer_destroy(quantizer); }
  SegmentCall(const SegmentCall&) = delete;
  SegmentCall& operator=(const SegmentCall&) = delete;

  void use(const char* text) {
    gqsgd_quantizer_destroy(quantizer);
    EXPECT_TRUE(is_ok(outcome_of(gqsgd_quantizer_create(text, &quantizer))));
  }
  Outcome make(gqsgd_comm comm) {
    const size_t* lengths = counts.empty() ? nullptr : counts.data();
    switch (kind) {
      case Kind::many:
        return outcome_of(gqsgd_allreduce_many(comm, quantizer, senders.data(), receivers.data(),
                                               lengths, tensor_count, GQSGD_FLOAT32, GQSGD_MEAN,
                                               config, nullptr));
      case Kind::scatter:
        return outcome_of(gqsgd_reduce_scatter(comm, quantizer, send, recv, lengths, GQSGD_FLOAT32,
                                               GQSGD_MEAN, slices, nullptr));
      case Kind::gather:
        break;
    }
    return outcome_of(
        gqsgd_allgather(comm, quantizer, send, recv, lengths, GQSGD_FLOAT32, slices, nullptr));
  }
  bool untouched() const { return results == Values(3000, kUntouched); }

  Kind kind;
  size_t rank;
  Values values, results;
  gqsgd_quantizer quantizer = nullptr;
  std::vector<const void*> senders;
  std::vector<void*> receivers;
  const void* send;
  void* recv;
  std::vector<size_t> counts{1000, 500};
  size_t tensor_count = 2;
  Config config = config_at(1, 0, GQSGD_SCHEDULE_DIRECT);  ///< of tensor lists
  Config slices = config_at(1, 0);
};

using Change = std::function<void(SegmentCall&)>;
using Kind = SegmentCall::Kind;

/** Every rank makes the call, rank 1 a changed one; the outcomes. Nothing may be written. */
std::vector<Outcome> call_changed(Group& group, Kind kind, const Change& change,
                                  const Change& on_all = nullptr) {
  std::vector<Outcome> outcomes(kRanks);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < kRanks; ++rank) {
    threads.emplace_back([&, rank] {
      SegmentCall call(kind, rank);
      if (on_all) on_all(call);
      if (rank == 1) change(call);
      outcomes[static_cast<size_t>(rank)] = call.make(group.comm(rank));
      EXPECT_TRUE(call.untouched()) << "rank " << rank;
    });
  }
  for (std::thread& thread : threads) thread.join();
  return outcomes;
}

const struct {
  const char* why;
  Kind kind;
  Change change;
  gqsgd_status status;
  const char* sentence;
} kRefusals[] = {
    {"no counts", Kind::many, [](SegmentCall& call) { call.counts.clear(); },
     GQSGD_INVALID_ARGUMENT, "counts is NULL"},
    {"more tensors than memory", Kind::many,
     [](SegmentCall& call) { call.tensor_count = SIZE_MAX; }, GQSGD_INVALID_ARGUMENT,
     "tensor_count is [0-9]+; the largest is"},
    {"no tensor", Kind::many, [](SegmentCall& call) { call.senders[1] = nullptr; },
     GQSGD_INVALID_ARGUMENT, "send\\[1\\] is NULL"},
    {"misaligned", Kind::many,
     [](SegmentCall& call) { call.receivers[0] = reinterpret_cast<char*>(call.receivers[0]) + 1; },
     GQSGD_INVALID_ARGUMENT, "recv\\[0\\] is .* not aligned"},
    {"results overlap", Kind::many,
     [](SegmentCall& call) { call.receivers[1] = call.results.data() + 999; },
     GQSGD_INVALID_ARGUMENT, "recv\\[0\\] and recv\\[1\\] overlap"},
    {"a result in another's values", Kind::many,
     [](SegmentCall& call) { call.senders[1] = call.receivers[0]; }, GQSGD_INVALID_ARGUMENT,
     "send\\[1\\] and recv\\[0\\] overlap"},
    {"schedule sparse", Kind::many,
     [](SegmentCall& call) {
       call.use("paper-gl8");
       call.config.schedule = GQSGD_SCHEDULE_SPARSE;
     },
     GQSGD_INVALID_ARGUMENT, "schedule sparse makes sparse entries of one tensor"},
    {"schedule of slices", Kind::scatter,
     [](SegmentCall& call) { call.slices.schedule = GQSGD_SCHEDULE_DIRECT; },
     GQSGD_INVALID_ARGUMENT,
     "config.schedule is direct .4., but gqsgd_reduce_scatter has one schedule; use "
     "GQSGD_SCHEDULE_AUTO"},
    {"schedule of slices", Kind::gather,
     [](SegmentCall& call) { call.slices.schedule = GQSGD_SCHEDULE_RING; }, GQSGD_INVALID_ARGUMENT,
     "config.schedule is ring .1., but gqsgd_allgather has one schedule"},
    {"one count too large", Kind::many,
     [](SegmentCall& call) {
       call.counts = {10, SIZE_MAX};
     },
     GQSGD_INVALID_ARGUMENT, "counts.1. is 18446744073709551615; the largest is"},
    {"nowhere to write", Kind::scatter, [](SegmentCall& call) { call.recv = nullptr; },
     GQSGD_INVALID_ARGUMENT, "recv is NULL"},
    {"not the own place", Kind::scatter, [](SegmentCall& call) { call.recv = call.values.data(); },
     GQSGD_INVALID_ARGUMENT, "send and recv overlap"},
    {"not the own place", Kind::gather, [](SegmentCall& call) { call.send = call.results.data(); },
     GQSGD_INVALID_ARGUMENT, "recv and send overlap"},
    {"too many values", Kind::gather,
     [](SegmentCall& call) {
       call.counts = {size_t{1} << 44, size_t{1} << 44};
     },
     GQSGD_INVALID_ARGUMENT, "the sum of counts is .*; the largest is"},
    {"no quantizer", Kind::gather,
     [](SegmentCall& call) { gqsgd_quantizer_destroy(call.quantizer); }, GQSGD_BAD_HANDLE,
     "quantizer"},
    {"NaN", Kind::scatter,
     [](SegmentCall& call) {
       call.use("blocks-8,nonfinite=error");
       call.values[1234] = NAN;
     },
     GQSGD_NONFINITE, "reduce_scatter: rank 1 has 1 values .* at index 1234"},
};

TEST(Segments, Refused_OnAllRanks) {
  Group group(kRanks);
  for (const auto& refusal : kRefusals) {
    const auto outcomes = call_changed(group, refusal.kind, refusal.change);
    EXPECT_TRUE(is(outcomes[1], refusal.status, refusal.sentence)) << refusal.why;
    const bool shared = refusal.status == GQSGD_NONFINITE;
    EXPECT_TRUE(is(outcomes[0], shared ? GQSGD_NONFINITE : GQSGD_REMOTE_ERROR, "rank 1"))
        << refusal.why;
  }
  EXPECT_TRUE(group.still_works());
}

const struct {
  Kind kind;
  Change change;
  const char* sentence;
} kDifferences[] = {
    {Kind::many, [](SegmentCall& call) { call.kind = Kind::scatter; },
     "operation differs: rank 0 has allreduce_many, rank 1 has reduce_scatter"},
    {Kind::scatter, [](SegmentCall& call) { call.kind = Kind::gather; },
     "operation differs: rank 0 has reduce_scatter, rank 1 has allgather"},
    {Kind::gather, [](SegmentCall& call) { call.counts[1] = 501; },
     "allgather: counts differ: their sum is 1500 on rank 0 and 1501 on rank 1"},
    {Kind::scatter, [](SegmentCall& call) { call.counts[0] = 999; },
     "reduce_scatter: counts differ: their sum is 1500 on rank 0 and 1499 on rank 1"},
    {Kind::scatter, [](SegmentCall& call) { call.counts[0] = 999, call.counts[1] = 501; },
     "reduce_scatter: counts differ: the lists of rank 0 and rank 1 are not the same"},
    {Kind::many, [](SegmentCall& call) { call.config.schedule = GQSGD_SCHEDULE_RING; },
     "allreduce_many: config.schedule differs: rank 0 has direct, rank 1 has ring"},
};

TEST(Segments, Different_NamedOnAllRanks) {
  Group group(kRanks);
  const Change plain = [](SegmentCall& call) { call.use("paper-gl8,block=128"); };
  for (const auto& difference : kDifferences) {
    const auto outcomes = call_changed(group, difference.kind, difference.change, plain);
    for (const Outcome& outcome : outcomes) {
      EXPECT_TRUE(is(outcome, GQSGD_MISMATCH, difference.sentence));
    }
  }
  const GroupOutcome plain_call = group.call(-1, nullptr);
  for (const Outcome& outcome : plain_call.ranks) EXPECT_TRUE(is_ok(outcome));
}

// With one norm for each segment there is one more exchange in which a rank may be missing.
TEST(Segments, RankNeverCalls_Timeout) {
  for (const Kind kind : {Kind::many, Kind::scatter, Kind::gather}) {
    Group group(kRanks, "timeout_ms=100");
    SegmentCall call(kind, 0);
    call.use("paper-gl8");
    EXPECT_TRUE(is(call.make(group.comm(0)), GQSGD_TIMEOUT, "rank 1"));
    EXPECT_TRUE(call.untouched());
  }
}

}  // namespace
}  // namespace gq::test
