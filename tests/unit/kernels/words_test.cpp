// What the codec computes by whole words, as devices do, against what it says of one lane: for all
// codes, in every lane, whatever the neighbours are.
#include <gtest/gtest.h>

#include <cmath>
#include <memory>

#include "kernels/codec/linear.h"
#include "kernels/cuda/average_table.cuh"
#include "tests/support/inputs.h"
#include "tests/unit/kernels/support/stage_calls.h"

namespace gq::test {
namespace {

uint32_t noise(uint64_t seed) { return static_cast<uint32_t>(mix(seed)); }

/** The word in which value e has these random bits. */
uint32_t word_with_bits(uint32_t bits, uint32_t value) {
  return rotate_right(bits, (32 - 8 * ((value + 1) % kWordValues)) % 32);
}

/** A word with one lane given and noise in the others. */
template <uint32_t kBits>
uint32_t word_with_lane(uint32_t lane_here, uint32_t value, uint64_t seed) {
  const uint32_t mask = placed<kBits>((1u << kBits) - 1, value);
  return (noise(seed) & ~mask) | placed<kBits>(lane_here, value);
}

/** Random bits with so many leading zeros. */
uint32_t bits_with_zeros(uint32_t zeros, uint64_t seed) {
  return zeros == 32 ? 0 : (noise(seed) | 0x80000000u) >> zeros;
}

/** Lanes of the word that are not the sums of theirs. */
uint32_t wrong_sums(uint32_t a, uint32_t b, uint32_t random_word) {
  const uint32_t sums = exponential_sum_word(a, b, random_word);
  uint32_t wrong = 0;
  for (uint32_t e = 0; e < 4; ++e) {
    const Byte zeros = static_cast<Byte>(leading_zeros(value_bits(random_word, e)));
    const Byte lane_a = static_cast<Byte>(lane<8>(a, e));
    const Byte lane_b = static_cast<Byte>(lane<8>(b, e));
    wrong += lane<8>(sums, e) != exponential_sum(lane_a, lane_b, zeros);
  }
  return wrong;
}

TEST(Words, ExponentialSums_AllPairsAndThresholds_EqualLanes) {
  for (uint32_t pair = 0; pair < 65536; ++pair) {
    for (uint32_t zeros = 0; zeros <= 32; ++zeros) {
      for (uint32_t e = 0; e < 4; ++e) {
        const uint64_t seed = (uint64_t{pair} * 33 + zeros) * 4 + e;
        const uint32_t a = word_with_lane<8>(pair & 255, e, 3 * seed);
        const uint32_t b = word_with_lane<8>(pair >> 8, e, 3 * seed + 1);
        const uint32_t random = word_with_bits(bits_with_zeros(zeros, 3 * seed + 2), e);
        ASSERT_EQ(wrong_sums(a, b, random), 0u) << std::hex << a << " " << b << " " << random;
      }
    }
  }
}

// Numbers that fill bytes to the brim, next to each other.
TEST(Words, ExponentialSums_KeepToTheirLanes) {
  const uint32_t edges[] = {0x00, 0x01, 0x02, 0x7e, 0x7f, 0x81, 0x82, 0xfe, 0xff};
  const uint32_t words[] = {0, 1, 0x80u, 0x8000u, 0x800000u, 0x80000000u, 0xffu, 0xff0000u, ~0u};
  for (uint32_t k = 0; k < 9 * 9 * 9 * 9; ++k) {
    const uint32_t a = edges[k % 9] * 0x10001u | edges[k / 9 % 9] * 0x1000100u;
    const uint32_t b = edges[k / 81 % 9] * 0x10001u | edges[k / 729] * 0x1000100u;
    for (const uint32_t random : words) {
      ASSERT_EQ(wrong_sums(a, b, random), 0u) << std::hex << a << " " << b << " " << random;
    }
  }
}

struct Weights {
  uint32_t a, b;
};

/** Averages of weights, by the table of the CUDA kernels. */
template <bool kShort>
class Averages {
 public:
  explicit Averages(Weights weights) : weights_(weights) {
    for (uint32_t thread = 0; thread < cuda::AverageTable::kPairs; ++thread) {
      table_->fill_row<kShort>(thread, weights_.a, weights_.b);
    }
  }

  /** Lanes of the word that are not the averages of theirs, negative zeros left out. */
  uint32_t wrong(uint32_t a, uint32_t b, uint32_t low, uint32_t high, uint32_t thread) const {
    const cuda::AveragePlaces places(a, b, thread);
    const auto entry = [&](uint32_t e) { return table_->at(places.offset_bytes(e)); };
    const uint32_t averages =
        kShort ? short_average_word(low, high, entry) : exponential_average_word(low, high, entry);
    uint32_t wrong = 0;
    for (uint32_t e = 0; e < 8; ++e) {
      const uint32_t bits = value_bits(e < 4 ? low : high, e);
      const uint32_t lane_a = lane<4>(a, e), lane_b = lane<4>(b, e);
      if (lane_a == 8 || lane_b == 8) continue;
      wrong += lane<4>(averages, e) != exponential_average(outcome(lane_a, lane_b), bits);
    }
    return wrong;
  }

