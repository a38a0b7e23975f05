// Exact laws of quantised results: every outcome with its probability, so that variances are
// computed and not sampled. One coordinate at a time; values are in units of the norm.
#ifndef GQ_TESTS_UNIT_THEORY_LAW_H
#define GQ_TESTS_UNIT_THEORY_LAW_H

#include <cstdint>
#include <map>
#include <vector>

namespace gq {

/** The levels on which codes lie: multiples of `smallest`, or zero and smallest * 2^k, with
 *  2^mantissa_bits levels in each octave of which the lowest ones are multiples of `smallest`. */
struct Grid {
  bool exponential;
  double smallest;
  int mantissa_bits = 0;
};

using Law = std::map<double, double>;  ///< value -> probability

/** The order in which ranks are merged (docs/FORMAT.md, section 10). */
enum class Merge { ring, tree, wide };

/** What two codes become. */
enum class Combined { exactly, as_sum, as_average };

/** The law of the mean of one coordinate over ranks, x[i] on rank i. */
Law law_of_mean(const Grid& grid, const std::vector<double>& x, Merge merge, Combined combined);

/** The same where a wide sum is encoded on a grid of its own. */
Law law_of_wide_mean(const Grid& grid, const Grid& down, const std::vector<double>& x);

/** The mean of the codes themselves: what a wide sum is before it is encoded. */
Law law_of_code_mean(const Grid& grid, const std::vector<double>& x);

double mean_of(const Law& law);
double variance_of(const Law& law);

}  // namespace gq

#endif
