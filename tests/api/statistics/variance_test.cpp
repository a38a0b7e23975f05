// Allreduces have the variance of their exact law: for a linear ring the sum of f (1 - f) step^2
// over ranks, for the others what docs/FORMAT.md's second roundings add to it. Two-sided: too
// little noise is as wrong as too much.
#include <gqsgd_stages.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/api/statistics/sampling.h"

namespace gq::test {
namespace {

constexpr size_t kValues = 1024;
constexpr uint64_t kDraws = 1500;

/** Three percent are asked for. The sampling error of the ratio is below 0.2 % here, so one percent
 * is five deviations away, and three percent are always found. */
constexpr double kTolerance = 0.01;

/** Measured over exact variance, averaged over elements with weights that keep rare events (large
 *  fourth moments) from drowning the rest. Elements without noise are left to unbiased_test. */
double variance_ratio(const Experiment& experiment, const Estimator& estimator) {
  const std::vector<Element> elements = exact_elements(experiment);
  const Sample sample = draw(estimator, elements, kDraws);
  double sum = 0, weights = 0;
  for (size_t e = 0; e < elements.size(); ++e) {
    const double variance = elements[e].variance;
    if (variance == 0) continue;
    const double weight = variance * variance / elements[e].fourth_moment;
    sum += weight * sample.square[e] / static_cast<double>(kDraws) / variance;
    weights += weight;
  }
  return sum / weights;
}

class VarianceOfAllreduces : public testing::TestWithParam<int> {};

TEST_P(VarianceOfAllreduces, EqualsTheExactLaw) {
  for (const Experiment& experiment : experiments(GetParam(), kValues)) {
    EXPECT_NEAR(variance_ratio(experiment, experiment.library()), 1, kTolerance)
        << experiment.name();
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, VarianceOfAllreduces, testing::Values(1, 2, 5));

TEST(Variance, OfALinearRingIsTheSumOfFTimesOneMinusF) {
  const Experiment experiment{"paper-gl8", GQSGD_SCHEDULE_RING, gradients(5, 256, 8)};
  const double top = std::floor(127.0 / 5), step = norm_of(experiment.inputs) / top;
  const std::vector<Element> elements = exact_elements(experiment);
  for (size_t e = 0; e < elements.size(); ++e) {
    double closed_form = 0;
    for (const Values& values : experiment.inputs) {
      const double t = values[e] / step, f = t - std::floor(t);
      closed_form += f * (1 - f) * step * step;
    }
    ASSERT_NEAR(elements[e].variance, closed_form / 25, 1e-12 * step * step) << "value " << e;
  }
}

/** A linear ring made of stages, with the rank that each one claims to be. */
Estimator ring_of_stages(const Experiment& experiment, bool all_claim_rank_0) {
  return [&experiment, all_claim_rank_0](uint64_t step) {
    const Quantizer quantizer(experiment.preset);
    const size_t value_count = experiment.value_count(), word_count = (value_count + 3) / 4;
    const float norm = norm_of(experiment.inputs);
    gqsgd_site site = {};
    site.size = experiment.rank_count();
    site.reduction_depth = site.size - 1;
    site.step = step;
    std::vector<uint32_t> sum(word_count), words(word_count);
    Values result(value_count);
    gqsgd_status status = GQSGD_OK;
    for (size_t rank = 0; rank < site.size && status == GQSGD_OK; ++rank) {
      site.rank = all_claim_rank_0 ? 0 : rank;
      site.hop = 0;
      status = gqsgd_quantize(quantizer.get(), &site, experiment.inputs[rank].data(), value_count,
                              GQSGD_FLOAT32, &norm, words.data(), nullptr, 0, nullptr);
      if (rank == 0) sum = words;
      if (rank == 0 || status != GQSGD_OK) continue;
      site.hop = rank;
      status = gqsgd_reduce(quantizer.get(), &site, words.data(), sum.data(), value_count, nullptr);
    }
    site.hop = 0;
    if (status == GQSGD_OK) {
      status = gqsgd_dequantize(quantizer.get(), &site, sum.data(), &norm, value_count,
                                GQSGD_FLOAT32, GQSGD_MEAN, result.data(), nullptr);
    }
    if (status != GQSGD_OK) throw std::runtime_error(gqsgd_last_error());
    return result;
  };
}

/** Equal inputs on all ranks: the worst case for ranks that share their random words. */
Experiment equal_inputs() {
  const Values values = gradients(1, kValues, 77)[0];
  return {"paper-gl8", GQSGD_SCHEDULE_RING, std::vector<Values>(4, values)};
}

TEST(Variance, OfARingMadeOfStagesEqualsTheExactLaw) {
  const Experiment experiment = equal_inputs();
  EXPECT_NEAR(variance_ratio(experiment, ring_of_stages(experiment, false)), 1, kTolerance);
}

TEST(VarianceCanFail, RanksThatShareTheirRandomWordsMultiplyIt) {
  const Experiment experiment = equal_inputs();
  EXPECT_NEAR(variance_ratio(experiment, ring_of_stages(experiment, true)), 4, 4 * kTolerance);
}

TEST(VarianceCanFail, ThreePercentMoreOrLessAreOutsideTheTolerance) {
  for (const Experiment& experiment : experiments(3, kValues)) {
    const Estimator library = experiment.library();
    const std::vector<Element> elements = exact_elements(experiment);
    for (double factor : {1.03, 0.97}) {
      const auto noisier = [&](uint64_t step) {
        Values result = library(step);
        for (size_t e = 0; e < result.size(); ++e) {
          const double mean = elements[e].mean;
          result[e] = static_cast<float>(mean + std::sqrt(factor) * (result[e] - mean));
        }
        return result;
      };
      EXPECT_GT(std::fabs(variance_ratio(experiment, noisier) - 1), kTolerance)
          << experiment.name() << ", factor " << factor;
    }
  }
}

}  // namespace
}  // namespace gq::test
