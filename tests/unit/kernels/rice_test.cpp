// Stages of Rice codes (docs/FORMAT.md, section 20).
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "kernels/codec/groups.h"
#include "kernels/codec/rice.h"
#include "tests/support/inputs.h"
#include "tests/unit/kernels/support/stage_calls.h"

namespace gq::test {
namespace {

/** A group of one call, and where its values are in it. */
struct Group {
  const Stages& stages;
  uint32_t value_count;
  uint32_t plane_count;
  Coding coding = {};
  RandomSite site = {};
  uint64_t first_value = 0, stride_values = kGranuleValues;
};

Words encode(const Group& group, const Floats& values, bool is_sum = false,
             uint32_t* poisoned = nullptr) {
  Words words(group.plane_count * kPlaneWords, 0xA5A5A5A5u);
  group.stages.encode_rice({group.coding, group.site, is_sum, group.first_value,
                            group.stride_values, group.value_count, group.plane_count,
                            values.data(), words.data(), poisoned});
  return words;
}

Floats decode(const Group& group, const Words& words) {
  Floats values(group.value_count, -1);
  group.stages.decode_rice(
      {group.value_count, group.plane_count, words.data(), values.data(), false});
  return values;
}

float step_of(const Words& words) { return norm_from_code(static_cast<uint16_t>(words[0])); }

Floats normal_values(uint32_t value_count, uint64_t seed) {
  Floats values(value_count);
  for (size_t e = 0; e < values.size(); ++e) values[e] = static_cast<float>(normal_at(seed, e));
  return values;
}

class Rice : public testing::TestWithParam<const Stages*> {};

std::string name_of(const testing::TestParamInfo<const Stages*>& info) { return info.param->name; }

INSTANTIATE_TEST_SUITE_P(Isa, Rice, testing::ValuesIn(stages_here()), name_of);

TEST_P(Rice, Values_EveryLength_WithinAStep) {
  for (const uint32_t value_count : {1u, 31u, 32u, 33u, 127u, 1000u, 1025u, 5000u, 32768u}) {
    const uint32_t planes = rice_planes(8, divided_up(value_count, kAdaptiveBlock), 1, value_count,
                                        false);
    const Group group{*GetParam(), value_count, planes};
    const Floats values = normal_values(value_count, value_count);
    const Words words = encode(group, values);
    const Floats decoded = decode(group, words);
    for (size_t e = 0; e < values.size(); ++e) {
      ASSERT_LT(std::fabs(decoded[e] - values[e]), step_of(words)) << value_count << ": " << e;
    }
  }
}

}  // namespace
}  // namespace gq::test
