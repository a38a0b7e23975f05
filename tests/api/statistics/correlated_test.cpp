// What correlated rounding buys: the variance of a sum over ranks, never above the closed form of
// independent rounding and far below it where ranks are many. Each way to get it wrong is a
// mutation and must show.
#include <gqsgd_stages.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/operation.h"

namespace gq::test {
namespace {

constexpr size_t kValues = 2048;
constexpr uint64_t kSteps = 96;

/** The mean square of 196,608 errors has a deviation below 0.5 %; three percent are asked for. */
constexpr double kTolerance = 0.02;

enum class Fault { none, strata_not_common, magnitudes, equal_words };

enum class Inputs { random, equal, opposite, staircase };

/** Values in -1..1 of each rank. Opposite signs and staircases are the worst cases of rounding
 *  magnitudes and of cyclic shifts (docs/FORMAT.md, section 5). */
std::vector<Values> inputs_of(Inputs kind, int rank_count) {
  std::vector<Values> inputs(static_cast<size_t>(rank_count), Values(kValues));
  for (int rank = 0; rank < rank_count; ++rank) {
    for (size_t e = 0; e < kValues; ++e) {
      const uint64_t place = kind == Inputs::random ? static_cast<uint64_t>(rank) : 0;
      double value = 2 * uniform_at(90 + place, e) - 1;
      if (kind == Inputs::opposite && rank % 2 == 1) value = -value;
      if (kind == Inputs::staircase) value = (value - static_cast<double>(rank) / rank_count) / 127;
      inputs[static_cast<size_t>(rank)][e] = static_cast<float>(value);
    }
  }
  return inputs;
}

/** One rank's values after quantize and dequantize, as the sum over ranks would hold them. */
Values coded(const Quantizer& quantizer, gqsgd_site site, const Values& values, Fault fault) {
  const float norm = 1;
  Values magnitudes = values, result(values.size());
  if (fault == Fault::magnitudes) {
    for (float& value : magnitudes) value = std::fabs(value);
  }
  if (fault == Fault::strata_not_common) site.index = site.rank;
  if (fault == Fault::equal_words) site.rank = 0;
  std::vector<uint32_t> words(values.size());
  EXPECT_EQ(gqsgd_quantize(quantizer.get(), &site, magnitudes.data(), values.size(), GQSGD_FLOAT32,
                           &norm, words.data(), nullptr, 0, nullptr),
            GQSGD_OK);
  EXPECT_EQ(gqsgd_dequantize(quantizer.get(), &site, words.data(), &norm, values.size(),
                             GQSGD_FLOAT32, GQSGD_MEAN, result.data(), nullptr),
            GQSGD_OK);
  for (size_t e = 0; e < values.size() && fault == Fault::magnitudes; ++e) {
    if (values[e] < 0) result[e] = -result[e];
  }
  return result;
}

/** Mean square error of the sum over ranks. */
double measured(const std::string& text, const std::vector<Values>& inputs, Fault fault) {
  const Quantizer quantizer(text);
  gqsgd_site site = {};
  site.size = inputs.size();
  double square = 0;
  for (site.step = 0; site.step < kSteps; ++site.step) {
    std::vector<double> error(kValues);
    for (site.rank = 0; site.rank < inputs.size(); ++site.rank) {
      const Values& values = inputs[site.rank];
      const Values result = coded(quantizer, site, values, fault);
      for (size_t e = 0; e < kValues; ++e) error[e] += double{result[e]} - double{values[e]};
    }
    for (const double one : error) square += one * one;
  }
  return square / static_cast<double>(kValues * kSteps);
}

/** Distance between the two levels around |x| <= 1, and x's place between them. */
struct Between {
  double width;
  double fraction;
};

Between between(bool is_linear, int bits, double magnitude) {
  const double top = (1 << (bits - 1)) - 1;
  if (is_linear) return {1 / top, magnitude * top - std::floor(magnitude * top)};
  const double smallest = std::exp2(1 - top);
  const double low = magnitude < smallest ? 0 : std::exp2(std::floor(std::log2(magnitude)));
  const double width = low == 0 ? smallest : low;
  return {width, (magnitude - low) / width};
}

/** The closed form of independent rounding: the sum of f (1 - f) width^2 over ranks. */
double independent_law(bool is_linear, int bits, const std::vector<Values>& inputs) {
  double sum = 0;
  for (const Values& values : inputs) {
    for (const float value : values) {
      const Between place = between(is_linear, bits, std::fabs(double{value}));
      sum += place.fraction * (1 - place.fraction) * place.width * place.width;
    }
  }
  return sum / static_cast<double>(kValues);
}

struct Levels {
  const char* preset;
  bool is_linear;
  int bits;
};
constexpr Levels kLevels[] = {{"paper-gl8", true, 8},
                              {"paper-gl4", true, 4},
                              {"paper-ge8", false, 8},
                              {"paper-ge4", false, 4}};
constexpr Inputs kInputs[] = {Inputs::random, Inputs::equal, Inputs::opposite, Inputs::staircase};

double ratio(const Levels& levels, const char* rounding, Inputs kind, int rank_count,
             Fault fault = Fault::none) {
  const std::vector<Values> inputs = inputs_of(kind, rank_count);
  const std::string text = std::string(levels.preset) + ",rounding=" + rounding;
  return measured(text, inputs, fault) / independent_law(levels.is_linear, levels.bits, inputs);
}

std::string name_of(const Levels& levels, Inputs kind, int rank_count) {
  return std::string(levels.preset) + ", inputs " + std::to_string(static_cast<int>(kind)) + ", " +
         std::to_string(rank_count) + " ranks";
}

class Correlated : public testing::TestWithParam<int> {};

TEST_P(Correlated, IndependentRoundingHasItsClosedForm) {
  for (const Levels& levels : kLevels) {
    for (const Inputs kind : kInputs) {
      EXPECT_NEAR(ratio(levels, "independent", kind, GetParam()), 1, kTolerance)
          << name_of(levels, kind, GetParam());
    }
  }
}

TEST_P(Correlated, NeverHasMoreVariance) {
  for (const Levels& levels : kLevels) {
    for (const Inputs kind : kInputs) {
      EXPECT_LT(ratio(levels, "correlated", kind, GetParam()), 1 + kTolerance)
          << name_of(levels, kind, GetParam());
    }
  }
}

TEST_P(Correlated, HasTwoThirdsOfItOrLessFromEightRanksOn) {
  if (GetParam() < 8) return;
  for (const Levels& levels : kLevels) {
    if (!levels.is_linear) continue;  // octaves of different ranks share few thresholds
    for (const Inputs kind : {Inputs::random, Inputs::equal}) {
      EXPECT_LT(ratio(levels, "correlated", kind, GetParam()), 1 / 1.5)
          << name_of(levels, kind, GetParam());
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, Correlated, testing::Values(1, 2, 3, 4, 5, 8, 12, 16, 17, 31, 64));

TEST(CorrelatedCanFail, StrataThatAreNotCommonBuyNothing) {
  EXPECT_GT(ratio(kLevels[0], "correlated", Inputs::random, 8, Fault::strata_not_common), 1 / 1.5);
  EXPECT_GT(ratio(kLevels[0], "correlated", Inputs::equal, 16, Fault::strata_not_common), 1 / 1.5);
}

TEST(CorrelatedCanFail, MagnitudesInsteadOfSignedValuesAddVariance) {
  EXPECT_GT(ratio(kLevels[0], "correlated", Inputs::opposite, 2, Fault::magnitudes),
            1 + kTolerance);
}

TEST(CorrelatedCanFail, EqualWordsOnAllRanksAddVariance) {
  EXPECT_GT(ratio(kLevels[0], "independent", Inputs::equal, 4, Fault::equal_words), 2);
}

}  // namespace
}  // namespace gq::test
