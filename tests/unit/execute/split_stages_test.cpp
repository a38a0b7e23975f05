// Stages in parts by several threads against the same stages in one piece, bit for bit.
#include "src/execute/split_stages.h"

#include <random>

#include "tests/support/succeeds.h"
#include "tests/unit/kernels/support/outcome.h"

namespace gq::test {
namespace {

// A table of stages has no place for an endpoint: the one whose stages are under test.
const Endpoint* endpoint = nullptr;

template <typename Args>
StageError in_parts(const Args& args) {
  if (run_stage(*endpoint, args).ok()) return {};
  return {"a part", 0, nullptr, "failed"};
}

/** The stages of `endpoint`, as a table that outcomes can be made with. */
Stages split_stages() {
  Stages stages = *endpoint->stages;
  stages.norm = in_parts<NormArgs>;
  stages.quantize = in_parts<QuantizeArgs>;
  stages.reduce = in_parts<ReduceArgs>;
  stages.reduce_many = in_parts<ReduceManyArgs>;
  stages.dequantize = in_parts<DequantizeArgs>;
  return stages;
}

class SplitStages : public testing::TestWithParam<uint32_t> {
 protected:
  void SetUp() override {
    ASSERT_TRUE(test::succeeds(workers_.start(GetParam(), 0, kOperandsMax)));
    endpoint_.stages = stages_here().front();
    endpoint_.workers = &workers_;
    endpoint = &endpoint_;
  }

  template <typename Job>
  void expect_equal(const std::string& what, Job job) {
    const Stages in_parts_of_them = split_stages();
    Outcome whole(*endpoint_.stages), split(in_parts_of_them);
    job(whole);
    job(split);
    EXPECT_TRUE(split.intact()) << what << ": wrote outside its buffer";
    EXPECT_TRUE(split.bytes() == whole.bytes()) << what << ", " << GetParam() << " threads";
  }

  void expect_equal_codes(const Coding& coding) {
    const uint64_t first_value = 3 * uint64_t{65536};
    for (const size_t count : {size_t{16384}, size_t{33000}, kMostValues}) {
      const Place place{first_value, count, count % 4};
      const std::string what = describe(coding) + place_text(place);
      for (const int32_t dtype : {GQSGD_FLOAT32, GQSGD_BFLOAT16}) {
        expect_equal("codes of " + what, [&](Outcome& outcome) {
          outcome.quantize(coding, dtype, place, 1);
          outcome.dequantize(coding, dtype, GQSGD_MEAN, place, 1);
        });
      }
      expect_equal("sums of " + what, [&](Outcome& outcome) {
        if (!coding.wide) return outcome.reduce(coding, place, 1, 2);
        outcome.reduce_many(coding, place, coding.bits == coding.bits_down);
        outcome.reduce_many(coding, place, false, {1, 2});
        const bool has_scales = coding.levels == Levels::linear && coding.rescale;
        if (has_scales && coding.bits == coding.bits_down) {
          outcome.scaled_means(coding, place, {1, 2});
        }
      });
    }
  }

