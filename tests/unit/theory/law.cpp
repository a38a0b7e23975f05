// Rounding between neighbours with the probability that keeps the mean, and chains of it.
#include "tests/unit/theory/law.h"

#include <cmath>

namespace gq {
namespace {

/** Adds probability * (random rounding of `value` to the grid) to `law`. */
void round_into(const Grid& grid, double value, double probability, Law* law) {
  const double sign = value < 0 ? -1 : 1;
  const double magnitude = std::abs(value);
  double step = grid.smallest;
  const double octave = std::ldexp(grid.smallest, grid.mantissa_bits);
  if (grid.exponential && magnitude >= octave) {
    step *= std::exp2(std::floor(std::log2(magnitude / octave)));
  }
  const double lower = std::floor(magnitude / step) * step;
  const double upper = lower + step;
  const double up = (magnitude - lower) / (upper - lower);
  if (up < 1) (*law)[sign * lower + 0.0] += probability * (1 - up);
  if (up > 0) (*law)[sign * upper] += probability * up;
}

struct Operand {
  Law law;
  uint32_t ranks;
};

Operand merge_two(const Grid& grid, const Operand& a, const Operand& b, Combined combined) {
  Operand result{{}, a.ranks + b.ranks};
  for (const auto& [value_a, probability_a] : a.law) {
    for (const auto& [value_b, probability_b] : b.law) {
      const double probability = probability_a * probability_b;
      const double average = (a.ranks * value_a + b.ranks * value_b) / result.ranks;
      if (combined == Combined::exactly) result.law[value_a + value_b] += probability;
      if (combined == Combined::as_sum) {
        round_into(grid, value_a + value_b, probability, &result.law);
      }
      if (combined == Combined::as_average) round_into(grid, average, probability, &result.law);
    }
  }
  return result;
}

Law scaled(const Law& law, double factor) {
  Law result;
  for (const auto& [value, probability] : law) result[value * factor] += probability;
  return result;
}

/** Each rank's codes. */
std::vector<Operand> quantized(const Grid& grid, const std::vector<double>& x) {
  std::vector<Operand> ranks(x.size());
  for (size_t i = 0; i < x.size(); ++i) {
    ranks[i].ranks = 1;
    round_into(grid, x[i], 1, &ranks[i].law);
  }
  return ranks;
}

}  // namespace

Law law_of_code_mean(const Grid& grid, const std::vector<double>& x) {
  const std::vector<Operand> ranks = quantized(grid, x);
  Operand sum = ranks[0];
  for (size_t i = 1; i < ranks.size(); ++i) {
    sum = merge_two(grid, sum, ranks[i], Combined::exactly);
  }
  return scaled(sum.law, 1.0 / sum.ranks);
}

Law law_of_wide_mean(const Grid& grid, const Grid& down, const std::vector<double>& x) {
  Law result;
  for (const auto& [value, probability] : law_of_code_mean(grid, x)) {
    round_into(down, value, probability, &result);
  }
  return result;
}

Law law_of_mean(const Grid& grid, const std::vector<double>& x, Merge merge, Combined combined) {
  if (merge == Merge::wide) return law_of_wide_mean(grid, grid, x);
  std::vector<Operand> ranks = quantized(grid, x);
  if (merge == Merge::ring) {
    for (size_t i = 1; i < x.size(); ++i) {
      ranks[0] = merge_two(grid, ranks[0], ranks[i], combined);
    }
  } else {
    for (size_t distance = 1; distance < x.size(); distance *= 2) {
      for (size_t i = 0; i + distance < x.size(); i += 2 * distance) {
        ranks[i] = merge_two(grid, ranks[i + distance], ranks[i], combined);
      }
    }
  }
  const bool is_mean = combined == Combined::as_average;
  return is_mean ? ranks[0].law : scaled(ranks[0].law, 1.0 / static_cast<double>(x.size()));
}

double mean_of(const Law& law) {
  double mean = 0;
  for (const auto& [value, probability] : law) mean += value * probability;
  return mean;
}

double variance_of(const Law& law) {
  const double mean = mean_of(law);
  double variance = 0;
  for (const auto& [value, probability] : law) {
    variance += probability * (value - mean) * (value - mean);
  }
  return variance;
}

}  // namespace gq
