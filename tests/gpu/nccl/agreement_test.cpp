// Ranks whose calls differ, on streams: reported at once where the host waits, later where it does
// not, by all of them; no rank is left waiting, nothing is written, and the group stays usable.
#include <gtest/gtest.h>

#include <map>
#include <memory>

#include "tests/gpu/nccl/group.h"

namespace gq::test {
namespace {

constexpr size_t kCount = 700;

Operation usual() { return {"paper-gl8", GQSGD_SCHEDULE_DIRECT}; }

std::string expect_ok(gqsgd_comm comm, int rank, size_t value_count = kCount) {
  const std::vector<Values> inputs = gradients(8, value_count, 9);
  StreamCall made(inputs[static_cast<size_t>(rank)]);
  if (made.make(comm, usual()) != GQSGD_OK) return gqsgd_last_error();
  return made.wait() ? "" : "the stream does not get through";
}

struct Said {
  gqsgd_status status;
  std::string sentence;
  bool untouched;
};

/** Every rank makes the call that `change` makes of the usual one. */
using Change = std::function<void(int rank, Operation* call, size_t* value_count)>;
std::vector<Said> make_calls(const NcclGroup& group, const Change& change) {
  std::vector<Said> said(static_cast<size_t>(group.size()));
  const std::string failures = group.run([&](int rank, gqsgd_comm comm) -> std::string {
    Operation call = usual();
    size_t value_count = kCount;
    change(rank, &call, &value_count);
    const std::vector<Values> inputs = gradients(group.size(), value_count, 9);
    StreamCall made(inputs[static_cast<size_t>(rank)]);
    const gqsgd_status status = made.make(comm, call);
    const std::string sentence = gqsgd_last_error();
    if (!made.wait()) return "the stream does not get through";
    said[static_cast<size_t>(rank)] = {status, sentence, made.untouched()};
    return "";
  });
  EXPECT_EQ(failures, "");
  return said;
}

void expect_works(const NcclGroup& group) {
  EXPECT_EQ(group.run([](int rank, gqsgd_comm comm) {
    std::string said = expect_ok(comm, rank);
    return said.empty() ? expect_ok(comm, rank) : said;
  }),
            "");
}

const std::map<std::string, Change>& differences() {
  static const std::map<std::string, Change> all = {
      {"count",
       [](int rank, Operation*, size_t* value_count) { *value_count += rank == 1 ? 64 : 0; }},
      {"levels",
       [](int rank, Operation* call, size_t*) {
         if (rank == 1) call->quantizer = "paper-ge8";
       }},
      {"schedule",
       [](int rank, Operation* call, size_t*) {
         if (rank == 1) call->schedule = GQSGD_SCHEDULE_RING;
       }},
      {"op",
       [](int rank, Operation* call, size_t*) {
         if (rank == 1) call->op = GQSGD_SUM;
       }},
      {"step", [](int rank, Operation* call, size_t*) { call->step = rank == 1 ? 8 : 7; }},
  };
  return all;
}

/** Of the first call of its kind every host waits. */
TEST(Agreement, DifferenceOfFirstCalls_NamedOnAllRanks) {
  for (const auto& [field, change] : differences()) {
    const NcclGroup group(3);
    for (const Said& said : make_calls(group, change)) {
      EXPECT_EQ(said.status, GQSGD_MISMATCH) << field << ": " << said.sentence;
      EXPECT_NE(said.sentence.find(field), std::string::npos) << said.sentence;
      EXPECT_NE(said.sentence.find("rank 1"), std::string::npos) << said.sentence;
      EXPECT_TRUE(said.untouched) << field;
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
    const std::vector<Said> first = make_calls(group, change);
    for (const size_t rank : {0u, 2u}) {
      const bool looks_usual = first[rank].status == GQSGD_OK;
      EXPECT_TRUE(looks_usual) << field << ": " << first[rank].sentence;
    }
    const bool step = field == "step";  // is no part of what kind a call is of
    EXPECT_EQ(first[1].status, step ? GQSGD_OK : GQSGD_MISMATCH) << field << first[1].sentence;
    for (const Said& said : first) EXPECT_TRUE(said.untouched) << field;
    for (const int rank : {0, 2}) {
      EXPECT_EQ(gqsgd_comm_status(group.comm(rank)), GQSGD_MISMATCH) << field;
    }
    const std::vector<Said> second = make_calls(group, [](int, Operation*, size_t*) {});
    for (const size_t rank : {0u, 2u}) {
      EXPECT_EQ(second[rank].status, GQSGD_MISMATCH) << field << ": " << second[rank].sentence;
      EXPECT_NE(second[rank].sentence.find(field), std::string::npos) << second[rank].sentence;
      EXPECT_FALSE(second[rank].untouched) << field;
    }
    EXPECT_EQ(second[1].status, step ? GQSGD_MISMATCH : GQSGD_OK) << field;
    expect_works(group);
  }
}

/** A rank that refuses its own call says so, and the others, who may have gone on, get through. */
TEST(Agreement, Refusal_ReportedToOtherRanks) {
  for (const bool known : {false, true}) {
    const NcclGroup group(4);
    if (known) expect_works(group);
    const std::vector<Said> said = make_calls(group, [](int rank, Operation* call, size_t*) {
      if (rank == 2) call->schedule = with_number<gqsgd_schedule>(99);
    });
    EXPECT_EQ(said[2].status, GQSGD_INVALID_ARGUMENT) << said[2].sentence;
    for (const size_t rank : {0u, 1u, 3u}) {
      EXPECT_EQ(said[rank].status, known ? GQSGD_OK : GQSGD_REMOTE_ERROR) << said[rank].sentence;
      EXPECT_TRUE(said[rank].untouched);
    }
    if (known) {
      EXPECT_EQ(gqsgd_comm_status(group.comm(0)), GQSGD_REMOTE_ERROR);
      const std::vector<Said> next = make_calls(group, [](int, Operation*, size_t*) {});
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
  for (const size_t value_count : {kCount, 90 * kCount, kCount}) {
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
  };
  for (const auto& refused : cases) {
    const auto all = make_calls(group, [&](int, Operation* call, size_t*) {
      call->quantizer = refused.first;
      call->schedule = refused.second;
    });
    for (const Said& said : all) {
      EXPECT_EQ(said.status, GQSGD_UNSUPPORTED) << said.sentence;
      EXPECT_TRUE(said.untouched);
    }
  }
  expect_works(group);
}

}  // namespace
}  // namespace gq::test
