// The formulas of Rice codes (docs/FORMAT.md, section 20): chances of roundings, lengths of cells
// against every outcome, the margin, and the search for a step.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "kernels/codec/groups.h"
#include "kernels/codec/rice.h"
#include "tests/support/inputs.h"
#include "tests/unit/kernels/support/stage_calls.h"

namespace gq::test {
namespace {

using Codes = uint32_t[kRiceCell];

TEST(RiceCodec, Codes_SmallestFirst_NumbersAndBack) {
  const int32_t numbers[] = {0, 1, -1, 2, -2, 3, -3};
  for (uint32_t code = 0; code < 7; ++code) EXPECT_EQ(rice_number(code), numbers[code]);
  for (uint32_t magnitude = 0; magnitude <= 8191; ++magnitude) {
    const int32_t number = static_cast<int32_t>(magnitude);
    EXPECT_EQ(rice_number(rice_code(magnitude, false)), number);
    EXPECT_EQ(rice_number(rice_code(magnitude, true)), -number);
  }
}

/** The sum of the codes' numbers over all 2^23 random numbers. */
int64_t sum_over_random_numbers(float value) {
  const RiceNeighbours codes = rice_neighbours<false>(value, 1);
  int64_t sum = 0;
  for (uint32_t r = 0; r < 1u << 23; ++r) sum += rice_number(rice_rounded(value, codes, r));
  return sum;
}

TEST(RiceCodec, AllRandomNumbers_MeanIsTheValue) {
  for (const float value : {0.3f, -0.3f, 5.75f, -5.75f, 2.0f, -2.0f, 0x1p-30f, -0x1p-30f,
                            0x1.fffffep-1f, -0x1.fffffep-1f, 1234.5678f, -8189.9f}) {
    EXPECT_NEAR(static_cast<double>(sum_over_random_numbers(value)),
                std::ldexp(static_cast<double>(value), 23), 0.5)
        << value;
  }
}

TEST(RiceCodec, RandomNumberGrows_NumbersNeverFall) {
  for (const float value : {0.3f, -0.3f, 7.01f, -7.01f}) {
    const RiceNeighbours codes = rice_neighbours<false>(value, 1);
    int32_t last = -8192;
    for (uint32_t r = 0; r < 1u << 23; r += 4097) {
      const int32_t number = rice_number(rice_rounded(value, codes, r));
      EXPECT_GE(number, last) << value << ", " << r;
      EXPECT_EQ(number, static_cast<int32_t>(std::floor(
                            static_cast<double>(value) + std::ldexp(static_cast<double>(r), -23))))
          << value << ", " << r;
      last = number;
    }
  }
}

TEST(RiceCodec, Nearest_HalvesUpwards_OneCode) {
  const float values[] = {0.5f, -0.5f, 1.5f, -1.5f, 0.49f, -0.51f, 2.0f, -0.0f};
  const int32_t numbers[] = {1, 0, 2, -1, 0, -1, 2, 0};
  for (size_t k = 0; k < 8; ++k) {
    const RiceNeighbours codes = rice_neighbours<true>(values[k], 1);
    EXPECT_EQ(rice_number(codes.near), numbers[k]) << values[k];
    EXPECT_EQ(codes.far, codes.near) << values[k];
    EXPECT_EQ(codes.distance, 0) << values[k];
  }
}

uint64_t length_with(const Codes& codes, uint32_t parameter) {
  uint64_t length = kRiceCell * (1 + parameter);
  for (const uint32_t code : codes) length += code >> parameter;
  return length;
}

/** Codes of many shapes: geometric ones, outliers, all odd, all at an end. */
void fill_codes(uint64_t number, Codes& codes) {
  const uint32_t octave = static_cast<uint32_t>(number % 14);
  for (uint32_t e = 0; e < kRiceCell; ++e) {
    const uint64_t mixed = mix(number * 64 + e);
    const double tail = -std::log(1 - uniform_at(number, e));
    const uint32_t sizes[] = {static_cast<uint32_t>(std::ldexp(tail, static_cast<int>(octave))),
                              static_cast<uint32_t>(mixed) & ((2u << octave) - 1),
                              (1u << octave) - 1, e == number % 32 ? 16382u : mixed % 3 == 0};
    codes[e] = std::min(sizes[number / 14 % 4], 16382u);
  }
}

TEST(RiceCodec, Parameter_ShortestOfAll_UnaryCodesInTheirBits) {
  for (uint64_t number = 0; number < 20000; ++number) {
    Codes codes;
    fill_codes(number, codes);
    const uint32_t parameter = rice_parameter(codes);
    const uint64_t length = length_with(codes, parameter);
    for (uint32_t other = 0; other <= 16; ++other) {
      ASSERT_LE(length, length_with(codes, other)) << number << ", " << other;
    }
    ASSERT_LE(length - kRiceCell * parameter, kRiceCellUnaryBits) << number;
  }
}

TEST(RiceCodec, Parameter_LargestCodes_OfThoseThatThereAre) {
  Codes codes;
  std::fill_n(codes, kRiceCell, 16382u);
  EXPECT_EQ(rice_parameter(codes), kRiceParameterMax);
  EXPECT_EQ(rice_look_parameter(kRiceCell * 256 * 8191), kRiceParameterMax);
}

/** A cell's look, and the longest that it may be if those values go away from 0 that `outcome` has
 *  ones for. */
struct CellBound {
  Floats values;
  RiceLook look;
  uint32_t parameter = 0;

