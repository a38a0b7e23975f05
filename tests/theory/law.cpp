// Rounding between neighbours with the probability that keeps the mean, and chains of it.
#include "tests/theory/law.h"

#include <cmath>

namespace gq {
namespace {

/** Adds probability * (random rounding of `value` to the grid) to `law`. */
void round_into(const Grid& grid, double value, double probability, Law* law) {
  const double sign = value < 0 ? -1 : 1;
  const double magnitude = std::abs(value);
  double lower = std::floor(magnitude / grid.smallest) * grid.smallest;
  double upper = lower + grid.smallest;
  if (grid.exponential && magnitude >= grid.smallest) {
    lower = grid.smallest * std::exp2(std::floor(std::log2(magnitude / grid.smallest)));
    upper = 2 * lower;
  }
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

Law wide(const Grid& grid, const std::vector<Operand>& operands) {
  Operand sum = operands[0];
  for (size_t i = 1; i < operands.size(); ++i) {
    sum = merge_two(grid, sum, operands[i], Combined::exactly);
  }
  Law result;
  for (const auto& [value, probability] : sum.law) {
    round_into(grid, value / sum.ranks, probability, &result);
  }
  return result;
}

}  // namespace

Law law_of_mean(const Grid& grid, const std::vector<double>& x, Merge merge, Combined combined) {
  std::vector<Operand> ranks(x.size());
  for (size_t i = 0; i < x.size(); ++i) {
    ranks[i].ranks = 1;
    round_into(grid, x[i], 1, &ranks[i].law);
  }
  if (merge == Merge::wide) return wide(grid, ranks);
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
