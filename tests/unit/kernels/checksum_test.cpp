// CRC-32C against numbers of RFC 3720 and by every implementation; digests against their formula,
// and what changes them.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <vector>

#include "kernels/checksum/crc32c.h"
#include "kernels/checksum/digest.h"
#include "tests/support/inputs.h"
#include "tests/support/vectors.h"

namespace gq {
namespace {

std::vector<unsigned char> random_bytes(size_t size_bytes, uint64_t seed) {
  std::vector<unsigned char> bytes(size_bytes);
  for (size_t k = 0; k < size_bytes; ++k) {
    bytes[k] = static_cast<unsigned char>(test::mix(seed + k));
  }
  return bytes;
}

TEST(Crc32c, KnownBytes_NumbersOfTheStandard) {
  unsigned char rising[32], falling[32];
  std::iota(rising, rising + 32, static_cast<unsigned char>(0));
  for (int k = 0; k < 32; ++k) falling[k] = rising[31 - k];
  const std::vector<unsigned char> zeros(32, 0), ones(32, 0xff);
  for (const auto* one = crc32c_implementations(); one->checksum != nullptr; ++one) {
    EXPECT_EQ(one->checksum(0, "123456789", 9), 0xe3069283u) << one->name;
    EXPECT_EQ(one->checksum(0, zeros.data(), 32), 0x8a9136aau) << one->name;
    EXPECT_EQ(one->checksum(0, ones.data(), 32), 0x62a8ab43u) << one->name;
    EXPECT_EQ(one->checksum(0, rising, 32), 0x46dd794eu) << one->name;
    EXPECT_EQ(one->checksum(0, falling, 32), 0x113fdb5cu) << one->name;
    EXPECT_EQ(one->checksum(0x12345678, zeros.data(), 0), 0x12345678u) << one->name;
  }
}

// Lengths around those of the blocks that the implementations cut, at every alignment.
TEST(Crc32c, EveryImplementation_SameNumber) {
  const std::vector<unsigned char> bytes = random_bytes(90000, 1);
  std::vector<size_t> lengths;
  for (const size_t block : {8, 24, 256, 320, 512, 768, 6144, 11784, 11792, 12288, 23568, 60000}) {
    for (size_t near = block - 8; near <= block + 8; ++near) lengths.push_back(near);
  }
  for (const size_t length : lengths) {
    const size_t offset = length % 9;
    const uint32_t before = static_cast<uint32_t>(test::mix(length));
    const auto* one = crc32c_implementations();
    const uint32_t expected = one->checksum(before, bytes.data() + offset, length);
    for (++one; one->checksum != nullptr; ++one) {
      ASSERT_EQ(one->checksum(before, bytes.data() + offset, length), expected)
          << one->name << ", " << length << " bytes";
    }
  }
}

TEST(Crc32c, Pieces_ChecksumOfTheWhole) {
  const std::vector<unsigned char> bytes = random_bytes(40000, 2);
  const uint32_t whole = crc32c(0, bytes.data(), bytes.size());
  for (const size_t cut : {size_t{0}, size_t{1}, size_t{777}, size_t{30001}, bytes.size()}) {
    const uint32_t first = crc32c(0, bytes.data(), cut);
    EXPECT_EQ(crc32c(first, bytes.data() + cut, bytes.size() - cut), whole);
  }
}

TEST(Crc32c, AnyBit_ChangesIt) {
  std::vector<unsigned char> bytes = random_bytes(13000, 3);
  const uint32_t whole = crc32c(0, bytes.data(), bytes.size());
  for (size_t bit = 0; bit < 8 * bytes.size(); bit += 7) {
    bytes[bit / 8] ^= static_cast<unsigned char>(1 << bit % 8);
    ASSERT_NE(crc32c(0, bytes.data(), bytes.size()), whole) << "bit " << bit;
    bytes[bit / 8] ^= static_cast<unsigned char>(1 << bit % 8);
  }
}

std::vector<uint32_t> random_words(size_t count, uint64_t seed) {
  std::vector<uint32_t> words(count);
  for (size_t k = 0; k < count; ++k) words[k] = static_cast<uint32_t>(test::mix(seed + k));
  return words;
}

TEST(Digest, WordsAndScales_FormulaOfTheFormat) {
  const std::vector<uint32_t> words = random_words(70, 4);
  const std::vector<uint16_t> scales(words.begin(), words.end());
  for (const uint64_t first : {uint64_t{0}, uint64_t{5}, (uint64_t{1} << 33) + 17}) {
    for (size_t count = 0; count < words.size(); ++count) {
      uint64_t of_words = 0, of_scales = 0;
      for (size_t k = 0; k < count; ++k) {
        const uint32_t odd = static_cast<uint32_t>(2 * (first + k) + 1);
        of_words += uint64_t{words[k]} * uint32_t{odd * 0x9e3779b1u};
        of_scales += uint64_t{scales[k]} * uint32_t{odd * 0x85ebca77u};
      }
      ASSERT_EQ(digest_of_words(first, words.data(), count), of_words) << count;
      ASSERT_EQ(digest_of_scales(first, scales.data(), count), of_scales) << count;
    }
  }
  EXPECT_EQ(digest_of_norm(3, 1.5f), uint64_t{0x3fc00000} * uint32_t{7 * 0x85ebca77u});
  EXPECT_EQ(digest_of_norm(3, std::numeric_limits<float>::infinity()),
            digest_of_norm(3, -std::nanf("1")));
}

TEST(Checksums, Vectors_NumbersOfTheReference) {
  int trailers = 0, digests = 0;
  for (const test::VectorRecord& record : test::read_vectors("integrity.txt")) {
    const std::vector<uint32_t> words = record.words("words");
    if (record.has("number")) {
      const uint32_t behind[] = {static_cast<uint32_t>(record.integer("sequence")),
                                 static_cast<uint32_t>(record.integer("number")),
                                 static_cast<uint32_t>(record.integer("mark"))};
      const size_t size_bytes = behind[2] == 0 ? words.size() * sizeof(uint32_t) : 0;
      const uint32_t of_words = crc32c(0, words.data(), size_bytes);
      EXPECT_EQ(crc32c(of_words, behind, sizeof behind), record.words("checksum").at(0))
          << record.name();
      trailers += 1;
      continue;
    }
    const std::vector<uint64_t> patterns = record.patterns("scales");
    const std::vector<uint16_t> scales(patterns.begin(), patterns.end());
    const uint64_t place = record.integer("place");
    EXPECT_EQ(digest_of_words(place, words.data(), words.size()) +
                  digest_of_scales(place, scales.data(), scales.size()) +
                  digest_of_norm(place, record.number("norm")),
              record.integer("digest"))
        << record.name();
    digests += 1;
  }
  EXPECT_TRUE(trailers > 0 && digests > 0);
}

TEST(Digest, PiecesInAnyOrder_DigestOfTheWhole) {
  const std::vector<uint32_t> words = random_words(1000, 5);
  const uint64_t whole = digest_of_words(40, words.data(), words.size());
  const uint64_t last = digest_of_words(40 + 333, words.data() + 333, words.size() - 333);
  EXPECT_EQ(last + digest_of_words(40, words.data(), 333), whole);
}

TEST(Digest, OneOrTwoChangedBits_ChangeIt) {
  std::vector<uint32_t> words = random_words(200, 6);
  const uint64_t whole = digest_of_words(0, words.data(), words.size());
  for (size_t bit = 0; bit < 32 * words.size(); ++bit) {
    words[bit / 32] ^= 1u << bit % 32;
    ASSERT_NE(digest_of_words(0, words.data(), words.size()), whole) << "bit " << bit;
    const size_t other = (bit + 32) % (32 * words.size());  // the same bit of the next word
    words[other / 32] ^= 1u << other % 32;
    ASSERT_NE(digest_of_words(0, words.data(), words.size()), whole) << "bits " << bit;
    words[other / 32] ^= 1u << other % 32;
    words[bit / 32] ^= 1u << bit % 32;
  }
}

TEST(Digest, SwappedWords_ChangeIt) {
  std::vector<uint32_t> words = random_words(64, 7);
  const uint64_t whole = digest_of_words(0, words.data(), words.size());
  for (size_t k = 0; k + 1 < words.size(); ++k) {
    std::swap(words[k], words[k + 1]);
    ASSERT_NE(digest_of_words(0, words.data(), words.size()), whole);
    std::swap(words[k], words[k + 1]);
  }
}

}  // namespace
}  // namespace gq
