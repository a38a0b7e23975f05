// What a record of the test vectors says of an array.
#ifndef GQ_TESTS_UNIT_KERNELS_SUPPORT_VECTOR_PATTERNS_H
#define GQ_TESTS_UNIT_KERNELS_SUPPORT_VECTOR_PATTERNS_H

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/support/vectors.h"

namespace gq::test {

/** Its patterns or, of a long one, their checksum. */
template <typename Pattern>
void expect_patterns(const VectorRecord& r, const std::string& key,
                     const std::vector<Pattern>& found) {
  const std::vector<uint64_t> patterns(found.begin(), found.end());
  if (r.has(key)) {
    EXPECT_EQ(patterns, r.patterns(key)) << r.name() << ": " << key;
    return;
  }
  uint64_t sum = 0;
  for (size_t k = 0; k < patterns.size(); ++k) sum += (2 * k + 1) * patterns[k];
  EXPECT_EQ(sum, r.integer(key + "_checksum")) << r.name() << ": " << key;
}

}  // namespace gq::test

#endif
