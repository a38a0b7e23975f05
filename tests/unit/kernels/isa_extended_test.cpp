// Every instruction set against scalar, bit for bit, for norms per block, correlated thresholds,
// subtractive and rescaled re-encodes, mantissa bits and rotations.
#include "tests/unit/kernels/support/outcome.h"

namespace gq::test {
namespace {

Format linear(uint8_t bits, uint8_t bits_down, Combine combine) {
  Format format;
  format.bits = bits;
  format.bits_down = bits_down;
  format.combine = combine;
  return format;
}

Format exponential(uint8_t bits, uint8_t bits_down, uint8_t mantissa_bits) {
  Format format = linear(bits, bits_down, bits == 8 ? Combine::sum : Combine::average);
  format.levels = Levels::exponential;
  format.mantissa_bits = mantissa_bits;
  return format;
}

Coding with_block(Format format, uint32_t block, uint32_t reduction_depth) {
  format.block = block;
  return coding_of(format, 3, reduction_depth);
}

/** Formats whose norms belong to blocks, shorter and longer than tiles. */
std::vector<Coding> block_formats() {
  std::vector<Coding> formats;
  for (const uint32_t block : {32u, 64u, 128u, 256u, 512u, 4096u}) {
    for (const uint32_t reduction_depth : {0u, 2u}) {
      formats.push_back(with_block(linear(8, 8, Combine::exact), block, reduction_depth));
      formats.push_back(with_block(linear(4, 4, Combine::average), block, reduction_depth));
      formats.push_back(with_block(exponential(8, 8, 0), block, reduction_depth));
      formats.push_back(with_block(exponential(4, 4, 0), block, reduction_depth));
    }
    for (Format down : {linear(8, 8, Combine::exact), linear(4, 8, Combine::average),
                        exponential(8, 8, 0), exponential(8, 4, 0), exponential(8, 8, 2)}) {
      down.rescale = true;
      formats.push_back(with_block(down, block, 0));
      down.rounding = Rounding::nearest;
      formats.push_back(with_block(down, block, 0));
    }
  }
  return formats;
}

/** Formats with one norm that change how sums are encoded. */
std::vector<Coding> down_formats() {
  std::vector<Coding> formats;
  for (Format format : {linear(8, 4, Combine::exact), linear(4, 8, Combine::average),
                        exponential(8, 4, 0), exponential(4, 8, 0), exponential(8, 8, 2)}) {
    formats.push_back(coding_of(format, 3, 0));
    if (format.levels == Levels::exponential) continue;
    format.rounding_down = RoundingDown::subtractive;
    formats.push_back(coding_of(format, 3, 0));
    format.rescale = true;
    formats.push_back(with_block(format, 64, 0));
  }
  return formats;
}

TEST(IsaExtended, EveryTailOfBlocks_SameBits) {
  const std::vector<Coding> formats = block_formats();
  const size_t nth = has_device_stages() ? 3 : 1;  // formats take turns: PTX is slow
  for (size_t count = 0; count <= 300; count += count < 66 ? 1 : 13) {
    for (size_t k = count / 3 % nth; k < formats.size(); k += nth) {
      const Coding& coding = formats[k];
      const Place place{4096 * (count % 3), count, count % 4};
      expect_equal_codecs(coding, place, kOneSize);
      expect_equal_reductions(coding, place);
    }
  }
}

TEST(IsaExtended, ManyBlocks_SameBits) {
  for (const Coding& coding : block_formats()) {
    for (const Place& place : {Place{8192, 8192, 0}, Place{0, 3 * 4096 + 77, 1}}) {
      expect_equal_codecs(coding, place, kOneSize);
      expect_equal_reductions(coding, place);
    }
  }
}

TEST(IsaExtended, BlockNorms_SameBits) {
  for (const uint32_t block : {32u, 64u, 128u, 256u, 512u, 2048u, 65536u}) {
    for (const size_t count : {0, 1, 31, 33, 255, 257, 1023, 4096, 70000}) {
      for (const int32_t dtype : kDtypes) {
        expect_equal_everywhere("block norms", [&](Outcome& outcome) {
          outcome.norm(NormOrder::inf, block, false, dtype, {65536, count, count % 4});
        });
      }
    }
  }
}

TEST(IsaExtended, OtherEncodingsOfSums_SameBits) {
  for (const Coding& coding : down_formats()) {
    for (size_t count = 0; count <= 300; count += count < 66 ? 1 : 13) {
      expect_equal_codecs(coding, {64 * (count % 3), count, count % 4}, kOneSize);
      expect_equal_reductions(coding, {64 * (count % 3), count, count % 4});
    }
    expect_equal_codecs(coding, {2048, 5000, 0}, kAllSizes);
    expect_equal_reductions(coding, {2048, 5000, 0});
  }
}

void expect_equal_correlated(const Format& format, uint32_t ranks, uint32_t rank) {
  const Coding coding = coding_of(format, ranks, 0);
  RandomSite site = kSite;
  site.rank = rank;
  const Floats values = edge_biased_values(ranks, 1500, 1);
  const Words expected = quantize({scalar_stages(), coding, site, 96}, values, 1);
  for (const Stages* stages : stages_here()) {
    EXPECT_TRUE(quantize({*stages, coding, site, 96}, values, 1) == expected)
        << describe(coding) << " rank " << rank << " on " << stages->name;
  }
}

/** Every field, every prime below 128 and some beyond, the largest of them, several groups. */
TEST(IsaExtended, CorrelatedThresholds_SameBits) {
  std::vector<uint32_t> sizes = {129,  250,  256,  512,  600,  997, 1000,
                                 1022, 1023, 1024, 1025, 1031, 2051};
  for (uint32_t ranks = 1; ranks <= 128; ++ranks) sizes.push_back(ranks);
  for (Format format : {linear(8, 8, Combine::average), linear(4, 4, Combine::average),
                        exponential(8, 8, 0), exponential(8, 8, 2)}) {
    format.rounding = Rounding::correlated;
    for (const uint32_t ranks : sizes) {
      for (const uint32_t rank : {0u, 1u, ranks / 2, ranks - 1}) {
        if (rank < ranks) expect_equal_correlated(format, ranks, rank);
      }
    }
  }
}

/** Sums of nodes, which are rounded beside those of other nodes: fields, primes, several groups. */
TEST(IsaExtended, SumsOfNodes_SameBits) {
  std::vector<Coding> formats = code_formats(2, 0, Rounding::correlated);
  for (std::vector<Coding> more : {block_formats(), down_formats()}) {
    for (Coding& coding : more) {
      coding.rounding = Rounding::correlated;
      coding.rounding_down = RoundingDown::random;
      formats.push_back(coding);
    }
  }
  for (const Coding& coding : formats) {
    if (!coding.wide) continue;
    for (const uint32_t nodes : {2u, 3u, 4u, 7u, 16u, 128u, 256u, 1031u}) {
      expect_equal_node_sums(coding, {2048, 1000, 1}, nodes / 2, nodes);
    }
    for (const size_t count : {0, 1, 31, 33, 255, 257}) {
      expect_equal_node_sums(coding, {4096, count, count % 4}, 1, 4);
    }
  }
}

/** Operands that agree on the top code at first, then on its negative. */
std::vector<Words> operands_with_tops(const Coding& coding, size_t value_count) {
  std::vector<Words> operands;
  const size_t part = words_for(coding.bits, value_count) / 4;
  for (uint32_t rank = 0; rank < coding.ranks; ++rank) {
    Words words = edge_biased_codes(rank, value_count, coding);
    for (size_t w = 0; w < 2 * part; ++w) {
      words[w] = w >= part ? ~0u : coding.bits == 8 ? 0x7f7f7f7fu : 0x77777777u;
    }
    operands.push_back(words);
  }
  return operands;
}

/** Up to sums of 4-bit codes that 16 bits do not hold, and with ranks by which tops are rounded. */
TEST(IsaExtended, PowersOfManyRanks_SameBits) {
  constexpr size_t kCount = 1100;
  for (Format format : {exponential(8, 8, 0), exponential(4, 4, 0)}) {
    for (const uint32_t ranks : {1u, 2u, 4u, 5u, 16u, 55u, 107u, 511u, 512u, 1000u}) {
      for (const Rounding rounding : {Rounding::independent, Rounding::nearest}) {
        format.rounding = rounding;
        const Coding coding = coding_of(format, ranks, 0);
        const std::vector<Words> operands = operands_with_tops(coding, kCount);
        const auto sum = [&](const Stages& stages) {
          return reduce_many({stages, coding, kSite, 4096}, operands, kCount, 1);
        };
        const Words expected = sum(scalar_stages());
        for (const Stages* stages : stages_here()) {
          EXPECT_TRUE(sum(*stages) == expected) << describe(coding) << " on " << stages->name;
        }
      }
    }
  }
}

/** The first value whose uniform number is the largest there is: one that carries the least excess
 *  over the top into the code. */
uint64_t value_of_largest_uniform(const RandomStream& stream) {
  for (uint64_t group = 0;; ++group) {
    const PhiloxBlock words = random_group(stream, group);
    for (uint32_t e = 0; e < kGroupValues; ++e) {
      const uint32_t bits = value_bits(words.word[e / kWordValues], e);
      if (uniform_of<false>(bits) == kUniformMask) return group * kGroupValues + e;
    }
  }
}

/** The scale of 55 ranks is rounded up, that of 54 is not. */
TEST(IsaExtended, TopsOfRanksWhoseScaleIsRoundedUp_StayTheTop) {
  const RandomStream stream = random_stream(kSite.key, kSite.step, kSite.index, Draw::encode_again,
                                            kSite.rank, kSite.hop);
  const uint64_t largest = value_of_largest_uniform(stream);
  constexpr size_t kCount = 2048;
  const uint64_t first_value = largest / kCount * kCount;
  for (const uint32_t ranks : {54u, 55u, 107u}) {
    const Coding coding = coding_of(exponential(8, 8, 0), ranks, 0);
    const Words tops(words_for(8, kCount), 0x7f7f7f7fu);
    for (const Stages* stages : stages_here()) {
      const Words sums = reduce_many({*stages, coding, kSite, first_value},
                                     std::vector<Words>(ranks, tops), kCount, 1);
      EXPECT_TRUE(sums == tops) << ranks << " ranks on " << stages->name;
    }
  }
}

std::vector<Coding> rotated_formats() {
  std::vector<Coding> formats;
  for (Format format : {linear(8, 8, Combine::average), linear(4, 4, Combine::average),
                        exponential(8, 8, 0), exponential(4, 4, 0)}) {
    format.rotate = Rotate::hadamard;
    formats.push_back(coding_of(format, 3, 2));
    formats.push_back(with_block(format, 2048, 2));
    format.rescale = true;
    format.rounding = Rounding::correlated;
    if (format.levels == Levels::linear) format.rounding_down = RoundingDown::subtractive;
    formats.push_back(with_block(format, 128, 0));
  }
  return formats;
}

TEST(IsaExtended, RotatedCalls_SameBits) {
  for (const Coding& coding : rotated_formats()) {
    for (const size_t count : {1, 31, 33, 255, 257, 1000, 1023, 1024, 1025, 3000}) {
      const Place place{2048 * (count % 3), count, count % 4};
      expect_equal_codecs(coding, place, kOneSize);
      expect_equal_reductions(coding, place);
    }
    expect_equal_codecs(coding, {4096, 5000, 0}, kAllSizes);
  }
}

TEST(IsaExtended, RotatedNorms_SameBits) {
  for (const size_t count : {0, 1, 1000, 1024, 70000}) {
    for (const int32_t dtype : kDtypes) {
      for (const NormOrder q : {NormOrder::inf, NormOrder::one, NormOrder::two}) {
        expect_equal_everywhere("rotated norm", [&](Outcome& outcome) {
          outcome.norm(q, 0, true, dtype, {65536 - 1024, count, count % 4});
        });
      }
      expect_equal_everywhere("rotated block norms", [&](Outcome& outcome) {
        outcome.norm(NormOrder::inf, 256, true, dtype, {65536, count, count % 4});
      });
    }
  }
}

/** Forty nodes are more operands than a kernel has as arguments. */
void expect_equal_means(Coding coding, const Place& place) {
  std::vector<uint32_t> many(40);
  coding.ranks = 0;
  for (uint32_t k = 0; k < many.size(); ++k) coding.ranks += many[k] = 1 + k % 9;
  expect_equal_everywhere("means of 40 nodes, " + describe(coding) + place_text(place),
                          [&](Outcome& outcome) {
                            outcome.reduce_many(coding, place, false, many);
                          });
  for (const uint32_t ranks : {256u, 300u}) {  // devices add integers up to 256
    coding.ranks = ranks;
    expect_equal_everywhere("means of " + describe(coding) + place_text(place),
                            [&](Outcome& outcome) {
                              outcome.reduce_many(coding, place, false, {1, 5, ranks - 50, 44});
                            });
  }
}

// Devices have no weights for linear levels: calls list operands more than once.
TEST(IsaExtended, SumsOfMeans_SameBits) {
  std::vector<Coding> formats = code_formats(3, 0);
  for (const Coding& coding : down_formats()) formats.push_back(coding);
  for (const Coding& coding : block_formats()) formats.push_back(coding);
  for (const Coding& coding : formats) {
    if (!coding.wide) continue;
    if (has_device_stages() && coding.levels != Levels::exponential) continue;
    for (const Place& place : {Place{0, 5000, 1}, Place{4096, 512, 0}, Place{8192, 77, 3}}) {
      expect_equal_means(coding, place);
    }
  }
}

}  // namespace
}  // namespace gq::test
