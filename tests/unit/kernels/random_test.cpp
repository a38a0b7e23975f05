// Random words: Philox' test vectors, the words of values, and what four values share.
#include "kernels/codec/random.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "tests/support/vectors.h"

namespace gq::test {
namespace {

/** R(e) of one value by itself. */
uint32_t random_bits(const RandomStream& stream, uint64_t value) {
  const PhiloxBlock block = random_group(stream, value / kGroupValues);
  return value_bits(block.word[(value / kWordValues) % 4], static_cast<uint32_t>(value % 4));
}

TEST(Random, Philox_ItsTestVectors) {
  for (const VectorRecord& r : read_vectors("philox.txt")) {
    const std::vector<uint32_t> counter = r.words("counter"), key = r.words("key");
    const PhiloxBlock block =
        philox(PhiloxBlock{{counter[0], counter[1], counter[2], counter[3]}}, key[0], key[1]);
    const std::vector<uint32_t> output(block.word, block.word + 4);
    EXPECT_EQ(output, r.words("output")) << r.name();
  }
}

TEST(Random, Values_WordsOfTheReference) {
  for (const VectorRecord& r : read_vectors("random.txt")) {
    const uint64_t key =
        random_key(r.integer("seed"), static_cast<uint32_t>(r.integer("stream_id")));
    const RandomStream stream = random_stream(
        key, static_cast<uint32_t>(r.integer("step")), static_cast<uint32_t>(r.integer("index")),
        static_cast<Draw>(r.integer("draw")), static_cast<uint32_t>(r.integer("rank")),
        static_cast<uint32_t>(r.integer("hop")));
    const std::vector<uint32_t> words = r.words("words");
    ASSERT_EQ(words.size(), r.integer("value_count")) << r.name();
    for (size_t e = 0; e < words.size(); ++e) {
      EXPECT_EQ(random_bits(stream, r.integer("first_value") + e), words[e])
          << r.name() << " value " << e;
    }
  }
}

TEST(Random, EachFieldOfTheCounter_ChangesTheWord) {
  std::set<uint32_t> words;
  const auto add = [&](const RandomStream& stream, uint64_t value) {
    EXPECT_TRUE(words.insert(random_bits(stream, value)).second);
  };
  add(random_stream(1, 2, 3, Draw::quantize, 4, 5), 16);
  add(random_stream(2, 2, 3, Draw::quantize, 4, 5), 16);
  add(random_stream(uint64_t{1} << 32 | 1, 2, 3, Draw::quantize, 4, 5), 16);
  add(random_stream(1, 3, 3, Draw::quantize, 4, 5), 16);
  add(random_stream(1, 2, 2, Draw::quantize, 4, 5), 16);
  add(random_stream(1, 2, 3, Draw::reduce, 4, 5), 16);
  add(random_stream(1, 2, 3, Draw::quantize, 5, 5), 16);
  add(random_stream(1, 2, 3, Draw::quantize, 4, 6), 16);
  add(random_stream(1, 2, 3, Draw::quantize, 4, 5), 32);
  add(random_stream(1, 2, 3, Draw::quantize, 4, 5), uint64_t{16} << 32);
}

TEST(Random, LeadingBytesOfAWordsFourValues_ItsFourBytes) {
  for (uint32_t e = 0; e < 4; ++e) {
    EXPECT_EQ(value_bits(0x44332211u, e) >> 24, 0x11u * (e + 1));
  }
}

/** Rounding events of two values of a word: value i goes up if r(i) + F_i carries. */
TEST(Random, RoundingEventsOfAWordsValues_SmallCovariance) {
  constexpr uint32_t kWords = 1u << 20, kFractions = 7;
  static uint32_t joint[4][4][kFractions][kFractions];
  const RandomStream stream = random_stream(42, 0, 0, Draw::quantize, 0, 0);
  uint32_t single[4][kFractions] = {};
  for (uint64_t group = 0; group < kWords / 4; ++group) {
    const PhiloxBlock block = random_group(stream, group);
    for (const uint32_t word : block.word) {
      bool up[4][kFractions];
      for (uint32_t e = 0; e < 4; ++e) {
        for (uint32_t f = 0; f < kFractions; ++f) {
          const uint32_t fraction = (f + 1) << (kUniformBits - 3);
          up[e][f] = ((value_bits(word, e) & kUniformMask) + fraction) >> kUniformBits != 0;
          single[e][f] += up[e][f];
        }
      }
      for (uint32_t i = 0; i < 4; ++i) {
        for (uint32_t k = i + 1; k < 4; ++k) {
          for (uint32_t f = 0; f < kFractions; ++f) {
            for (uint32_t g = 0; g < kFractions; ++g) joint[i][k][f][g] += up[i][f] & up[k][g];
          }
        }
      }
    }
  }
  double largest = 0;
  for (uint32_t i = 0; i < 4; ++i) {
    for (uint32_t k = i + 1; k < 4; ++k) {
      for (uint32_t f = 0; f < kFractions; ++f) {
        for (uint32_t g = 0; g < kFractions; ++g) {
          const double together = joint[i][k][f][g] / double{kWords};
          const double apart = (single[i][f] / double{kWords}) * (single[k][g] / double{kWords});
          largest = std::fmax(largest, std::fabs(together - apart));
        }
      }
    }
  }
  EXPECT_LE(largest, 0x1p-8);
}

}  // namespace
}  // namespace gq::test
