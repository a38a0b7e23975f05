// The rotation of whole calls by the codec's own functions, value by value, for tests of stages.
#ifndef GQ_TESTS_UNIT_KERNELS_SUPPORT_ROTATED_H
#define GQ_TESTS_UNIT_KERNELS_SUPPORT_ROTATED_H

#include "kernels/codec/rotate.h"
#include "tests/unit/kernels/support/stage_calls.h"

namespace gq::test {

/** The sign bit of value e of a call. */
inline uint32_t sign_of(const RandomSite& site, uint64_t e) {
  const RandomStream stream = random_stream(site.key, site.step, site.index, Draw::signs, 0, 0);
  const PhiloxBlock words = random_group(stream, e / kSignGroupValues);
  return rotation_sign(words.word[e / kSignsPerWord % 4], static_cast<uint32_t>(e % kSignsPerWord));
}

/** Calls `work(first, length)` for each rotation of `code_count` codes. */
template <typename Work>
void for_each_rotation(size_t code_count, Work work) {
  for (size_t first = 0; first < code_count;) {
    const uint32_t length = rotation_length(code_count - first);
    work(first, length);
    first += length;
  }
}

/** Values from first_value on, filled up as rotations are. */
inline Floats rotated_forth(const RandomSite& site, uint64_t first_value, Floats values) {
  values.resize(code_count(true, values.size()));
  for_each_rotation(values.size(), [&](size_t first, uint32_t length) {
    for (size_t e = first; e < first + length; ++e) {
      values[e] = rotation_in(values[e], sign_of(site, first_value + e), length);
    }
    hadamard(values.data() + first, length);
  });
  return values;
}

inline Floats rotated_back(const RandomSite& site, uint64_t first_value, Floats values) {
  for_each_rotation(values.size(), [&](size_t first, uint32_t length) {
    hadamard(values.data() + first, length);
    for (size_t e = first; e < first + length; ++e) {
      values[e] = rotation_out(values[e], sign_of(site, first_value + e), length);
    }
  });
  return values;
}

}  // namespace gq::test

#endif
