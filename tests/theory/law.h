// Exact laws of quantised results: every outcome with its probability, so that variances are
// computed and not sampled. One coordinate at a time; values are in units of the norm.
#ifndef GQ_TESTS_THEORY_LAW_H
#define GQ_TESTS_THEORY_LAW_H

#include <cstdint>
#include <map>
#include <vector>

namespace gq {

/** The levels on which codes lie: multiples of `smallest`, or zero and smallest * 2^k. */
struct Grid {
  bool exponential;
  double smallest;
};

using Law = std::map<double, double>;  ///< value -> probability

/** The order in which ranks are merged (docs/FORMAT.md, section 10). */
enum class Merge { ring, tree, wide };

/** What two codes become. */
enum class Combined { exactly, as_sum, as_average };

/** The law of the mean of one coordinate over ranks, x[i] on rank i. */
Law law_of_mean(const Grid& grid, const std::vector<double>& x, Merge merge, Combined combined);

double mean_of(const Law& law);
double variance_of(const Law& law);

}  // namespace gq

#endif
