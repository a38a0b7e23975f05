// Samples of whole allreduces beside the exact laws of their elements.
#ifndef GQ_TESTS_API_STATISTICS_SAMPLING_H
#define GQ_TESTS_API_STATISTICS_SAMPLING_H

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tests/support/operation.h"

namespace gq::test {

/** The mean over ranks that step `step` returns: the library, or the library with a mutation.
 */
using Estimator = std::function<Values(uint64_t step)>;

/** One format and schedule with fixed inputs. */
struct Experiment {
  std::string preset;
  gqsgd_schedule schedule;
  std::vector<Values> inputs;
  std::vector<int32_t> node_ids = {};  ///< of ranks, in a hierarchy

  size_t rank_count() const { return inputs.size(); }
  size_t value_count() const { return inputs[0].size(); }
  std::string name() const;
  Estimator library() const;
};

/** The exact law of one element of the mean, as far as tests ask. */
struct Element {
  double mean;
  double variance;
  double fourth_moment;  ///< central
  double largest;        ///< largest distance from the mean
};

/** The laws of all elements; their means are the inputs' means, which is checked on the way. */
std::vector<Element> exact_elements(const Experiment& experiment);

/** Sums over draws of each element's distance from its exact mean, and of the squares. */
struct Sample {
  uint64_t draw_count;
  std::vector<double> deviation;
  std::vector<double> square;
};
Sample draw(const Estimator& estimator, const std::vector<Element>& elements, uint64_t draw_count);

/** The experiments every statistical test runs: the paper's formats on all schedules. */
std::vector<Experiment> experiments(int rank_count, size_t value_count);

/** What the harness can be told to break. */
Estimator shifted(Estimator estimator, double shift);
Estimator clamped(Estimator estimator, double limit);

}  // namespace gq::test

#endif
