// Input values for tests: the same on every machine, because nothing here depends on a standard
// library's idea of a distribution.
#ifndef GQ_TESTS_SUPPORT_INPUTS_H
#define GQ_TESTS_SUPPORT_INPUTS_H

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace gq::test {

/** One rank's values, or the result of one rank. */
using Values = std::vector<float>;

/** Mixes `x` so that consecutive numbers give unrelated words (the finaliser of SplitMix64). */
inline uint64_t mix(uint64_t x) {
  x += 0x9E3779B97F4A7C15u;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

/** A uniform number in [0, 1) for a place named by two numbers. */
inline double uniform_at(uint64_t seed, uint64_t place) {
  return static_cast<double>(mix(mix(seed) ^ place) >> 11) * 0x1p-53;
}

/** Nearly standard normal: the centred sum of twelve uniforms has variance 1. */
inline double normal_at(uint64_t seed, uint64_t place) {
  double sum = -6.0;
  for (uint64_t term = 0; term < 12; ++term) sum += uniform_at(seed + 0x1000 * term, place);
  return sum;
}

/** Gradients of `rank_count` ranks that agree in part, as real ones do: half a common direction
 * plus own noise; every ninth value is an exact zero and every 32nd is 2^-20 of its neighbours, so
 * that the bottom interval of both kinds of levels is used. */
inline std::vector<Values> gradients(int rank_count, size_t value_count, uint64_t seed) {
  std::vector<Values> inputs(rank_count, Values(value_count));
  for (size_t e = 0; e < value_count; ++e) {
    const double common = 0.5 * normal_at(seed, e);
    const double magnitude = e % 32 == 5 ? 0x1p-20 : 1.0;
    for (int rank = 0; rank < rank_count; ++rank) {
      const double value = common + normal_at(seed ^ mix(rank + 1), e);
      inputs[rank][e] = (e + rank) % 9 == 8 ? 0.0f : static_cast<float>(magnitude * value);
    }
  }
  return inputs;
}

/** The largest magnitude over all ranks, which is the global norm for q = p = inf. */
inline float norm_of(const std::vector<Values>& inputs) {
  float norm = 0;
  for (const Values& values : inputs) {
    for (float value : values) norm = std::fmax(norm, std::fabs(value));
  }
  return norm;
}

}  // namespace gq::test

#endif
