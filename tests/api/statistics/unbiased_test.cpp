// Allreduces are unbiased: over many steps every element's mean is the inputs' mean. Thousands of
// hypotheses per experiment, with an error level of 1e-6 for each family; mutations show that
// the test sees half a percent of a step.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/api/statistics/rejection.h"
#include "tests/api/statistics/sampling.h"
#include "tests/support/allreduce_law.h"

namespace gq::test {
namespace {

constexpr size_t kValues = 1024;
constexpr uint64_t kDraws = 3000;

/** Float32 products may shift a mean by 2^-21 of the value, 23 random bits by 2^-23 of a step,
 * which is below the norm (docs/FORMAT.md, section 5). A deviation counts only beyond that. */
double beyond_arithmetic(double deviation, double allowed) {
  return std::max(0.0, std::fabs(deviation) - allowed);
}

/** Elements whose deviations are added up before they are judged: small biases that all elements
 *  share show only there. Elements of one pool draw from different random words. */
struct Pool {
  double deviation = 0;
  double variance = 0;
  double largest = 0;
  double allowed = 0;
};

/** Every element for itself, and for each of the four lanes of a word all elements together:
 * plainly, and with the signs of their means, which shows a pull towards zero. */
std::vector<Hypothesis> hypotheses(const Sample& sample, const std::vector<Element>& elements,
                                   double norm) {
  const double draws = static_cast<double>(sample.draw_count);
  std::vector<Hypothesis> family;
  Pool plain[4], towards_zero[4];
  for (size_t e = 0; e < elements.size(); ++e) {
    const Element& element = elements[e];
    const double allowed = draws * (0x1p-21 * std::fabs(element.mean) + 0x1p-23 * norm);
    const double variance = draws * element.variance;
    family.push_back(
        {"value " + std::to_string(e),
         bernstein(beyond_arithmetic(sample.deviation[e], allowed), variance, element.largest)});
    for (Pool* pool : {&plain[e % 4], &towards_zero[e % 4]}) {
      const bool is_signed = pool == &towards_zero[e % 4];
      pool->deviation += sample.deviation[e] * (is_signed && element.mean < 0 ? -1 : 1);
      pool->variance += variance;
      pool->largest = std::max(pool->largest, element.largest);
      pool->allowed += allowed;
    }
  }
  for (int lane = 0; lane < 4; ++lane) {
    for (const Pool& pool : {plain[lane], towards_zero[lane]}) {
      family.push_back({"all values of lane " + std::to_string(lane),
                        bernstein(beyond_arithmetic(pool.deviation, pool.allowed), pool.variance,
                                  pool.largest)});
    }
  }
  return family;
}

std::string verdict(const Experiment& experiment, const Estimator& estimator) {
  const std::vector<Element> elements = exact_elements(experiment);
  const Sample sample = draw(estimator, elements, kDraws);
  return rejected(hypotheses(sample, elements, norm_of(experiment.inputs)));
}

class Unbiased : public testing::TestWithParam<int> {};

TEST_P(Unbiased, Allreduces_InputsMeanOverSteps) {
  for (const Experiment& experiment : experiments(GetParam(), kValues)) {
    EXPECT_EQ(verdict(experiment, experiment.library()), "") << experiment.name();
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, Unbiased, testing::Values(1, 2, 5));

/** The distance between two linear codes of one rank, in values. */
double rank_step(const Experiment& experiment) {
  return norm_of(experiment.inputs) /
         linear_levels(coding_of(experiment.preset), experiment.schedule, experiment.rank_count());
}

TEST(UnbiasedCanFail, HalfAPercentOfAStep_Rejected) {
  for (const Experiment& experiment : experiments(4, kValues)) {
    if (coding_of(experiment.preset).is_exponential) continue;
    const double shift = 0.005 * rank_step(experiment);
    EXPECT_NE(verdict(experiment, shifted(experiment.library(), shift)), "") << experiment.name();
  }
}

TEST(UnbiasedCanFail, ClampAtTheLargestInputMean_Rejected) {
  for (const Experiment& experiment : experiments(4, kValues)) {
    double largest_mean = 0;
    for (const Element& element : exact_elements(experiment)) {
      largest_mean = std::max(largest_mean, std::fabs(element.mean));
    }
    const Estimator estimator = clamped(experiment.library(), largest_mean);
    EXPECT_NE(verdict(experiment, estimator), "") << experiment.name();
  }
}

TEST(UnbiasedCanFail, NearestRoundingOfTheMean_Rejected) {
  const Experiment experiment{"paper-gl8", GQSGD_SCHEDULE_DIRECT, gradients(4, kValues, 44)};
  const double step = rank_step(experiment);
  Values nearest;
  for (const Element& element : exact_elements(experiment)) {
    nearest.push_back(static_cast<float>(step * std::nearbyint(element.mean / step)));
  }
  EXPECT_NE(verdict(experiment, [&](uint64_t) { return nearest; }), "");
}

TEST(Rejection, FamilyOfTrueHypotheses_Accepted) {
  std::vector<Hypothesis> family;
  for (int i = 1; i <= 1000; ++i) family.push_back({"true", i / 1000.0});
  EXPECT_EQ(rejected(family), "");
}

TEST(Rejection, OneFalseHypothesisAmongMany_Found) {
  std::vector<Hypothesis> family(1000, {"true", 0.5});
  family[500] = {"false", 1e-10};
  EXPECT_NE(rejected(family).find("false"), std::string::npos);
  EXPECT_EQ(rejected(family).find("true"), std::string::npos);
}

}  // namespace
}  // namespace gq::test