  AverageOutcome outcome(uint32_t lane_a, uint32_t lane_b) const {
    return exponential_average_outcome(lane_a, lane_b, weights_.a, weights_.b);
  }

  /** The same with this pair and this r(e) for value e. */
  void expect_right(uint32_t lane_a, uint32_t lane_b, uint32_t uniform, uint32_t e,
                    uint64_t seed) const {
    const uint32_t a = word_with_lane<4>(lane_a, e, seed);
    const uint32_t b = word_with_lane<4>(lane_b, e, seed + 1);
    const uint32_t above = noise(seed + 2) & ~kUniformMask;
    const uint32_t random = word_with_bits(above | (uniform & kUniformMask), e);
    const uint32_t low = e < 4 ? random : noise(seed + 3);
    const uint32_t high = e < 4 ? noise(seed + 3) : random;
    ASSERT_EQ(wrong(a, b, low, high, noise(seed + 4) % 256), 0u)
        << std::hex << a << " " << b << " " << low << " " << high << " weights " << weights_.a
        << " " << weights_.b;
  }

 private:
  Weights weights_;
  std::unique_ptr<cuda::AverageTable> table_ = std::make_unique<cuda::AverageTable>();
};

TEST(Words, ExponentialAverages_BothSidesOfEveryThreshold_EqualLanes) {
  uint64_t seed = 0;
  for (const Weights weights : {Weights{1, 1}, Weights{1, 2}, Weights{3, 1}, Weights{5, 3},
                                Weights{1, 1023}, Weights{77777, 1}, Weights{1, (1u << 20) - 1}}) {
    const Averages<false> averages(weights);
    for (uint32_t pair = 0; pair < 256; ++pair) {
      const uint32_t threshold = averages.outcome(pair & 15, pair >> 4).threshold;
      for (uint32_t e = 0; e < 8; ++e) {
        for (const uint32_t uniform : {0u, threshold - 1, threshold, threshold + 1, 0u - threshold,
                                       1u - threshold, ~0u - threshold, ~0u, noise(seed)}) {
          averages.expect_right(pair & 15, pair >> 4, uniform, e, seed += 5);
        }
      }
    }
  }
}

TEST(Words, ShortAverages_AllPairsAndLeadingBits_EqualLanes) {
  uint64_t seed = 0;
  for (const Weights weights : {Weights{1, 1}, Weights{1u << 19, 1u << 19}, Weights{3, 1},
                                Weights{5, 15}, Weights{3u << 18, 1u << 18}}) {
    const Averages<true> averages(weights);
    for (uint32_t pair = 0; pair < 256; ++pair) {
      for (uint32_t leading = 0; leading < 128; ++leading) {
        for (const uint32_t rest : {0u, 0xffffu}) {
          seed += 5;
          averages.expect_right(pair & 15, pair >> 4, leading << 16 | rest, seed / 5 % 8, seed);
        }
      }
    }
  }
}

TEST(Words, Averages_ShortWhereNoAddendIsLonger) {
  for (uint32_t weight_a = 1; weight_a <= 64; ++weight_a) {
    for (uint32_t weight_b = 1; weight_b <= 64; ++weight_b) {
      uint32_t longer = 0;
      for (uint32_t pair = 0; pair < 256; ++pair) {
        const AverageOutcome outcome =
            exponential_average_outcome(pair & 15, pair >> 4, weight_a, weight_b);
        longer += (average_addend(outcome) & 0xffffu) != 0;
      }
      ASSERT_EQ(average_is_short(weight_a, weight_b), longer == 0)
          << weight_a << " " << weight_b << ": " << longer << " longer addends";
    }
  }
}

TEST(Words, LinearAveragesOfNibbles_EqualLanes) {
  const Average average = average_of(1, 1);
  for (uint32_t k = 0; k < 1000000; ++k) {
    const uint32_t a = noise(5 * k), b = noise(5 * k + 1);
    const uint32_t word[2] = {noise(5 * k + 2), noise(5 * k + 3)};
    const uint32_t averages = linear_average_equal4(a, b, word[0], word[1]);
    for (uint32_t e = 0; e < 8; ++e) {
      const uint32_t bits = value_bits(word[e / 4], e);
      ASSERT_EQ(lane<4>(averages, e), linear_average(lane<4>(a, e), lane<4>(b, e), average, bits))
          << std::hex << a << " " << b << " " << word[0] << " " << word[1];
    }
  }
}

TEST(Words, LeadingBitsByBytes_EqualThoseOfEach) {
  for (uint32_t k = 0; k < 100000; ++k) {
    const uint32_t low = noise(2 * k), high = noise(2 * k + 1);
    ASSERT_EQ(leading_bits_by_bytes(low, high), leading_bits(low) | leading_bits(high) << 16);
  }
}

template <uint32_t kBits>
void expect_powers() {
  for (uint32_t lane_here = 0; lane_here < 1u << kBits; ++lane_here) {
    for (uint32_t e = 0; e < 4; ++e) {
      float power[4];
      exponential_powers<kBits, 0>(word_with_lane<kBits>(lane_here, e, lane_here * 4 + e), power);
      for (uint32_t one = kBits == 8 ? 63 : 7; one <= code_max(kBits); ++one) {
        const float level = float_from_upper(
            exponential_level_upper<kBits>(static_cast<Byte>(lane_here), static_cast<Byte>(one)));
        const float raised = power[e] * power_of_two(127 - static_cast<int32_t>(one));
        ASSERT_EQ(float_bits(raised), float_bits(level)) << lane_here << " one " << one;
      }
    }
  }
}

TEST(Words, PowersOfExponentialCodes_EveryHeadroom_TheirLevels) {
  expect_powers<8>();
  expect_powers<4>();
}

TEST(Words, PowersOfExponentialCodes_WithMantissaBits_TheirLevels) {
  for (uint32_t lane_here = 0; lane_here < 256; ++lane_here) {
    const uint16_t upper = exponential_fine_upper(static_cast<Byte>(lane_here));
    for (uint32_t e = 0; e < 4; ++e) {
      float power[4];
      exponential_powers<8, 2>(word_with_lane<8>(lane_here, e, lane_here * 4 + e), power);
      ASSERT_EQ(float_bits(power[e] * 0x1p96f), float_bits(float_from_upper(upper))) << lane_here;
    }
  }
}

TEST(Words, LevelsOfFourBitsAsBytes_TheirsAnd64) {
  for (uint32_t lane_here = 0; lane_here < 16; ++lane_here) {
    const auto level = static_cast<uint32_t>(exponential_level(lane_here & 7));
    for (uint32_t e = 0; e < 4; ++e) {
      const uint32_t word = word_with_lane<4>(lane_here, e, lane_here * 4 + e);
      ASSERT_EQ(exponential_bytes(word) >> (8 * e) & 255,
                lane_here < 8 ? 64 + level : 64 - level);
    }
  }
}

template <uint32_t kBits>
void expect_subtractive_decoding() {
  for (const uint32_t top : {1u, 7u, 100u, 127u}) {
    for (uint32_t lane_here = 0; lane_here < 1u << kBits; ++lane_here) {
      for (uint32_t k = 0; k < 200; ++k) {
        const uint32_t e = k % 4;
        uint32_t bits[4] = {noise(k), noise(k + 1), noise(k + 2), noise(k + 3)};
        if (k < 4) bits[e] = kUniformHalf;
        if (k >= 4 && k < 12) bits[e] = k < 8 ? 0 : kUniformMask;
        float value[4];
        subtractive_decode_four<kBits>(word_with_lane<kBits>(lane_here, e, k),
                                       0x1p23f + static_cast<float>(top), 0.1f, bits, value);
        ASSERT_EQ(float_bits(value[e]),
                  float_bits(subtractive_decode(lane_here, top, 0.1f, bits[e])))
            << lane_here << " top " << top << " bits " << bits[e];
      }
    }
  }
}

TEST(Words, SubtractiveDecoding_TheBitsOfOneLane) {
  expect_subtractive_decoding<8>();
  expect_subtractive_decoding<4>();
}

template <uint32_t kBits>
void expect_linear_decoding() {
  for (const uint32_t top : {1u, 3u, 7u, 100u, 127u}) {
    for (uint32_t lane_here = 0; lane_here < 1u << kBits; ++lane_here) {
      for (const float step : {1.0f, 0.1f, 0x1p-149f, 0x1.fffffep119f}) {
        float value[4];
        const uint32_t e = lane_here * 7 % 4;
        const float middle = 0x1p23f + static_cast<float>(top);
        linear_decode_four<kBits>(word_with_lane<kBits>(lane_here, e, lane_here), middle, step,
                                  value);
        const float expected = linear_decode(lane_here, top, step);
        ASSERT_EQ(float_bits(value[e]), float_bits(expected)) << lane_here << " of " << top;
      }
    }
  }
}

TEST(Words, DecodedLinearCodes_EqualLanes) {
  expect_linear_decoding<8>();
  expect_linear_decoding<4>();
}

}  // namespace
}  // namespace gq::test
