// Single stages of adaptive widths through the C ABI: numbers of blocks are in the order of values,
// whatever the groups are.
#include <gqsgd_stages.h>
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "tests/support/inputs.h"

namespace gq::test {
namespace {

constexpr size_t kBlock = 128;

/** A call of several groups, of which granules interleave; the last granule is short. */
constexpr size_t kValueCount = 43 * 1024 + 700;
constexpr uint64_t kRanks = 4;

/** Blocks that follow each other differ by a factor of 2 to 128, so that the norm of another block
 *  is seen in the error or in the width. */
float value_at(size_t e) {
  const double within = normal_at(1, e);
  return static_cast<float>(std::ldexp(within, static_cast<int>(e / kBlock * 5 % 8)));
}

TEST(AdaptiveStages, SeveralGroups_ErrorBelowOneStepOfTheOwnBlock) {
  gqsgd_quantizer quantizer = nullptr;
  ASSERT_EQ(gqsgd_quantizer_create("adaptive-4,rescale=false", &quantizer), GQSGD_OK);
  gqsgd_site site = {};
  site.size = kRanks;
  size_t norm_count = 0, bytes = 0;
  ASSERT_EQ(gqsgd_norm_count(quantizer, kValueCount, &norm_count), GQSGD_OK);
  ASSERT_EQ(gqsgd_packed_size(quantizer, kValueCount, &bytes), GQSGD_OK);
  std::vector<float> values(kValueCount), results(kValueCount), norms(norm_count);
  std::vector<uint8_t> widths(norm_count);
  std::vector<uint32_t> words(bytes / sizeof(uint32_t));
  for (size_t e = 0; e < kValueCount; ++e) values[e] = value_at(e);

  ASSERT_EQ(gqsgd_norm(quantizer, &site, values.data(), kValueCount, GQSGD_FLOAT32, norms.data(),
                       nullptr, 0, nullptr),
            GQSGD_OK);
  ASSERT_EQ(gqsgd_widths(quantizer, &site, norms.data(), kValueCount, widths.data(), nullptr),
            GQSGD_OK);
  ASSERT_EQ(gqsgd_quantize(quantizer, &site, values.data(), kValueCount, GQSGD_FLOAT32,
                           norms.data(), words.data(), nullptr, 0, nullptr),
            GQSGD_OK);
  ASSERT_EQ(gqsgd_dequantize_adaptive(quantizer, &site, words.data(), norms.data(), norms.data(),
                                      kValueCount, GQSGD_FLOAT32, GQSGD_MEAN, results.data(),
                                      nullptr),
            GQSGD_OK);
  for (size_t e = 0; e < kValueCount; ++e) {
    const size_t block = e / kBlock;
    const float steps = static_cast<float>((1 << (widths[block] - 1)) - 1);
    ASSERT_LE(std::fabs(results[e] - values[e]), norms[block] / steps) << e;
  }
  gqsgd_quantizer_destroy(quantizer);
}

}  // namespace
}  // namespace gq::test
