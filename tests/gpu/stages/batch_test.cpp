// Stages of a range in pieces, all in one launch, give the bits of the range in one piece: any
// number of pieces, as arguments of the kernel or in a table.
#include "tests/gpu/stages/batch_pieces.h"

#include "tests/gpu/stages/stages_under_test.h"
#include "tests/unit/kernels/support/outcome.h"

namespace gq::test {
namespace {

/** As far as a format has them. */
void run_all(const Coding& coding, const Place& place, Outcome* outcome) {
  for (const int32_t dtype : kDtypes) {
    outcome->norm(NormOrder::inf, coding.block, coding.rotated, dtype, place);
    outcome->quantize(coding, dtype, place, 2.5f);
    outcome->dequantize(coding, dtype, GQSGD_MEAN, place, 2.5f);
  }
  if (coding.wide) outcome->reduce_many(coding, place, false);
}

std::vector<Coding> codings() {
  std::vector<Coding> all = code_formats(4, 2);
  Coding none = all[0];
  none.levels = Levels::none;
  none.bits = none.bits_down = 32;
  all.push_back(none);
  for (const Levels levels : {Levels::linear, Levels::exponential}) {
    for (const bool rotated : {false, true}) {
      // More ranks than the site's own, 13, which has a stratum of its own among them.
      Coding wide = coding_for(levels, 8, Combine::average, 16, 0, Rounding::correlated);
      all.push_back(wide);
      wide.rotated = rotated;
      wide.block = rotated ? 2048 : 128;
      wide.rescale = true;
      all.push_back(wide);
    }
  }
  return all;
}

/** The mode for as long as this lives. */
struct UseMode {
  explicit UseMode(const BatchMode& mode) { batch_mode = mode; }
  ~UseMode() { batch_mode = BatchMode(); }
};

/** Of every format, or of every `nth`: how a piece is found does not depend on its format. */
void expect_bits_of_the_whole(const BatchMode& mode, const Place& place, size_t nth = 1) {
  const std::vector<Coding> all = codings();
  for (size_t k = 0; k < all.size(); k += nth) {
    const Coding& coding = all[k];
    Outcome whole(scalar_stages());
    run_all(coding, place, &whole);
    const UseMode here(mode);
    Outcome in_pieces(stages_under_test);
    run_all(coding, place, &in_pieces);
    const std::string what = describe(coding) + " in " + std::to_string(mode.piece_count) +
                             (mode.has_table ? " pieces" : " pieces without a table");
    EXPECT_TRUE(in_pieces.intact()) << what;
    EXPECT_TRUE(in_pieces.bytes() == whole.bytes()) << what;
  }
}

// Ends in the middle of a block and of a thread's values, and is not aligned.
constexpr Place kPlace{4096, 9001, 1};
constexpr Place kAligned{8192, 16384, 0};
constexpr Place kLong{4096, 40001, 1};

TEST(Batch, FewPieces_BitsOfTheWhole) {
  for (const size_t pieces : {1, 2, 3, 32}) {
    expect_bits_of_the_whole({pieces}, kPlace);
    expect_bits_of_the_whole({pieces}, kAligned);
  }
}

TEST(Batch, TableOfPieces_BitsOfTheWhole) {
  for (const size_t pieces : {33, 200}) expect_bits_of_the_whole({pieces}, kPlace);
}

// More than one launch brings to the table, which is 511.
TEST(Batch, TableOfSeveralLaunches_BitsOfTheWhole) {
  for (const size_t pieces : {512, 1200}) expect_bits_of_the_whole({pieces}, kLong, 5);
}

TEST(Batch, ManyPiecesWithoutATable_BitsOfTheWhole) {
  expect_bits_of_the_whole({70, false}, kPlace);
}

TEST(Batch, TableThatIsKept_BitsOfTheWhole) {
  expect_bits_of_the_whole({.piece_count = 64, .keeps_table = true}, kPlace);
  expect_bits_of_the_whole({.piece_count = 512, .keeps_table = true}, kLong, 5);
}

TEST(Batch, OperandsInMemory_BitsOfTheWhole) {
  for (const size_t pieces : {1, 3}) {
    expect_bits_of_the_whole({.piece_count = pieces, .operands_in_memory = true}, kPlace);
    expect_bits_of_the_whole({.piece_count = pieces, .operands_in_memory = true}, kAligned);
  }
}

TEST(Batch, RunningNorm_BitsOfTheWholeAndZeroAfterwards) {
  expect_bits_of_the_whole({.running_norm = true}, kPlace);
  expect_bits_of_the_whole({.running_norm = true}, {0, kMostValues, 0});
}

/** Codes of norms on aligned memory, or behind it. */
std::vector<uint16_t> codes_of_norms(uint32_t seed, size_t count) {
  std::vector<uint16_t> codes(count);
  for (uint32_t k = 0; k < count; ++k) codes[k] = static_cast<uint16_t>((k + seed) * 40503u >> 3);
  return codes;
}

TEST(Batch, MergedNorms_LargestOfAll) {
  for (const size_t operands : {1, 2, 4, 7, 64, 65, 130}) {
    for (const size_t count : {1, 7, 8, 1000, 4099}) {
      for (const size_t offset : {0, 1}) {
        const UseMode here({operands});
        const std::vector<uint16_t> a = codes_of_norms(1, count + offset);
        std::vector<uint16_t> expected = codes_of_norms(9, count + offset), merged = expected;
        MergeNormsArgs args{count, a.data() + offset, expected.data() + offset, nullptr};
        EXPECT_FALSE(failed(scalar_stages().merge_norms(args)));
        args.b = merged.data() + offset;
        EXPECT_FALSE(failed(stages_under_test.merge_norms(args)));
        EXPECT_TRUE(merged == expected) << operands << " operands of " << count << " norms";
      }
    }
  }
}

}  // namespace
}  // namespace gq::test
