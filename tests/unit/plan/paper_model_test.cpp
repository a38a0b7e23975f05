// The paper's closed forms against the numbers that it gives itself.
#include "tests/unit/plan/paper_model.h"

#include <gtest/gtest.h>

namespace gq::test {
namespace {

constexpr double kGammaOfA100 = 2e12;  // bytes per second, as the paper has it

TEST(PaperModel, LinearLevels_SpeedUpAtAnyBandwidth) {
  for (const double beta : {1e3, 1e6, 1e9, 1e12, 1e15}) {
    EXPECT_TRUE(paper_speeds_up(beta, kGammaOfA100, 4, 1)) << beta;
  }
}

TEST(PaperModel, ExponentialLevels_SpeedUpBelowEightHundredthsOfGamma) {
  // omega = 79: beta < 6 gamma / 75 = 0.08 gamma. Both links of the paper's machine are below.
  EXPECT_TRUE(paper_speeds_up(53.9e9, kGammaOfA100, 4, 79));
  EXPECT_TRUE(paper_speeds_up(0.0799 * kGammaOfA100, kGammaOfA100, 4, 79));
  EXPECT_FALSE(paper_speeds_up(0.0801 * kGammaOfA100, kGammaOfA100, 4, 79));
}

TEST(PaperModel, Condition_HoldsWhereTreeAndRingAreFaster) {
  for (const double omega : {0.5, 1.0, 3.9, 4.1, 20.0, 79.0}) {
    for (const double beta : {1e8, 1e10, 1.5e11, 1.7e11, 1e12, 1e13}) {
      const PaperMachine plain{1e-5, beta, kGammaOfA100, kGammaOfA100, 0};
      const PaperMachine coded{1e-5, beta, kGammaOfA100, kGammaOfA100 / omega, 0};
      const bool faster = paper_speeds_up(beta, kGammaOfA100, 4, omega);
      const double bytes = 25e6;
      EXPECT_EQ(paper_tree_s(coded, 16, bytes, 4) < paper_tree_s(plain, 16, bytes, 1), faster);
      EXPECT_EQ(paper_ring_s(coded, 16, bytes, 4) < paper_ring_s(plain, 16, bytes, 1), faster);
    }
  }
}

TEST(PaperModel, Tree_ByHand) {
  // n = 4: 4 alpha, 4 S-hat / beta, 2 S-hat / gamma-hat, delta S.
  const PaperMachine machine{1.0, 100.0, 1.0, 50.0, 0.5};
  EXPECT_DOUBLE_EQ(paper_tree_s(machine, 4, 400, 4), 4.0 + 4.0 + 4.0 + 200.0);
  // Ring: 6 alpha, 3/2 S-hat / beta, 3/4 S-hat / gamma-hat, delta S.
  EXPECT_DOUBLE_EQ(paper_ring_s(machine, 4, 400, 4), 6.0 + 1.5 + 1.5 + 200.0);
}

}  // namespace
}  // namespace gq::test