  explicit CellBound(const Floats& from) : values(from) {
    uint32_t parts = 0;
    for (const float value : values) parts += rice_neighbours<false>(value, 1).parts;
    parameter = rice_look_parameter(parts);
    for (const float value : values) {
      rice_look_at(rice_neighbours<false>(value, 1), parameter, look);
    }
    look.near_bits += kRiceCell * (1 + parameter);
  }

  void fill(uint64_t outcome, Codes& codes) const {
    for (uint32_t e = 0; e < kRiceCell; ++e) {
      const RiceNeighbours both = rice_neighbours<false>(values[e], 1);
      codes[e] = outcome >> e & 1 ? both.far : both.near;
    }
  }

  /** With the parameter of the look. */
  uint64_t bound(uint64_t outcome) const {
    uint64_t bound = look.near_bits;
    for (uint32_t e = 0; e < kRiceCell; ++e) {
      const RiceNeighbours both = rice_neighbours<false>(values[e], 1);
      if (outcome >> e & 1) bound += (both.far >> parameter) - (both.near >> parameter);
    }
    return bound;
  }
};

Floats cell_values(uint64_t number) {
  Floats values(kRiceCell);
  const int octave = static_cast<int>(number % 15) - 3;
  for (uint32_t e = 0; e < kRiceCell; ++e) {
    const double tail = number % 2 == 0 ? normal_at(number, e) : std::pow(normal_at(number, e), 5);
    const double bounded = std::clamp(std::ldexp(tail, octave), -8190.0, 8190.0);
    values[e] = number % 7 == 6 && e % 3 == 0 ? 0 : static_cast<float>(bounded);
  }
  return values;
}

// All outcomes of ten values, the others at random: no cell is longer than its look counts.
TEST(RiceCodec, Cells_AnyOutcomeOfTheRoundings_NoLongerThanTheirLook) {
  for (uint64_t number = 0; number < 300; ++number) {
    const CellBound cell(cell_values(number));
    for (uint64_t outcome = 0; outcome < 1024; ++outcome) {
      const uint64_t others = mix(number * 1024 + outcome) << 10;
      Codes codes;
      cell.fill(outcome | others, codes);
      const uint64_t length = length_with(codes, rice_parameter(codes));
      ASSERT_LE(length, cell.bound(outcome | others)) << number << ", " << outcome;
    }
  }
}

TEST(RiceCodec, Looks_ExpectedBitsAtLeastThoseOfTheChances) {
  for (uint64_t number = 0; number < 300; ++number) {
    const CellBound cell(cell_values(number));
    double expected = 0;
    uint64_t squares = 0;
    for (uint32_t e = 0; e < kRiceCell; ++e) {
      const RiceNeighbours both = rice_neighbours<false>(cell.values[e], 1);
      const uint32_t more = (both.far >> cell.parameter) - (both.near >> cell.parameter);
      ASSERT_LE(more, 2u);
      // The chance of the random numbers, and no more than a part above it.
      expected += std::rint(std::ldexp(static_cast<double>(both.distance), 23)) * 0x1p-23 * more;
      squares += uint64_t{more} * more;
    }
    EXPECT_GE(cell.look.expected_256, 256 * expected) << number;
    EXPECT_LE(cell.look.expected_256, 256 * expected + 2 * kRiceCell) << number;
    EXPECT_EQ(cell.look.squares, squares) << number;
  }
}

TEST(RiceCodec, Need_RoundedUpAndScaledByTheStride) {
  const RiceLook look{1000, 257, 50, 64};
  EXPECT_EQ(rice_need(look, 1, 12), 1000 + 2 + 25u);   // sqrt(600) is 24.5
  EXPECT_EQ(rice_need(look, 8, 45), 8000 + 9 + 135u);  // sqrt(18000) is 134.2
}

TEST(RiceCodec, Roots_LeastNumberWhoseSquareIsAtLeast) {
  for (uint64_t root = 2; root < 65536; root += root < 300 ? 1 : 977) {
    EXPECT_EQ(root_rounded_up(static_cast<uint32_t>(root * root)), root);
    EXPECT_EQ(root_rounded_up(static_cast<uint32_t>(root * root - root)), root);
    if (root < 65535) {
      EXPECT_EQ(root_rounded_up(static_cast<uint32_t>(root * root + 1)), root + 1);
    }
  }
  EXPECT_EQ(root_rounded_up(0), 0u);
  EXPECT_EQ(root_rounded_up(1), 1u);
}

// exp(-2 M^2 / D) and, of values of a word that depend on each other, exp(-M^2 / (2 D)).
TEST(RiceCodec, Margins_ChanceBelow2ToThe32nd) {
  EXPECT_LE(std::exp(-2.0 * kRiceMarginOfBytes), 0x1p-32);
  EXPECT_LE(std::exp(-0.5 * kRiceMargin), 0x1p-32);
  const auto margin = [](uint32_t ranks, uint32_t rank) {
    return rice_margin(strata_of(rank, ranks));
  };
  for (const uint32_t ranks : {1u, 2u, 64u, 1024u}) EXPECT_EQ(margin(ranks, 0), 12u) << ranks;
  for (const uint32_t ranks : {3u, 6u, 7u, 1000u}) EXPECT_EQ(margin(ranks, 0), 45u) << ranks;
  EXPECT_EQ(margin(1030, 1023), 12u);
  EXPECT_EQ(margin(1030, 1024), 45u);  // of six ranks
  EXPECT_EQ(rice_margin(whole_stratum()), 12u);
}

// Leading bytes of the thresholds of a word: all 2^16 pairs of two of them, and of strata.
TEST(RiceCodec, LeadingBytesOfAWordsValues_BitsOfTheirOwn) {
  for (uint32_t value = 0; value < 4; ++value) {
    uint32_t bits = 0;  // that the leading byte of r(e) is made of
    for (uint32_t bit = 0; bit < 32; ++bit) {
      if (value_bits(1u << bit, value) >> 15 & 0xff) bits |= 1u << bit;
    }
    EXPECT_EQ(__builtin_popcount(bits), 8);
    for (uint32_t other = 0; other < value; ++other) {
      uint32_t others = 0;
      for (uint32_t bit = 0; bit < 32; ++bit) {
        if (value_bits(1u << bit, other) >> 15 & 0xff) others |= 1u << bit;
      }
      EXPECT_EQ(bits & others, 0u) << value << ", " << other;
    }
  }
}

TEST(RicePlanes, EveryMean_BitsOfAdaptiveWidthsTogether) {
  for (uint32_t half = kMeanHalfBitsMin; half <= kMeanHalfBitsMax; ++half) {
    const uint32_t up = rice_planes(half, kGroupBlocks, 1, kRiceGroupValues, false);
    const uint32_t down = rice_planes(half, kGroupBlocks, 1, kRiceGroupValues, true);
    EXPECT_EQ(up, (64 * half - 27) * 2) << half;
    EXPECT_EQ(up + down, half * 256 + 96) << half;  // 2 mean_bits + 0.375 for each value
    EXPECT_GT(up, rice_planes_least(kRiceGroupValues)) << half;
  }
}

TEST(RicePlanes, StepOf256TimesTheValues_FewestPlanesHaveRoom) {
  for (uint32_t count = 1; count <= kRiceGroupValues; count += count < 2000 ? 1 : 997) {
    RiceLook look;
    for (uint32_t e = 0; e < count; ++e) {
      rice_look_at(rice_neighbours<false>(-0x1p-8f, 1), 0, look);
    }
    look.near_bits = rice_cells(count) * kRiceCell;
    ASSERT_LE(rice_need(look, 1, kRiceMargin),
              rice_room(rice_planes_least(count), rice_cells(count)))
        << count;
  }
}

/** A group whose need falls by `slope` bits for each code of the step. */
struct Line {
  int64_t slope, at_zero;
  uint32_t looks = 0;

