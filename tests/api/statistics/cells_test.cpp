// No bias, seen at a sharper eye: thousands of cells (a format, a schedule, one value per rank), a
// million draws of each through whole allreduces, judged together. What the enumerations of
// tests/unit/kernels prove for one stage is sampled here for all of them in a row.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "tests/api/statistics/rejection.h"
#include "tests/support/operation.h"

namespace gq::test {
namespace {

constexpr size_t kCells = 128;     // of one experiment: one block of values
constexpr size_t kCopies = 512;    // of the block in one call
constexpr uint64_t kSteps = 2048;  // 2^20 draws of each cell
constexpr size_t kValues = kCells * kCopies;

struct CellExperiment {
  const char* quantizer;
  gqsgd_schedule schedule;
  int rank_count;
};

// 32 of them: 4,096 cells. Every level set, rounding mode, combine and re-encode; field and prime
// strata.
constexpr CellExperiment kExperiments[] = {
    {"paper-gl8", GQSGD_SCHEDULE_RING, 3},
    {"paper-gl8", GQSGD_SCHEDULE_DIRECT, 4},
    {"paper-gl8,combine=average", GQSGD_SCHEDULE_RING, 3},
    {"paper-gl8,combine=average", GQSGD_SCHEDULE_BUTTERFLY, 5},
    {"paper-ge8", GQSGD_SCHEDULE_RING, 3},
    {"paper-ge8", GQSGD_SCHEDULE_TREE, 4},
    {"paper-ge8", GQSGD_SCHEDULE_DIRECT, 3},
    {"paper-gl4", GQSGD_SCHEDULE_TREE, 4},
    {"paper-gl4", GQSGD_SCHEDULE_DIRECT, 3},
    {"paper-ge4", GQSGD_SCHEDULE_BUTTERFLY, 3},
    {"paper-ge4", GQSGD_SCHEDULE_DIRECT, 4},
    {"paper-gl8,block=128", GQSGD_SCHEDULE_TREE, 3},
    {"paper-gl8,block=32", GQSGD_SCHEDULE_DIRECT, 3},
    {"paper-ge8,block=128", GQSGD_SCHEDULE_RING, 3},
    {"paper-gl8,rounding=correlated", GQSGD_SCHEDULE_RING, 4},
    {"paper-gl8,rounding=correlated", GQSGD_SCHEDULE_DIRECT, 5},
    {"paper-ge8,rounding=correlated", GQSGD_SCHEDULE_TREE, 4},
    {"paper-ge8,rounding=correlated", GQSGD_SCHEDULE_DIRECT, 3},
    {"paper-gl4,rounding=correlated", GQSGD_SCHEDULE_DIRECT, 8},
    {"paper-ge4,rounding=correlated", GQSGD_SCHEDULE_TREE, 6},
    {"blocks-8", GQSGD_SCHEDULE_DIRECT, 4},
    {"blocks-8", GQSGD_SCHEDULE_DIRECT, 5},
    {"blocks-8,bits=4", GQSGD_SCHEDULE_DIRECT, 4},
    {"blocks-8,bits=4,bits_down=8", GQSGD_SCHEDULE_DIRECT, 3},
    {"blocks-8,rounding_down=subtractive", GQSGD_SCHEDULE_DIRECT, 4},
    {"paper-gl8,rounding_down=subtractive", GQSGD_SCHEDULE_DIRECT, 3},
    {"rotated-8", GQSGD_SCHEDULE_DIRECT, 4},
    {"rotated-4-8", GQSGD_SCHEDULE_DIRECT, 3},
    {"rotated-4", GQSGD_SCHEDULE_DIRECT, 4},
    {"relative-8", GQSGD_SCHEDULE_DIRECT, 4},
    {"relative-8,rounding=independent", GQSGD_SCHEDULE_DIRECT, 3},
    {"levels=exponential,bits=8,block=128,rescale=true", GQSGD_SCHEDULE_DIRECT, 3},
};

/** One block, the same in all copies: fractions of the norm of many sizes, equal on all ranks,
 *  opposite, zero on some, or unrelated. Value 0 is the norm, on rank 0. */
std::vector<Values> cells(int rank_count, uint64_t seed) {
  std::vector<Values> inputs(static_cast<size_t>(rank_count), Values(kValues));
  for (size_t cell = 0; cell < kCells; ++cell) {
    const double size = cell % 4 == 3 ? std::exp2(-8 * uniform_at(seed, cell)) : 1;
    for (int rank = 0; rank < rank_count; ++rank) {
      const uint64_t place = cell % 5 == 0 ? 0 : static_cast<uint64_t>(rank);
      double value = size * (2 * uniform_at(seed + 1 + place, cell) - 1);
      if (cell % 5 == 1 && rank % 2 == 1) value = -static_cast<double>(inputs[0][cell]);
      if (cell % 7 == 6 && rank % 2 == 0) value = 0;
      inputs[static_cast<size_t>(rank)][cell] = static_cast<float>(value);
    }
  }
  inputs[0][0] = 1;
  for (Values& values : inputs) {
    for (size_t e = kCells; e < kValues; ++e) values[e] = values[e % kCells];
  }
  return inputs;
}

/** What a mutation does to a result. */
using Spoil = std::function<void(Values&)>;

struct CellSums {
  std::vector<double> deviation = std::vector<double>(kCells);
  std::vector<double> square = std::vector<double>(kCells);
  std::vector<double> largest = std::vector<double>(kCells);
};

CellSums draw_cells(const CellExperiment& experiment, const std::vector<Values>& inputs,
                    const std::vector<double>& mean, const Spoil& spoil) {
  CellSums sums;
  const bool has_nodes = experiment.schedule == GQSGD_SCHEDULE_HIERARCHICAL;
  const std::string options = has_nodes ? nodes_option(uneven_nodes(experiment.rank_count)) : "";
  for (uint64_t step = 0; step < kSteps; ++step) {
    const Operation operation{experiment.quantizer, experiment.schedule, GQSGD_MEAN, false, step};
    Values result = simulate(operation, inputs, options);
    if (spoil) spoil(result);
    for (size_t cell = 0; cell < kCells; ++cell) {
      double sum = 0, square = 0, largest = sums.largest[cell];
      for (size_t e = cell; e < kValues; e += kCells) {
        const double deviation = result[e] - mean[cell];
        sum += deviation;
        square += deviation * deviation;
        largest = std::max(largest, std::fabs(deviation));
      }
      sums.deviation[cell] += sum;
      sums.square[cell] += square;
      sums.largest[cell] = largest;
    }
  }
  return sums;
}

/** Copies of a cell lie 128 values apart and share no random word. Their variance is estimated from
 *  the draws themselves, good to 2^-9 wherever a million of them see all outcomes. */
constexpr double kVarianceMargin = 1.02;

std::vector<Hypothesis> hypotheses(const CellExperiment& experiment, const Spoil& spoil) {
  const std::vector<Values> inputs = cells(experiment.rank_count, 17);
  std::vector<double> mean(kCells);
  for (size_t cell = 0; cell < kCells; ++cell) {
    for (const Values& values : inputs) mean[cell] += values[cell];
    mean[cell] /= experiment.rank_count;
  }
  const CellSums sums = draw_cells(experiment, inputs, mean, spoil);
  const double draws = static_cast<double>(kCopies * kSteps);
  std::vector<Hypothesis> family;
  for (size_t cell = 0; cell < kCells; ++cell) {
    // Float32 products: docs/FORMAT.md, section 5. The norm is 1 here, or more by its own rounding.
    const double allowed = draws * (0x1p-21 * std::fabs(mean[cell]) + 0x1p-22);
    const double beyond = std::max(0.0, std::fabs(sums.deviation[cell]) - allowed);
    family.push_back({std::string(experiment.quantizer) + " " + schedule_name(experiment.schedule) +
                          ", cell " + std::to_string(cell),
                      bernstein(beyond, kVarianceMargin * sums.square[cell], sums.largest[cell])});
  }
  return family;
}

TEST(Cells, FourThousandCellsOfAMillionDraws_NoBias) {
  std::vector<Hypothesis> family;
  for (const CellExperiment& experiment : kExperiments) {
    const std::vector<Hypothesis> more = hypotheses(experiment, nullptr);
    family.insert(family.end(), more.begin(), more.end());
  }
  EXPECT_EQ(family.size(), 4096u);
  EXPECT_EQ(rejected(family), "");
}

// Every value is between two numbers of the type, which rounding to nearest shows.
TEST(Cells, FloatsOf16Bits_NoBias) {
  std::vector<Hypothesis> family = hypotheses({"bf16", GQSGD_SCHEDULE_DIRECT, 3}, nullptr);
  const std::vector<Hypothesis> more = hypotheses({"fp16", GQSGD_SCHEDULE_DIRECT, 4}, nullptr);
  family.insert(family.end(), more.begin(), more.end());
  EXPECT_EQ(rejected(family), "");
  const std::vector<Hypothesis> nearest =
      hypotheses({"bf16,rounding=nearest", GQSGD_SCHEDULE_DIRECT, 3}, nullptr);
  EXPECT_NE(rejected(nearest), "");
}

TEST(Cells, Hierarchies_NoBias) {
  std::vector<Hypothesis> family;
  for (const char* quantizer : {"paper-gl8", "paper-ge8", "paper-gl4", "blocks-8", "rotated-4-8",
                                "relative-8", "blocks-8,rounding_down=subtractive", "bf16",
                                "rice-3"}) {
    const CellExperiment experiment{quantizer, GQSGD_SCHEDULE_HIERARCHICAL, 5};
    const std::vector<Hypothesis> more = hypotheses(experiment, nullptr);
    family.insert(family.end(), more.begin(), more.end());
  }
  EXPECT_EQ(rejected(family), "");
}

constexpr CellExperiment kSmall = {"blocks-8", GQSGD_SCHEDULE_DIRECT, 4};

TEST(CellsCanFail, HalfAPercentOfAStep_Rejected) {
  const Spoil shift = [](Values& result) {
    for (float& value : result) value += 0.005f / 127;
  };
  EXPECT_NE(rejected(hypotheses(kSmall, shift)), "");
}

TEST(CellsCanFail, Clamp_Rejected) {
  const Spoil clamp = [](Values& result) {
    for (float& value : result) value = std::fmin(value, 0.5f);
  };
  EXPECT_NE(rejected(hypotheses(kSmall, clamp)), "");
}

}  // namespace
}  // namespace gq::test
