// The bounds of error ratios against worked examples. That calls keep them is tested in
// tests/bindings/python/package/test_auto_error.py, by simulation.
#include "src/plan/error_ratio.h"

#include <gtest/gtest.h>

#include <limits>

#include "src/schedule/nodes.h"

namespace gq {
namespace {

constexpr double kUnbounded = std::numeric_limits<double>::infinity();

double ratio(const Format& format, uint32_t ranks, int32_t schedule_id,
             const Nodes* nodes = nullptr) {
  CostQuestion question{};
  question.format = format;
  question.ranks = ranks;
  question.schedule_id = schedule_id;
  question.nodes = nodes;
  return error_ratio(question);
}

double on_nodes(const Format& format, const std::vector<uint32_t>& ids) {
  const Nodes nodes(ids);
  return ratio(format, static_cast<uint32_t>(ids.size()), GQSGD_SCHEDULE_HIERARCHICAL, &nodes);
}

TEST(ErrorRatio, DirectFlatNodesAndFloats_One) {
  Format floats;
  floats.levels = Levels::none;
  EXPECT_EQ(ratio(Format(), 16, GQSGD_SCHEDULE_DIRECT), 1);
  EXPECT_EQ(ratio(Format(), 16, GQSGD_SCHEDULE_HIERARCHICAL), 1);
  EXPECT_EQ(on_nodes(Format(), {0, 1, 2}), 1);
  EXPECT_EQ(on_nodes(floats, {0, 0, 1, 2, 2, 2, 2, 2, 2, 2, 2}), 1);
  EXPECT_EQ(ratio(floats, 16, GQSGD_SCHEDULE_RING), 1);
}

TEST(ErrorRatio, LinearLevelsOnNodes_VarianceOfEachNode) {
  // 2 nodes of 2 of 4 ranks: 1/4 + 2 (2/4)^2 (1 - 1/4) + 1 over 1/4 + 1 - 1/16.
  EXPECT_DOUBLE_EQ(on_nodes(Format(), {0, 0, 1, 1}), (0.25 + 0.375 + 1) / (0.25 + 0.9375));
  // One node of 3 and one of 1, whose codes go on as they are.
  EXPECT_DOUBLE_EQ(on_nodes(Format(), {1, 0, 0, 0}), (0.25 + 0.5 + 1) / (0.25 + 0.9375));
  Format correlated;
  correlated.rounding = Rounding::correlated;
  EXPECT_DOUBLE_EQ(on_nodes(correlated, {0, 0, 1, 1}), 1.375 / 0.9375);
}

TEST(ErrorRatio, FinerCodesDown_TheirShareOfQuantizing) {
  const std::vector<uint32_t> nodes{0, 0, 1, 1};
  Format format;
  format.bits = 4;  // bits_down stays 8
  // Steps of 1/127 and of 1/7: 2 (2/4)^2 of nodes and 1 of the result, over 1/4 of quantizing.
  EXPECT_DOUBLE_EQ(on_nodes(format, nodes), 1 + 49.0 / 16129 * 1.5 * 4);
  format.block = 128;
  format.rescale = true;
  format.rounding_down = RoundingDown::subtractive;
  EXPECT_DOUBLE_EQ(on_nodes(format, nodes), 1 + 49.0 / 16129 * 1.5 * 4);
  format.rounding = Rounding::correlated;
  EXPECT_DOUBLE_EQ(on_nodes(format, nodes), 1 + 49.0 / 16129 * 1.5 * 16);
  // 16 ranks: too many for a bound that AUTO takes, where they round against each other.
  const std::vector<uint32_t> two_of_8{0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1};
  EXPECT_GT(on_nodes(format, two_of_8), kErrorRatioMax);
  format.rounding = Rounding::independent;
  EXPECT_LT(on_nodes(format, two_of_8), kErrorRatioMax);
  format.bits = 8;  // and the last re-encode as fine as the mean is small
  EXPECT_EQ(on_nodes(format, nodes), kUnbounded);
}

TEST(ErrorRatio, NodesWhereDirectMayRoundByMuchLess_NoBound) {
  const std::vector<uint32_t> nodes{0, 0, 1, 1};
  Format format;
  EXPECT_LT(on_nodes(format, nodes), kErrorRatioMax);
  EXPECT_EQ(on_nodes(format, {0, 0, 0, 1, 1, 1, 2, 2, 2}), kUnbounded);  // 9 ranks
  format.rescale = true;
  EXPECT_EQ(on_nodes(format, nodes), kUnbounded);
  format = Format();
  format.rounding_down = RoundingDown::subtractive;
  EXPECT_EQ(on_nodes(format, nodes), kUnbounded);
  format = Format();
  format.levels = Levels::exponential;
  EXPECT_EQ(on_nodes(format, nodes), kUnbounded);
}

TEST(ErrorRatio, ChainsOfTwoRanks_One) {
  Format exact, average, sum;
  average.combine = Combine::average;
  sum.levels = Levels::exponential;
  sum.combine = Combine::sum;
  for (const int32_t id : {GQSGD_SCHEDULE_RING, GQSGD_SCHEDULE_TREE, GQSGD_SCHEDULE_BUTTERFLY}) {
    EXPECT_EQ(ratio(exact, 1, id), 1);
    EXPECT_EQ(ratio(exact, 2, id), kUnbounded);
    EXPECT_EQ(ratio(average, 2, id), 1);
    EXPECT_EQ(ratio(sum, 2, id), 1);
    EXPECT_EQ(ratio(average, 3, id), kUnbounded);
    EXPECT_EQ(ratio(sum, 3, id), kUnbounded);
  }
}

}  // namespace
}  // namespace gq
