// Every schedule keeps every rule of world.h, in any order of the ranks' moves, and costs what its
// closed form predicts.
#include "tools/plan/schedules.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/unit/schedule/closed_form.h"
#include "tests/unit/schedule/world.h"

namespace gq {
namespace {

struct Size {
  uint64_t value_count;
  uint64_t chunk_value_count;
  uint64_t value_alignment = 32;
};

std::string describe(const Schedule& schedule, const Shape& shape) {
  return std::string(schedule.name) + ", " + std::to_string(shape.ranks) + " ranks, " +
         std::to_string(shape.value_count) + " values, chunks of " +
         std::to_string(shape.chunk_value_count) + (shape.block_norms ? ", norms" : "");
}

/** Each schedule without and with an exchange of block norms, and with a lag of so many steps. */
class Schedules : public testing::TestWithParam<std::tuple<const char*, bool, uint32_t>> {
 protected:
  const Schedule& schedule() const { return *schedule_by_name(std::get<0>(GetParam())); }

  void expect_rules_kept(uint32_t ranks, const Size& size, Turns turns, uint32_t seed) {
    const Shape shape{ranks,
                      size.value_count,
                      size.value_alignment,
                      size.chunk_value_count,
                      std::get<1>(GetParam()),
                      std::get<2>(GetParam())};
    World world(schedule(), shape);
    ASSERT_EQ(walk(&world, turns, seed).text(), "") << describe(schedule(), shape) << ", turns "
                                                    << static_cast<int>(turns) << ", seed " << seed;
    for (uint32_t rank = 0; rank < ranks; ++rank) expect_cost(world, rank);
  }

 private:
  void expect_cost(const World& world, uint32_t rank) {
    const Shape& shape = world.shape();
    const ClosedForm form = closed_form(schedule().name, shape, rank);
    const Totals totals = totals_of(schedule(), shape, rank);
    const std::string where = describe(schedule(), shape) + ", rank " + std::to_string(rank);
    ASSERT_EQ(world.sent_by(rank).messages, form.messages_sent) << where;
    ASSERT_EQ(world.sent_by(rank).values, form.values_sent) << where;
    ASSERT_EQ(world.sent_by(rank).norm_values, form.norm_values_sent) << where;
    ASSERT_EQ(totals.messages_sent, form.messages_sent) << where;
    ASSERT_EQ(totals.norms_sent, form.norm_values_sent) << where;
    ASSERT_EQ(totals.values_sent, form.values_sent) << where;
    ASSERT_EQ(schedule().reduction_depth(shape.ranks), form.chain) << where;
  }
};

// Nothing, one value, around one alignment unit, one chunk or many, parts that are short or empty.
const Size kSizes[] = {
    {0, 32},       {1, 32},        {31, 32},           {32, 32},    {33, 32},
    {33, 65536},   {1000, 32},     {1000, 96},         {1000, 512}, {1000, 65536},
    {65537, 4096}, {65537, 65536}, {65537, 2048, 1024}};

TEST_P(Schedules, 1To33Ranks_EveryRuleKept) {
  for (uint32_t ranks = 1; ranks <= 33; ++ranks) {
    for (const Size& size : kSizes) {
      ASSERT_NO_FATAL_FAILURE(expect_rules_kept(ranks, size, Turns::one_move_each, 0));
    }
  }
}

TEST_P(Schedules, AroundPowersOfTwoUpTo130Ranks_EveryRuleKept) {
  for (uint32_t ranks : {47u, 63u, 64u, 65u, 96u, 127u, 128u, 129u, 130u}) {
    for (const Size& size : {Size{1000, 32}, Size{8000, 32}, Size{8000, 65536}}) {
      ASSERT_NO_FATAL_FAILURE(expect_rules_kept(ranks, size, Turns::random, ranks));
    }
  }
}

TEST_P(Schedules, AnyInterleaving_EveryRuleKept) {
  for (uint32_t ranks : {2u, 3u, 4u, 5u, 7u, 8u, 12u, 17u, 33u}) {
    const Size size{4000, 64};
    ASSERT_NO_FATAL_FAILURE(expect_rules_kept(ranks, size, Turns::greedy_up, 0));
    ASSERT_NO_FATAL_FAILURE(expect_rules_kept(ranks, size, Turns::greedy_down, 0));
    for (uint32_t seed = 0; seed < 10; ++seed) {
      ASSERT_NO_FATAL_FAILURE(expect_rules_kept(ranks, size, Turns::random, seed));
      ASSERT_NO_FATAL_FAILURE(expect_rules_kept(ranks, size, Turns::starve_one, seed));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, Schedules,
                         testing::Combine(testing::Values("ring", "tree", "butterfly", "direct",
                                                          "native"),
                                          testing::Bool(), testing::Values(1u, 4u)),
                         [](const auto& info) {
                           return std::string(std::get<0>(info.param)) +
                                  (std::get<1>(info.param) ? "_with_norms" : "") + "_lag_" +
                                  std::to_string(std::get<2>(info.param));
                         });

/** Messages in a call that fits one chunk, where latency is all that counts. */
uint64_t messages_when_small(const char* schedule, uint32_t ranks, uint32_t rank) {
  const Shape shape{ranks, uint64_t{32} * ranks, 32, 65536};
  return totals_of(*schedule_by_name(schedule), shape, rank).messages_sent;
}

TEST(MessagesWhenSmall, Butterfly_NoRingInside) {
  for (uint32_t log2 = 1; log2 <= 10; ++log2) {
    const uint32_t ranks = 1u << log2;
    EXPECT_EQ(messages_when_small("butterfly", ranks, ranks - 1), 2 * log2) << ranks;
    EXPECT_EQ(messages_when_small("ring", ranks, ranks - 1), 2 * (ranks - 1)) << ranks;
    EXPECT_EQ(messages_when_small("direct", ranks, ranks - 1), 2 * (ranks - 1)) << ranks;
  }
}

TEST(MessagesWhenSmall, FoldedRank_SendsTwo_ItsPartnerTwoMore) {
  EXPECT_EQ(messages_when_small("butterfly", 21, 20), 2u);
  EXPECT_EQ(messages_when_small("butterfly", 21, 4), 2u * 4 + 2);
  EXPECT_EQ(messages_when_small("butterfly", 21, 5), 2u * 4);
}

TEST(ValuesSent, AllRanks_TwiceTheCallPerRankButOne) {
  // Fewer are impossible: every rank's codes must reach a sum, every result must come back.
  for (const char* name : {"ring", "tree", "butterfly", "direct"}) {
    for (uint32_t ranks = 1; ranks <= 130; ++ranks) {
      const Shape shape{ranks, 1000003, 32, 65536};
      uint64_t values_sent = 0;
      for (uint32_t rank = 0; rank < ranks; ++rank) {
        values_sent += totals_of(*schedule_by_name(name), shape, rank).values_sent;
      }
      ASSERT_EQ(values_sent, 2 * (ranks - 1) * shape.value_count) << name << ", " << ranks;
    }
  }
}

TEST(Reductions, EveryOperand_MergedOnce) {
  for (const char* name : {"ring", "tree", "butterfly", "direct"}) {
    for (uint32_t ranks = 1; ranks <= 130; ++ranks) {
      const Shape shape{ranks, 100003, 32, 4096};
      uint64_t reductions = 0;
      for (uint32_t rank = 0; rank < ranks; ++rank) {
        reductions += totals_of(*schedule_by_name(name), shape, rank).reductions;
      }
      ASSERT_EQ(reductions, (ranks - 1) * shape.value_count) << name << ", " << ranks;
    }
  }
}

}  // namespace
}  // namespace gq