  RiceLook operator()(float inverse, uint32_t stride) {
    ++looks;
    const uint32_t code = (float_bits(1 / inverse) + 0x8000u) >> 16;
    const int64_t need = std::max<int64_t>(at_zero - slope * code, 0);
    return {static_cast<uint32_t>(need) / stride, 0, 0, 32768 / stride};
  }
};

TEST(RiceSearch, Lines_AStepThatFitsAndIsAlmostTheLeast) {
  for (int64_t slope = 40; slope <= 500; slope += 23) {
    for (uint32_t fitting = 12600; fitting < 15500; fitting += 331) {
      const uint32_t room = 130000;
      Line line{slope, room + slope * fitting};
      const uint32_t found = rice_find_step(0x1p-17f, {1024, room, 12}, std::ref(line));
      EXPECT_GE(found, fitting) << slope;
      EXPECT_LE((found - fitting) * slope, 512 + slope) << slope;
      EXPECT_LE(line.looks, 20u) << slope << ", " << fitting;
    }
  }
}

TEST(RiceSearch, NothingFits_BeyondTheLargestStep_AnythingFits_TheLeast) {
  Line never{0, 200000}, always{0, 0};
  EXPECT_GT(rice_find_step(1.0f, {1024, 130000, 12}, std::ref(never)), kRiceStepMax);
  EXPECT_EQ(rice_find_step(1.0f, {1024, 130000, 12}, std::ref(always)), rice_least_step(1));
  EXPECT_LE(never.looks, 50u);
  EXPECT_LE(always.looks, 50u);
}

TEST(RiceSearch, LeastSteps_LargestValuesWithinTheCodes) {
  for (uint32_t bits = 1; bits <= kFloatMaxBits; bits += 0x7fff1) {
    const float largest = float_from_bits(bits);
    const uint32_t code = rice_least_step(largest);
    EXPECT_GE(code, kRiceStepMin);
    EXPECT_LE(code, kRiceStepMax);
    const float inverse = 1 / norm_from_code(static_cast<uint16_t>(code));
    EXPECT_LT(largest * inverse, kRiceMagnitudeMax) << largest;
  }
}

}  // namespace
}  // namespace gq::test
