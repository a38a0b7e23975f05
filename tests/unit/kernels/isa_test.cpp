// Every instruction set against scalar, bit for bit, on edge-biased data: the paper's formats,
// element types, tails and element offsets; nothing written outside. Extensions:
// isa_extended_test.cpp.
#include <cmath>

#include "tests/unit/kernels/support/outcome.h"

namespace gq::test {
namespace {

std::vector<Coding> all_formats(Rounding rounding) {
  std::vector<Coding> formats = code_formats(3, 2, rounding);
  for (const Coding& wide : code_formats(3, 0, rounding)) formats.push_back(wide);
  formats.push_back(coding_for(Levels::none, 32, Combine::sum, 3, 2, rounding));
  if (has_device_stages()) return formats;  // which have no levels bf16 and fp16
  formats.push_back(coding_for(Levels::bf16, 16, Combine::exact, 3, 0, rounding));
  formats.push_back(coding_for(Levels::fp16, 16, Combine::exact, 3, 0, rounding));
  return formats;
}

void expect_equal_norms(const Place& place) {
  for (const NormOrder q : {NormOrder::inf, NormOrder::one, NormOrder::two}) {
    for (const int32_t dtype : kDtypes) {
      expect_equal_everywhere("norm" + place_text(place),
                              [&](Outcome& outcome) { outcome.norm(q, 0, false, dtype, place); });
    }
  }
}

void expect_equal_stages(const Place& place, const std::vector<float>& sizes) {
  expect_equal_norms(place);
  for (const Rounding rounding : {Rounding::independent, Rounding::nearest}) {
    for (const Coding& coding : all_formats(rounding)) {
      expect_equal_codecs(coding, place, sizes);
      expect_equal_reductions(coding, place);
    }
  }
}

TEST(Isa, EveryTail_SameBits_NothingElseWritten) {
  // A device's threads have 16 values each, so that 66 lengths have every tail; PTX is slow.
  const size_t step = has_device_stages() ? 5 : 1;
  for (size_t count = 0; count <= 257; count += count < 66 ? 1 : step) {
    expect_equal_stages({32 * (count % 3), count, count % 4}, kOneSize);
  }
}

TEST(Isa, EveryElementOffset_SameBits) {
  for (size_t offset = 1; offset < 16; ++offset) {
    expect_equal_stages({64, 1056 + offset, offset}, kOneSize);
  }
}

TEST(Isa, ManyTiles_SameBits) {
  expect_equal_stages({0, 1024, 0}, kAllSizes);
  expect_equal_stages({1023 * 32, 5 * 1024 + 77, 0}, kAllSizes);
  expect_equal_stages({65536 - 1024, 70000, 1}, kOneSize);
  expect_equal_stages({(uint64_t{1} << 36) - 64, 4096, 0}, kAllSizes);  // group 2^32 is inside
}

TEST(Isa, NeighboursOfAWord_NoEffect) {
  for (const Stages* stages : stages_here()) {
    for (const Coding& coding : all_formats(Rounding::independent)) {
      const Floats values = edge_biased_values(21, 4096, 1);
      const Words whole = test::quantize({*stages, coding, kSite, 0}, values, 1);
      for (const size_t first : {32u, 512u, 1024u, 1056u, 2080u}) {
        const Floats part(values.begin() + static_cast<ptrdiff_t>(first), values.end());
        const Words words = test::quantize({*stages, coding, kSite, first}, part, 1);
        const auto begin = whole.begin() + static_cast<ptrdiff_t>(words_for(coding.bits, first));
        EXPECT_TRUE(Words(begin, whole.end()) == words) << describe(coding) << first;
      }
    }
  }
}

TEST(Isa, TailLanes_Zero) {
  for (const Stages* stages : stages_here()) {
    for (const Coding& coding : all_formats(Rounding::independent)) {
      const uint32_t per_word = codes_per_word(coding.bits);
      for (size_t count = 1; count < 70; ++count) {
        for (const float norm : {1.0f, 0.0f, NAN}) {
          const Words words =
              test::quantize({*stages, coding, kSite, 0}, edge_biased_values(1, count, 1), norm);
          for (size_t e = count; e < words.size() * per_word; ++e) {
            ASSERT_EQ(lane_at(words, coding.bits, e), 0u) << describe(coding) << " count " << count;
          }
        }
      }
    }
  }
}

// Rescaled sums of 8-bit codes may be kept in 16 bits: on either side of where that ends.
TEST(Isa, RescaledSumsOfManyRanks_SameBits) {
  Format format;
  format.rescale = true;
  for (const uint32_t ranks : {2u, 5u, 16u, 255u, 256u}) {
    for (const Rounding rounding : {Rounding::independent, Rounding::nearest}) {
      for (const uint32_t block : {32u, 64u, 128u, 512u, 4096u}) {
        if (ranks > 16 && block != 128) continue;
        format.block = block;
        format.rounding = rounding;
        Coding coding = coding_of(format, ranks, 0);
        expect_equal_reductions(coding, {4096, 4096 + 77, 1});
        coding.steps = coding.steps_down = 100;
        expect_equal_reductions(coding, {0, 700, 0});
      }
    }
  }
}

// Sums of 2^k ranks may be encoded as integers: on either side of where that ends.
TEST(Isa, WideSumsOfManyRanks_SameBits) {
  Format random, nearest, subtractive;
  nearest.rounding = Rounding::nearest;
  subtractive.rounding_down = RoundingDown::subtractive;
  for (const uint32_t ranks : {2u, 4u, 6u, 8u, 64u, 128u, 256u}) {
    for (const Format& format : {random, nearest, subtractive}) {
      for (const Place& place : {Place{0, 3000, 1}, Place{4096, 512, 0}, Place{32, 77, 3}}) {
        Coding coding = coding_of(format, ranks, 0);
        expect_equal_reductions(coding, place);
        coding.steps = coding.steps_down = 100;
        expect_equal_reductions(coding, place);
      }
    }
  }
}

// Sums of 4-bit codes may be kept in bytes: on either side of where that ends; operands may be
// loaded in fours and eights: numbers that leave some.
TEST(Isa, WideSumsOfFourBits_SameBits) {
  Format format;
  format.bits = format.bits_down = 4;
  for (const uint32_t ranks : {2u, 3u, 7u, 15u, 16u, 17u, 33u}) {
    for (const bool rescale : {false, true}) {
      format.rescale = rescale;
      format.block = rescale ? 128 : 0;
      const Coding coding = coding_of(format, ranks, 0);
      for (const Place& place : {Place{0, 3000, 1}, Place{4096, 512, 0}}) {
        expect_equal_reductions(coding, place);
      }
    }
  }
}

}  // namespace
}  // namespace gq::test
