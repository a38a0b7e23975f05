// Groups of Rice codes that do not fit. The step of a group makes this so improbable that no test
// sees it: here a mutation makes steps too small.
#include <gtest/gtest.h>

#include <cmath>

#include "kernels/codec/rice.h"
#include "tests/support/inputs.h"
#include "tests/unit/kernels/support/stage_calls.h"

namespace gq::test {
namespace {

TEST(RiceLowered, CodesThatDoNotFit_AllTowardsZero) {
  constexpr uint32_t kCount = 3000;
  const uint32_t planes = rice_planes(8, 24, 1, kCount, false);
  for (uint64_t seed = 0; seed < 50; ++seed) {
    Floats values(kCount), decoded(kCount);
    for (uint32_t e = 0; e < kCount; ++e) values[e] = static_cast<float>(normal_at(seed, e));
    Words words(planes * kPlaneWords);
    EncodeRiceArgs args{};
    args.coding.ranks = 1;
    args.random.step = static_cast<uint32_t>(seed);
    args.stride_values = 1024;
    args.value_count = kCount;
    args.plane_count = planes;
    args.values = values.data();
    args.words = words.data();
    scalar_stages().encode_rice(args);
    scalar_stages().decode_rice({kCount, planes, words.data(), decoded.data(), false});
    const float step = norm_from_code(static_cast<uint16_t>(words[0]));
    for (uint32_t e = 0; e < kCount; ++e) {
      ASSERT_EQ(decoded[e], std::trunc(values[e] * (1 / step)) * step) << seed << ": " << e;
    }
  }
}

}  // namespace
}  // namespace gq::test