  static constexpr uint32_t kOperandsMax = 3;
  Workers workers_;
  Endpoint endpoint_;
};

Coding coding_with(Format format, uint32_t block, Rotate rotate, uint32_t reduction_depth) {
  format.block = block;
  format.rotate = rotate;
  format.rescale = block > 0 && reduction_depth == 0;
  format.rounding = Rounding::correlated;
  if (format.rescale && format.levels == Levels::linear) {
    format.rounding_down = RoundingDown::subtractive;
  }
  return coding_of(format, 3, reduction_depth);
}

Format format_of(Levels levels, uint8_t bits, uint8_t bits_down) {
  Format format;
  format.levels = levels;
  format.bits = bits;
  format.bits_down = bits_down;
  format.combine = levels == Levels::linear || bits == 4 ? Combine::average : Combine::sum;
  return format;
}

TEST_P(SplitStages, Formats_SameBits) {
  for (const uint32_t reduction_depth : {0u, 2u}) {
    for (const Coding& coding : code_formats(3, reduction_depth)) expect_equal_codes(coding);
  }
  for (const Rotate rotate : {Rotate::none, Rotate::hadamard}) {
    for (const uint32_t block : {0u, 64u, 4096u}) {
      for (const uint32_t reduction_depth : {0u, 2u}) {
        for (const Levels levels : {Levels::linear, Levels::exponential}) {
          const uint8_t down = reduction_depth == 0 ? 8 : 4;
          expect_equal_codes(
              coding_with(format_of(levels, 4, down), block, rotate, reduction_depth));
          expect_equal_codes(coding_with(format_of(levels, 8, 8), block, rotate, reduction_depth));
        }
      }
    }
  }
}

TEST_P(SplitStages, Floats_SameBits) {
  for (const uint32_t reduction_depth : {0u, 2u}) {
    expect_equal_codes(coding_of(format_of(Levels::none, 32, 32), 3, reduction_depth));
  }
}

TEST_P(SplitStages, Norms_SameBits) {
  for (const bool rotated : {false, true}) {
    for (const size_t count : {size_t{0}, size_t{40000}, kMostValues}) {
      for (const uint32_t block : {0u, 128u, 2048u, 65536u}) {
        expect_equal("norm of blocks of " + std::to_string(block), [&](Outcome& outcome) {
          outcome.norm(NormOrder::inf, block, rotated, GQSGD_FLOAT32, {131072, count, count % 4});
        });
      }
    }
  }
}

/** Values whose sum depends on the order of additions: of very different sizes. */
std::vector<float> uneven_values(size_t value_count) {
  std::mt19937 engine(7);
  std::lognormal_distribution<float> size(0, 6);
  std::vector<float> values(value_count);
  for (float& value : values) value = size(engine);
  return values;
}

// Ranges begin anywhere in a group where tensors of many lengths make one call; the longest has
// more groups than are added at once.
TEST_P(SplitStages, Norms_AddedInOneOrder) {
  constexpr uint64_t kGroup = 65536;
  const std::vector<float> values = uneven_values(560 * kGroup + 77);
  for (const NormOrder q : {NormOrder::one, NormOrder::two}) {
    for (const bool rotated : {false, true}) {
      for (const uint64_t first_value : {uint64_t{0}, kGroup - 1024, 5 * kGroup + 4096}) {
        for (const size_t count : {2 * kGroup, 3 * kGroup + 1, values.size()}) {
          if (count == values.size() && (rotated || first_value == 0)) continue;
          double whole = -1, split = -2;
          NormArgs args{};
          args.q = q;
          args.rotated = rotated;
          args.range = {first_value, count};
          args.values = values.data();
          args.out = &whole;
          ASSERT_FALSE(failed(endpoint_.stages->norm(args)));
          args.out = &split;
          ASSERT_TRUE(run_stage(endpoint_, args).ok());
          EXPECT_EQ(whole, split) << count << " values from " << first_value;
        }
      }
    }
  }
}

TEST_P(SplitStages, RefusedPart_Reported) {
  Stages refusing = *endpoint_.stages;
  refusing.reduce = [](const ReduceArgs& args) {
    return args.range.first_value == 0 ? StageError{"reduce", 7, "kNo", "not today"} : StageError();
  };
  endpoint_.stages = &refusing;
  ReduceArgs args{};
  args.coding = code_formats(3, 2)[0];
  args.range = {0, 100000};
  std::vector<uint32_t> words(25000);
  args.a = args.b = words.data();
  const Status refused = run_stage(endpoint_, args);
  EXPECT_EQ(refused.code(), GQSGD_BACKEND);
  EXPECT_STREQ(refused.sentence(), "reduce: CUDA error 7 (kNo): not today");
  args.range.first_value = 1024;
  EXPECT_EQ(run_stage(endpoint_, args).code(), GQSGD_OK);
}

INSTANTIATE_TEST_SUITE_P(Threads, SplitStages, testing::Values(1, 2, 3, 7));

}  // namespace
}  // namespace gq::test
