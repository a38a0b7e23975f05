// Variances of rounding in units of a sixth of a squared step of the ranks' codes, which is the
// variance where all fractions of a step are equally likely.
#include "src/plan/error_ratio.h"

#include <limits>

#include "src/schedule/nodes.h"

namespace gq {
namespace {

constexpr double kUnbounded = std::numeric_limits<double>::infinity();

// With more ranks the mean may be within a small fraction of a step from a level, where direct
// hardly rounds, while means of nodes are anywhere: 4 nodes of 8 ranks multiply the error by 1.8
// (docs/results/nodes.md), where fractions that are equally likely would give 1.2.
constexpr uint32_t kFewRanks = 8;

/** Quantizing; for direct one re-encode, of sums that are multiples of 1/n of a step; for nodes of
 *  k ranks one each, of multiples of 1/k, which counts k/n in the mean, and a last one. Ranks that
 *  do not round independently may quantize without an error. */
double linear_ratio(const Format& format, const Nodes& nodes, double n) {
  const double quantize = format.rounding == Rounding::independent ? 1 / n : 0;
  double of_nodes = 0;
  for (uint32_t node = 0; node < nodes.count(); ++node) {
    const double k = nodes.size_of(node);
    of_nodes += (k * k - 1) / (n * n);
  }
  return (quantize + of_nodes + 1) / (quantize + 1 - 1 / (n * n));
}

/** Codes on the way down and between nodes are finer than those of ranks: one step is `finer` times
 *  the other, and no re-encode has a larger one than the norm over s_down. Quantizing has at least
 *  1/n, or 1/n^2 where ranks round against each other; re-encodes of nodes add what they have, and
 *  the last one may do so too where direct's happens to be exact. */
double finer_ratio(const Format& format, const Nodes& nodes, double n) {
  const double finer = static_cast<double>(code_max(format.bits)) / code_max(format.bits_down);
  const double quantize = format.rounding == Rounding::independent ? 1 / n : 1 / (n * n);
  double of_nodes = 0;
  for (uint32_t node = 0; node < nodes.count(); ++node) {
    const double k = nodes.size_of(node);
    of_nodes += k * k / (n * n);
  }
  return 1 + finer * finer * (of_nodes + 1) / quantize;
}

double hierarchical_ratio(const CostQuestion& question) {
  if (question.nodes == nullptr || question.nodes->is_flat()) return 1;  // direct
  const Format& format = question.format;
  const Coding coding = coding_of(format, question.ranks, 0);
  if (coding.encodes_nodes_down() && format.bits_down > format.bits) {
    return finer_ratio(format, *question.nodes, question.ranks);
  }
  // With rescale re-encodes are all of the mean's size, and the one of nodes may be 1 to 2 times
  // direct's, or many times as large where means of nodes cancel. With subtractive rounding alone
  // direct's is smaller. Of exponential levels a re-encode is as large as quantizing.
  const bool bounded = format.levels == Levels::linear && wide_only_field(format) == nullptr &&
                       question.ranks <= kFewRanks;
  return bounded ? linear_ratio(format, *question.nodes, question.ranks) : kUnbounded;
}

/** Reductions in code form. Exact sums have n times fewer levels: n^2 times the variance of
 *  quantizing. The others round in each reduction, two ranks but once, as direct does. */
double chain_ratio(const CostQuestion& question) {
  if (question.ranks == 1) return 1;
  const Format& format = question.format;
  const bool exact = format.levels == Levels::linear && format.combine == Combine::exact;
  return question.ranks == 2 && !exact ? 1 : kUnbounded;
}

}  // namespace

double error_ratio(const CostQuestion& question) {
  if (question.format.levels == Levels::none) return 1;  // floats have no codes to round to
  switch (question.schedule_id) {
    case GQSGD_SCHEDULE_DIRECT:
      return 1;
    case GQSGD_SCHEDULE_HIERARCHICAL:
      return hierarchical_ratio(question);
    default:
      return chain_ratio(question);
  }
}

}  // namespace gq
