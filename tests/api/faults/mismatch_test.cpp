// One rank calls with something else: every rank gets MISMATCH with field, ranks and both values,
// no result is touched, and the group goes on. Every field, every differing rank, every schedule.
#include "tests/api/faults/support/call.h"
#include "tests/support/operation.h"
#include "tests/support/ranks.h"
#include "tests/unit/transport/children.h"

namespace gq::test {
namespace {

constexpr int kRanks = 3;

struct Field {
  const char* name;
  Change change;
  const char* usual;
  const char* other;
};

const Field kFields[] = {
    {"count", [](Call& call) { call.value_count = 999; }, "1000", "999"},
    {"dtype", [](Call& call) { call.dtype = GQSGD_FLOAT16; }, "float32", "float16"},
    {"op", [](Call& call) { call.op = GQSGD_SUM; }, "mean", "sum"},
    {"config.schedule", [](Call& call) { call.config.schedule = GQSGD_SCHEDULE_RING; }, "direct",
     "ring"},
    {"levels", [](Call& call) { call.use("paper-ge8"); }, "linear", "exponential"},
    {"bits", [](Call& call) { call.use("paper-gl8,bits=4,combine=average"); }, "8", "4"},
    {"seed", [](Call& call) { call.use("paper-gl8,seed=5"); }, "0", "5"},
    {"rounding", [](Call& call) { call.use("paper-gl8,rounding=nearest"); }, "independent",
     "nearest"},
    {"rounding", [](Call& call) { call.use("paper-gl8,rounding=correlated"); }, "independent",
     "correlated"},
    {"block", [](Call& call) { call.use("paper-gl8,block=128"); }, "0", "128"},
    {"nonfinite", [](Call& call) { call.use("paper-gl8,nonfinite=error"); }, "poison", "error"},
    {"step", [](Call& call) { call.config.step = 8; }, "7", "8"},
    {"index", [](Call& call) { call.config.index = 3; }, "0", "3"},
};

std::string sentence_of(const Field& field, int culprit) {
  // All ranks are compared with rank 0, so rank 0's own difference shows against rank 1.
  const bool first = culprit == 0;
  return std::string(field.name) + " differs: rank 0 has " + (first ? field.other : field.usual) +
         ", rank " + std::to_string(first ? 1 : culprit) + " has " +
         (first ? field.usual : field.other);
}

class OneDifference : public testing::TestWithParam<gqsgd_schedule> {};

TEST_P(OneDifference, NamedOnAllRanks_GroupContinues) {
  Group group(kRanks);
  const Change use_schedule = [](Call& call) { call.config.schedule = GetParam(); };
  for (const Field& field : kFields) {
    for (int culprit = 0; culprit < kRanks; ++culprit) {
      const bool is_schedule = std::string(field.name) == "config.schedule";
      if (is_schedule && GetParam() != GQSGD_SCHEDULE_DIRECT) continue;
      const bool is_block = std::string(field.other) == "128";
      if (is_block && GetParam() == GQSGD_SCHEDULE_SPARSE) continue;  // refused before it differs
      const GroupOutcome outcome = group.call(culprit, field.change, use_schedule);
      for (const Outcome& rank : outcome.ranks) {
        EXPECT_TRUE(is(rank, GQSGD_MISMATCH, sentence_of(field, culprit)))
            << field.name << " on rank " << culprit;
      }
      EXPECT_TRUE(outcome.all_untouched) << field.name;
    }
  }
  EXPECT_TRUE(group.still_works());
}

// The header has a third bit for levels, apart from the others.
TEST(Mismatch, LevelsOfThreeBits_BothNamed) {
  Group group(kRanks);
  const Change bf16 = [](Call& call) { call.use("bf16"); };
  const struct {
    const char* spec;
    const char* name;
  } others[] = {
      {"fp16", "fp16"}, {"paper-gl8", "linear"}, {"none", "none"}, {"rice-4", "rice"}};
  for (const auto& other : others) {
    const GroupOutcome outcome = group.call(
        1, [&](Call& call) { call.use(other.spec); }, bf16);
    const std::string named =
        std::string("levels differs: rank 0 has bf16, rank 1 has ") + other.name;
    for (const Outcome& rank : outcome.ranks) EXPECT_TRUE(is(rank, GQSGD_MISMATCH, named));
    EXPECT_TRUE(outcome.all_untouched);
  }
  EXPECT_TRUE(group.still_works());
}

TEST(Mismatch, MeansOfRiceCodes_BothNamed) {
  Group group(kRanks);
  const GroupOutcome outcome = group.call(
      1, [](Call& call) { call.use("rice-4,mean_bits=4.5"); },
      [](Call& call) { call.use("rice-4"); });
  for (const Outcome& rank : outcome.ranks) {
    EXPECT_TRUE(is(rank, GQSGD_MISMATCH, "mean_bits differs: rank 0 has 4, rank 1 has 4.5"));
  }
  EXPECT_TRUE(group.still_works());
}

INSTANTIATE_TEST_SUITE_P(Schedules, OneDifference,
                         testing::Values(GQSGD_SCHEDULE_RING, GQSGD_SCHEDULE_TREE,
                                         GQSGD_SCHEDULE_BUTTERFLY, GQSGD_SCHEDULE_DIRECT,
                                         GQSGD_SCHEDULE_HIERARCHICAL, GQSGD_SCHEDULE_SPARSE),
                         [](const auto& info) { return std::string(schedule_name(info.param)); });

// Fields that the direct schedule alone can do.
TEST(Mismatch, FieldsOfTheReencode_Compared) {
  const Field fields[] = {
      {"bits_down", [](Call& call) { call.use("paper-gl8,bits_down=4"); }, "8", "4"},
      {"rounding_down", [](Call& call) { call.use("paper-gl8,rounding_down=subtractive"); },
       "random", "subtractive"},
      {"rescale", [](Call& call) { call.use("paper-gl8,block=64,rescale=true"); }, "false", "true"},
  };
  Group group(kRanks);
  const Change blocks = [](Call& call) { call.use("paper-gl8,block=64"); };
  for (const Field& field : fields) {
    const bool has_blocks = std::string(field.name) == "rescale";
    const GroupOutcome outcome = group.call(2, field.change, has_blocks ? blocks : nullptr);
    for (const Outcome& rank : outcome.ranks) {
      EXPECT_TRUE(is(rank, GQSGD_MISMATCH, sentence_of(field, 2))) << field.name;
    }
    EXPECT_TRUE(outcome.all_untouched) << field.name;
  }
  EXPECT_TRUE(group.still_works());
}

TEST(Mismatch, Auto_ComparedAsTheChosenSchedule) {
  Group group(kRanks);
  const Change choose = [](Call& call) { call.config.schedule = GQSGD_SCHEDULE_AUTO; };
  const GroupOutcome outcome = group.call(1, choose);
  for (const Outcome& rank : outcome.ranks) EXPECT_TRUE(is_ok(rank));
}

// Ranks whose calls differ choose different schedules: the difference is named, not the choices.
TEST(Mismatch, AutoWithCosts_CauseNamed) {
  const Field fields[] = {
      {"levels", [](Call& call) { call.use("rice-4"); }, "linear", "rice"},
      {"bits", [](Call& call) { call.use("blocks-8,bits=4,combine=exact"); }, "8", "4"},
      {"nonfinite", [](Call& call) { call.use("blocks-8,nonfinite=error"); }, "poison", "error"},
      {"config.schedule",
       [](Call& call) { call.config.schedule = GQSGD_SCHEDULE_HIERARCHICAL; },
       "", "hierarchical; every rank must"},
  };
  Group group(kRanks, "timeout_ms=20000,costs=builtin");
  const Change choose = [](Call& call) {
    call.use("blocks-8");
    call.value_count = 64;  // so few travel as float32
    call.config.schedule = GQSGD_SCHEDULE_AUTO;
  };
  for (const Field& field : fields) {
    const GroupOutcome outcome = group.call(1, field.change, choose);
    for (const Outcome& rank : outcome.ranks) {
      EXPECT_TRUE(is(rank, GQSGD_MISMATCH, std::string(field.name) + " differs: rank 0 has " +
                                               field.usual + ".*rank 1 has .*" + field.other));
    }
    EXPECT_TRUE(outcome.all_untouched) << field.name;
  }
}

/** Joins a group of two processes, makes one call, and says what came of it. */
std::string call_with_options(const gqsgd_unique_id& id, int rank, const char* options) {
  gqsgd_comm comm = nullptr;
  const Outcome made = outcome_of(gqsgd_comm_create_process(&id, rank, 2, options, &comm));
  if (made.status != GQSGD_OK) return made.text();
  const Outcome called = Call(rank).make(comm);
  gqsgd_comm_destroy(comm);
  return called.text();
}

TEST(Mismatch, OptionsOfTheGroup_Compared) {
  const struct {
    const char* options;
    const char* sentence;
  } cases[] = {
      {"stream_id=9", "stream_id differs: rank 0 has 0, rank 1 has 9"},
      {"chunk_value_count=64", "chunk_value_count differs: rank 0 has 65536, rank 1 has 64"},
      {"costs=builtin", "digest of costs differs: rank 0 has 0, rank 1 has "},
      {"costs=builtin", "every rank must have the same option costs, or GQSGD_COSTS"},
      {"costs=measure", "costs differ: rank 1 measures them first"},
      {"uncompressed=never", "uncompressed=never differs: rank 0 has false, rank 1 has true"}};
  for (const auto& one : cases) {
    gqsgd_unique_id id;
    ASSERT_TRUE(is_ok(outcome_of(gqsgd_unique_id_create(&id))));
    Child rank0([&] { return call_with_options(id, 0, ""); });
    Child rank1([&] { return call_with_options(id, 1, one.options); });
    for (const std::string& line : {rank0.line(), rank1.line()}) {
      EXPECT_EQ(line.rfind("MISMATCH: ", 0), 0u) << line;
      EXPECT_NE(line.find(one.sentence), std::string::npos) << line;
    }
  }
}

// Other nodes are other reductions: found where they matter, whatever the schedule would be.
TEST(Mismatch, NodesInAHierarchy_Compared) {
  gqsgd_unique_id id;
  ASSERT_TRUE(is_ok(outcome_of(gqsgd_unique_id_create(&id))));
  const auto rank = [&id](int number, const char* options) {
    gqsgd_comm comm = nullptr;
    const Outcome made = outcome_of(gqsgd_comm_create_process(&id, number, 3, options, &comm));
    if (made.status != GQSGD_OK) return made.text();
    Call call(number);
    const Outcome direct = call.make(comm);
    if (direct.status != GQSGD_OK) return direct.text();
    call.config.schedule = GQSGD_SCHEDULE_HIERARCHICAL;
    const Outcome hierarchical = call.make(comm);
    gqsgd_comm_destroy(comm);
    return hierarchical.text();
  };
  Child rank0([&] { return rank(0, "nodes=0:0:1"); });
  Child rank1([&] { return rank(1, "nodes=4:4:2"); });  // the same nodes
  Child rank2([&] { return rank(2, "nodes=0:0:0"); });
  const char* const two = "this rank has 2 nodes: ranks 0-1; 2; every rank must";
  const char* const one = "this rank has 1 node: ranks 0-2; every rank must";
  for (const auto& [line, own] : {std::pair{rank0.line(), two}, std::pair{rank1.line(), two},
                                  std::pair{rank2.line(), one}}) {
    EXPECT_EQ(line.rfind("MISMATCH: ", 0), 0u) << line;
    EXPECT_NE(line.find("nodes differ: rank 0 and rank 2 group the ranks differently; "),
              std::string::npos) << line;
    EXPECT_NE(line.find(own), std::string::npos) << line;
  }
}

// A rank that is one call behind meets the others' next call with its own last one.
TEST(Mismatch, SkippedCall_FoundAtTheNext) {
  Group group(kRanks);
  const GroupOutcome outcome = group.call(2, [](Call& call) {
    call.value_count = 500;
    call.config.step = 8;
  });
  for (const Outcome& rank : outcome.ranks) {
    EXPECT_TRUE(is(rank, GQSGD_MISMATCH,
                   "call 1, allreduce: count differs: rank 0 has 1000, "
                   "rank 2 has 500; every rank must make the same calls"));
  }
  EXPECT_TRUE(group.still_works());
}

TEST(Mismatch, Processes_DifferenceFound) {
  const std::string lines = run_processes(4, "timeout_ms=20000", [](int rank, gqsgd_comm comm) {
    for (const Field& field : kFields) {
      Call call(rank);
      if (rank == 3) field.change(call);
      const Outcome outcome = call.make(comm);
      const testing::AssertionResult named = is(outcome, GQSGD_MISMATCH, sentence_of(field, 3));
      if (!named) return std::string(field.name) + ": " + named.message();
      if (!call.result_untouched()) return std::string(field.name) + ": the result was written";
    }
    Call right(rank);
    const Outcome outcome = right.make(comm);
    return outcome.status == GQSGD_OK ? "" : outcome.text();
  });
  EXPECT_EQ(lines, "");
}

}  // namespace
}  // namespace gq::test
