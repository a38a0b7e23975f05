// Stages of Rice codes on every instruction set against scalar, bit for bit, where vectors leave
// their usual path: codes longer than a word, every parameter, many steps, all kinds of ranks.
#include <gtest/gtest.h>

#include <cmath>

#include "kernels/codec/groups.h"
#include "kernels/codec/rice.h"
#include "tests/support/inputs.h"
#include "tests/unit/kernels/support/stage_calls.h"

namespace gq::test {
namespace {

constexpr uint32_t kValues = 8192;
constexpr uint32_t kCells = kValues / kRiceCell;

struct Encoding {
  uint32_t mean_half_bits = 8;
  uint32_t ranks = 1;
  uint32_t rank = 0;
  bool is_sum = false;
};

uint32_t planes_of(const Encoding& encoding) {
  return rice_planes(encoding.mean_half_bits, kValues / kAdaptiveBlock, 1, kValues,
                     encoding.is_sum);
}

Words encode(const Stages& stages, const Encoding& encoding, const Floats& values) {
  EncodeRiceArgs args{};
  args.coding.rounding = encoding.ranks > 1 ? Rounding::correlated : Rounding::independent;
  args.coding.ranks = encoding.ranks;
  args.random.rank = encoding.rank;
  args.is_sum = encoding.is_sum;
  if (encoding.is_sum) {  // of a node
    args.random.node = encoding.rank;
    args.random.nodes = encoding.ranks;
  }
  args.first_value = 3 * kGranuleValues;
  args.stride_values = 7 * kGranuleValues;
  args.value_count = kValues;
  args.plane_count = planes_of(encoding);
  args.values = values.data();
  Words words(args.plane_count * kPlaneWords, 0xA5A5A5A5u);
  args.words = words.data();
  stages.encode_rice(args);
  return words;
}

/** Patterns of the values, one for all NaN. */
std::vector<uint32_t> decode(const Stages& stages, const Encoding& encoding, const Words& words,
                             bool add) {
  Floats values(kValues, add ? 0.75f : -1);
  stages.decode_rice({kValues, planes_of(encoding), words.data(), values.data(), add});
  std::vector<uint32_t> patterns;
  for (const float value : values) {
    patterns.push_back(std::isnan(value) ? kFloatNanBits : float_bits(value));
  }
  return patterns;
}

/** How many cells have each parameter. */
std::vector<uint32_t> parameters_of(const Words& words) {
  std::vector<uint32_t> counts(16);
  for (uint32_t cell = 0; cell < kCells; ++cell) {
    ++counts[rice_parameter_at(words[1 + cell / kRiceWordParameters], cell)];
  }
  return counts;
}

class RiceIsa : public testing::TestWithParam<const Stages*> {
 protected:
  /** Returns the words. */
  static Words expect_equal(const Encoding& encoding, const Floats& values) {
    const Words words = encode(scalar_stages(), encoding, values);
    EXPECT_EQ(encode(*GetParam(), encoding, values), words);
    for (const bool add : {false, true}) {
      EXPECT_EQ(decode(*GetParam(), encoding, words, add),
                decode(scalar_stages(), encoding, words, add));
    }
    return words;
  }
};

std::string name_of(const testing::TestParamInfo<const Stages*>& info) { return info.param->name; }

INSTANTIATE_TEST_SUITE_P(Isa, RiceIsa, testing::ValuesIn(stages_here()), name_of);

/** Cells of small values, one of which is as large as `spike` of their deviations. */
Floats spikes(float spike) {
  Floats values(kValues);
  for (uint32_t e = 0; e < kValues; ++e) {
    const bool is_spike = e % kRiceCell == mix(e / kRiceCell) % kRiceCell;
    values[e] = static_cast<float>(normal_at(11, e)) * (is_spike ? spike : 1);
  }
  return values;
}

TEST_P(RiceIsa, HalvesOfCellsLongerThanAWord_SameBits) {
  for (const float spike : {10.0f, 30.0f, 60.0f, 200.0f, 1e4f}) {
    for (const uint32_t mean_half_bits : {5u, 6u, 8u, 12u}) {
      expect_equal({mean_half_bits}, spikes(spike));
    }
  }
}

/** 2^-14 to 2 times normal values, the next larger ones for the next cell. */
Floats octaves() {
  Floats values(kValues);
  for (uint32_t e = 0; e < kValues; ++e) {
    const int octave = static_cast<int>(e / kRiceCell % 16) - 14;
    values[e] = std::ldexp(static_cast<float>(normal_at(12, e)), octave);
  }
  return values;
}

TEST_P(RiceIsa, EveryParameter_SameBits) {
  const Words words = expect_equal({16}, octaves());
  const std::vector<uint32_t> counts = parameters_of(words);
  for (uint32_t parameter = 0; parameter <= 12; ++parameter) {
    EXPECT_GT(counts[parameter], 0u) << parameter;
  }
}

TEST_P(RiceIsa, AllKindsOfThresholds_SameBits) {
  for (const Encoding& encoding :
       {Encoding{8, 1, 0, false}, Encoding{8, 2, 1, false}, Encoding{8, 16, 5, false},
        Encoding{8, 17, 3, false}, Encoding{8, 256, 200, false}, Encoding{8, 1500, 1100, false},
        Encoding{8, 16, 5, true}, Encoding{8, 17, 3, true}}) {
    expect_equal(encoding, spikes(4));
    expect_equal(encoding, octaves());
  }
}

TEST_P(RiceIsa, StepsNearTheEndsOfTheRange_SameBits) {
  for (const int exponent : {-149, -140, -126, -118, -100, 100, 118, 126}) {
    Floats values = spikes(3);
    for (float& value : values) value = std::ldexp(value, exponent);
    expect_equal({8}, values);
  }
}

TEST_P(RiceIsa, ValuesThatMeetSteps_SameBits) {
  Floats values = spikes(8);
  for (float& value : values) value = std::rint(4 * value);
  expect_equal({6}, values);
  expect_equal({16}, values);
  for (float& value : values) value = 1;
  expect_equal({8}, values);
}

}  // namespace
}  // namespace gq::test
