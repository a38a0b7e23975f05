// The rotation of whole calls by the codec's own functions, value by value, for tests of stages.
#ifndef GQ_TESTS_KERNELS_ROTATED_H
#define GQ_TESTS_KERNELS_ROTATED_H

#include "kernels/codec/rotate.h"
#include "tests/kernels/stage_calls.h"

namespace gq::test {

/** The sign bit of value e of a call. */
inline uint32_t sign_of(const RandomSite& site, uint64_t e) {
  const RandomStream stream = random_stream(site.key, site.step, site.index, Draw::signs, 0, 0);
  const PhiloxBlock words = random_group(stream, e / kSignGroupValues);
  return rotation_sign(words.word[e / kSignsPerWord % 4], static_cast<uint32_t>(e % kSignsPerWord));
}

/** Values from first_value on, filled up to whole rotations. */
inline Floats rotated_forth(const RandomSite& site, uint64_t first_value, Floats values) {
  values.resize(code_count(true, values.size()));
  for (size_t e = 0; e < values.size(); ++e) {
    values[e] = rotation_in(values[e], sign_of(site, first_value + e));
  }
  for (size_t e = 0; e < values.size(); e += kRotationValues) hadamard(values.data() + e);
  return values;
}

inline Floats rotated_back(const RandomSite& site, uint64_t first_value, Floats values) {
  for (size_t e = 0; e < values.size(); e += kRotationValues) hadamard(values.data() + e);
  for (size_t e = 0; e < values.size(); ++e) {
    values[e] = rotation_out(values[e], sign_of(site, first_value + e));
  }
  return values;
}

}  // namespace gq::test

#endif
