// From deviations to a decision: bounds on probabilities that hold for every sample size, and
// Holm's rule for many of them at once. What is sampled is sampling.h's matter.
#ifndef GQ_TESTS_API_STATISTICS_REJECTION_H
#define GQ_TESTS_API_STATISTICS_REJECTION_H

#include <string>
#include <vector>

namespace gq::test {

/** The chance that any hypothesis of one test is rejected although all are true. */
inline constexpr double kFamilyLevel = 1e-6;

/** One hypothesis: the chance of a deviation at least as large as the one that was seen. */
struct Hypothesis {
  std::string name;
  double probability;
};

/** Bernstein's inequality: at most this is the chance that a sum of independent centred numbers,
 * each at most `largest` in magnitude, `variance` in total, is `deviation` or more away from 0.
 * Unlike a normal approximation it holds for rare events too. */
double bernstein(double deviation, double variance, double largest);

/** The names of the hypotheses that Holm's rule rejects at kFamilyLevel, "" if none. */
std::string rejected(std::vector<Hypothesis> family);

}  // namespace gq::test

#endif
