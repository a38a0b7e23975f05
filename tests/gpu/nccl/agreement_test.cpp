// Ranks whose calls differ, on streams: reported at once where the host waits, later where it does
// not, by all of them; no rank is left waiting, nothing is written, and the group stays usable.
#include <gtest/gtest.h>

#include <memory>

#include "tests/gpu/nccl/group.h"
#include "tests/gpu/stream_calls/differing_calls.h"

namespace gq::test {
namespace {

std::string expect_ok(gqsgd_comm comm, int rank, size_t value_count = kUsualCount) {
  const std::vector<Values> inputs = gradients(8, value_count, 9);
  StreamCall made(inputs[static_cast<size_t>(rank)]);
  if (made.make(comm, usual()) != GQSGD_OK) return gqsgd_last_error();
  return made.wait() ? "" : "the stream does not get through";
}

void expect_works(const NcclGroup& group) {
  EXPECT_EQ(group.run([](int rank, gqsgd_comm comm) {
    std::string failure = expect_ok(comm, rank);
    return failure.empty() ? expect_ok(comm, rank) : failure;
  }),
            "");
}

/** Of the first call of its kind every host waits. */
TEST(Agreement, DifferenceOfFirstCalls_NamedOnAllRanks) {
  for (const auto& [field, change] : differences()) {
    const NcclGroup group(3);
    for (const CallOutcome& outcome : make_calls(group, change)) {
      EXPECT_EQ(outcome.status, GQSGD_MISMATCH) << field << ": " << outcome.sentence;
      EXPECT_NE(outcome.sentence.find(field), std::string::npos) << outcome.sentence;
      EXPECT_NE(outcome.sentence.find("rank 1"), std::string::npos) << outcome.sentence;
      EXPECT_TRUE(outcome.untouched) << field;
    }
    expect_works(group);
  }
}

/** Then those whose call is the expected one go on: they learn of it by their next call, which is
 *  carried out all the same. */
TEST(Agreement, LaterDifference_FoundOnTheDevice) {
  for (const auto& [field, change] : differences()) {
    const NcclGroup group(3);
    expect_works(group);
    const std::vector<CallOutcome> first = make_calls(group, change);
    for (const size_t rank : {0u, 2u}) {
      const bool looks_usual = first[rank].status == GQSGD_OK;
      EXPECT_TRUE(looks_usual) << field << ": " << first[rank].sentence;
    }
    const bool step = field == "step";  // is no part of what kind a call is of
    EXPECT_EQ(first[1].status, step ? GQSGD_OK : GQSGD_MISMATCH) << field << first[1].sentence;
    for (const CallOutcome& outcome : first) EXPECT_TRUE(outcome.untouched) << field;
    for (const int rank : {0, 2}) {
      EXPECT_EQ(gqsgd_comm_status(group.comm(rank)), GQSGD_MISMATCH) << field;
    }
    const std::vector<CallOutcome> second = make_calls(group, [](int, Operation*, size_t*) {});
    for (const size_t rank : {0u, 2u}) {
      EXPECT_EQ(second[rank].status, GQSGD_MISMATCH) << field << ": " << second[rank].sentence;
      EXPECT_NE(second[rank].sentence.find(field), std::string::npos) << second[rank].sentence;
      EXPECT_FALSE(second[rank].untouched) << field;
    }
    EXPECT_EQ(second[1].status, step ? GQSGD_MISMATCH : GQSGD_OK) << field;
    expect_works(group);
  }
}

/** A call that fails by itself leaves it to the next. */
TEST(Agreement, LaterDifferenceAndRefusal_BothReported) {
  const NcclGroup group(3);
  expect_works(group);
  for (const CallOutcome& outcome : make_calls(
           group, [](int rank, Operation* call, size_t*) { call->step += rank == 1 ? 1 : 0; })) {
    EXPECT_EQ(outcome.status, GQSGD_OK) << outcome.sentence;
    EXPECT_TRUE(outcome.untouched);
  }
  const auto refused = make_calls(group, [](int, Operation* call, size_t*) {
    call->schedule = with_number<gqsgd_schedule>(99);
  });
  for (const CallOutcome& outcome : refused) {
    EXPECT_EQ(outcome.status, GQSGD_INVALID_ARGUMENT) << outcome.sentence;
  }
  for (const int rank : {0, 1, 2}) {
    EXPECT_EQ(gqsgd_comm_status(group.comm(rank)), GQSGD_MISMATCH);
  }
  for (const CallOutcome& outcome : make_calls(group, [](int, Operation*, size_t*) {})) {
    EXPECT_EQ(outcome.status, GQSGD_MISMATCH) << outcome.sentence;
    EXPECT_NE(outcome.sentence.find("step differs"), std::string::npos) << outcome.sentence;
    EXPECT_FALSE(outcome.untouched);
  }
  expect_works(group);
}

/** A rank that refuses its own call says so, and the others, who may have gone on, get through. */
TEST(Agreement, Refusal_ReportedToOtherRanks) {
  for (const bool known : {false, true}) {
    const NcclGroup group(4);
    if (known) expect_works(group);
    const auto outcomes = make_calls(group, [](int rank, Operation* call, size_t*) {
      if (rank == 2) call->schedule = with_number<gqsgd_schedule>(99);
    });
    EXPECT_EQ(outcomes[2].status, GQSGD_INVALID_ARGUMENT) << outcomes[2].sentence;
    for (const size_t rank : {0u, 1u, 3u}) {
      EXPECT_EQ(outcomes[rank].status, known ? GQSGD_OK : GQSGD_REMOTE_ERROR)
          << outcomes[rank].sentence;
      EXPECT_TRUE(outcomes[rank].untouched);
    }
    if (known) {
      EXPECT_EQ(gqsgd_comm_status(group.comm(0)), GQSGD_REMOTE_ERROR);
      const std::vector<CallOutcome> next = make_calls(group, [](int, Operation*, size_t*) {});
      for (const size_t rank : {0u, 1u, 3u}) {
        EXPECT_EQ(next[rank].status, GQSGD_REMOTE_ERROR) << next[rank].sentence;
        EXPECT_NE(next[rank].sentence.find("rank 2 refused"), std::string::npos);
        EXPECT_FALSE(next[rank].untouched);
      }
      EXPECT_EQ(next[2].status, GQSGD_OK) << next[2].sentence;
    }
    expect_works(group);
  }
}

/** What peers send to a rank that refuses lands in the workspace that it has had so far. */
TEST(Agreement, AnswerToSpeculativeRanks_NeedsNoMemory) {
  const NcclGroup group(3);
  expect_works(group);
  std::vector<std::unique_ptr<StreamCall>> calls;
  for (const size_t value_count : {kUsualCount, 90 * kUsualCount, kUsualCount}) {
    calls.push_back(std::make_unique<StreamCall>(gradients(3, value_count, 9)[calls.size()]));
  }
  fail_allocations_from(1);
  EXPECT_EQ(group.run([&](int rank, gqsgd_comm comm) -> std::string {
    StreamCall& made = *calls[static_cast<size_t>(rank)];
    const gqsgd_status status = made.make(comm, usual());
    if (status != (rank == 1 ? GQSGD_NO_MEMORY : GQSGD_OK)) return gqsgd_last_error();
    if (!made.wait()) return "the stream does not get through";
    return made.untouched() ? "" : "something was written";
  }),
            "");
  fail_allocations_from(0);
  EXPECT_EQ(group.run([](int rank, gqsgd_comm comm) -> std::string {
    const std::string late = expect_ok(comm, rank);  // on those that went on, of the call before
    const bool told = late.find("rank 1 refused its own call with NO_MEMORY") != late.npos;
    return told == (rank != 1) ? "" : "\"" + late + "\"";
  }),
            "");
  expect_works(group);
}

/** What streams do not do is refused on all ranks, in words. */
TEST(Agreement, MissingFeatures_Refused) {
  const NcclGroup group(2);
  const std::pair<const char*, gqsgd_schedule> cases[] = {
      {"paper-gl8,nonfinite=error", GQSGD_SCHEDULE_DIRECT},
      {"bf16", GQSGD_SCHEDULE_DIRECT},
      {"fp16,rounding=nearest", GQSGD_SCHEDULE_AUTO},
      {"rice-4,nonfinite=error", GQSGD_SCHEDULE_DIRECT},
  };
  for (const auto& refused : cases) {
    const auto all = make_calls(group, [&](int, Operation* call, size_t*) {
      call->quantizer = refused.first;
      call->schedule = refused.second;
    });
    for (const CallOutcome& outcome : all) {
      EXPECT_EQ(outcome.status, GQSGD_UNSUPPORTED) << outcome.sentence;
      EXPECT_TRUE(outcome.untouched);
    }
  }
  expect_works(group);
}

}  // namespace
}  // namespace gq::test
