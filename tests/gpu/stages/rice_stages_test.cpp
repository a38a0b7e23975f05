// Stages of Rice codes on whole groups against those of a CPU, bit for bit: every element type,
// tails, memory that is not aligned, tensors that share groups, slices, poisoned cells, words that
// no encoder writes, codes that do not fit.
#include <string.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <utility>

#include "kernels/codec/rice.h"
#include "src/schedule/move.h"
#include "tests/gpu/stages/group_sides.h"
#include "tests/support/inputs.h"
#include "tests/unit/kernels/support/outcome.h"

namespace gq::test {
namespace {

using ValueOf = std::function<float(uint32_t rank, uint64_t e)>;

/** Values of cells of every size: zeros, NaN, infinity, denormals, the largest ones. */
float mixed_value(uint32_t rank, uint64_t e) {
  const uint64_t cell = mix(rank % 2 + e / kRiceCell), kind = cell % 61;
  const double normal = normal_at(rank % 2, e);
  if (kind == 0) return e % 2 == 0 ? 0.0f : -0.0f;
  if (kind == 1) return e % kRiceCell == cell % 32 ? NAN : 1.0f;
  if (kind == 2) return e % kRiceCell == 5 ? -INFINITY : 2.0f;
  if (kind == 3) return static_cast<float>(std::ldexp(normal, -140));
  return static_cast<float>(std::ldexp(normal, static_cast<int>(cell >> 8 & 3)));
}

/** A call, and how its stages are called. */
struct Case {
  uint64_t value_count;
  int32_t dtype = GQSGD_FLOAT32;
  uint8_t mean_half_bits = 8;
  uint32_t ranks = 3;
  Rounding rounding = Rounding::correlated;
  bool slice = false;  ///< else an allreduce
  size_t offset = 0;   ///< elements from aligned memory
  std::vector<uint64_t> tensors = {};
  uint64_t groups_of_piece = 0;  ///< 0: one piece
  int32_t op = GQSGD_MEAN;
  ValueOf value = mixed_value;
  /** Changes what a rank has encoded. */
  std::function<void(uint32_t rank, Words& words)> change = nullptr;
};

/** All that the stages of a call make. In a slice the sums of codes are values alone. */
struct Made {
  std::vector<Words> words;
  Words sums;
  std::vector<float> values;  ///< sums, in the order of groups
  Bytes result;
};

Coding coding_of(const Case& test) {
  Format format;
  format.levels = Levels::rice;
  format.mean_half_bits = test.mean_half_bits;
  format.rounding = test.rounding;
  return gq::coding_of(format, test.ranks, 0);
}

/** One call on one side. */
template <typename Side>
class CallStages : GroupCall<Side, Case> {
  using Base = GroupCall<Side, Case>;
  using Base::buffer_bytes_, Base::coding_, Base::end_, Base::groups_, Base::test_;
  using Base::operand_lists, Base::run, Base::site, Base::values_at;

 public:
  explicit CallStages(const Case& test) : Base(test, coding_of(test), kValueAlignment) {}

  Made make() const {
    Made made{{},
              Words(words_for(coding_.packing_down(), end_), 0x5A5A5A5Au),
              std::vector<float>(divided_up(end_, groups_.group_values) * groups_.group_values),
              Bytes(buffer_bytes_, 0x5A)};
    for (uint32_t rank = 0; rank < test_.ranks; ++rank) {
      made.words.push_back(Words(words_for(coding_.packing(), end_), 0xA5A5A5A5u));
      quantize(rank, made.words[rank]);
      if (test_.change != nullptr) test_.change(rank, made.words[rank]);
    }
    reduce_many(made);
    dequantize(made, test_.slice ? made.words[0] : made.sums);
    return made;
  }

 private:
  void quantize(uint32_t rank, Words& words) const {
    Side side;
    const Bytes values =
        Base::values_of([&](uint64_t e) { return test_.value(rank, e); });
    const uint8_t* const from = side.place(values.data(), values.size());
    uint32_t* const to = side.place(words.data(), 4 * words.size());
    run(side, from, nullptr, [&](const Range& range) {
      QuantizeArgs args{};
      args.coding = coding_;
      args.random = site(rank, 0);
      args.range = range;
      args.values = values_at(from, range);
      args.dtype = test_.dtype;
      args.words = to + words_for(coding_.packing(), range.first_value);
      return args;
    });
  }

  void reduce_many(Made& made) const {
    Side side;
    uint32_t* const to = side.place(made.sums.data(), 4 * made.sums.size());
    float* const sums = side.place(made.values.data(), 4 * made.values.size());
    const std::vector<const uint32_t*> lists = operand_lists(side, made.words);
    const uint32_t* const* list =
        side.place(lists.data(), lists.size() * sizeof lists[0]);
    run(side, nullptr, nullptr, [&](const Range& range) {
      ReduceManyArgs args{};
      args.coding = coding_;
      args.random = site(1, 1);
      args.range = range;
      args.words = list;
      if (!test_.slice) args.out_words = to + words_for(coding_.packing_down(), range.first_value);
      args.sums = sums + range.first_value;
      list += test_.ranks;
      return args;
    });
  }

  void dequantize(Made& made, const Words& codes) const {
    Side side;
    const uint32_t* const words = side.place(codes.data(), 4 * codes.size());
    uint8_t* const to = side.place(made.result.data(), made.result.size());
    run(side, nullptr, to, [&](const Range& range) {
      DequantizeArgs args{};
      args.coding = coding_;
      args.random = site(0, 0);
      args.range = range;
      args.words = words + words_for(coding_.packing_down(), range.first_value);
      args.dtype = test_.dtype;
      args.op = test_.op;
      args.values = values_at(to, range);
      return args;
    });
  }
};

/** NaN has one pattern where values leave the stages. */
bool are_same(const std::vector<float>& a, const std::vector<float>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](float one, float other) {
    return (one != one && other != other) || float_bits(one) == float_bits(other);
  });
}

Made expect_bits_of_the_host(const Case& test) {
  const Made host = CallStages<HostSide>(test).make(), device = CallStages<DeviceSide>(test).make();
  const std::string what = std::to_string(test.value_count) + " values of type " +
                           std::to_string(test.dtype) + ", " +
                           std::to_string(test.mean_half_bits) + " half bits, " +
                           std::to_string(test.ranks) + " ranks, " +
                           std::to_string(test.tensors.size()) + " tensors";
  EXPECT_TRUE(device.words == host.words) << what << ": codes";
  EXPECT_TRUE(are_same(device.values, host.values)) << what << ": values of sums";
  EXPECT_TRUE(device.sums == host.sums) << what << ": sums";
  EXPECT_TRUE(device.result == host.result) << what << ": values";
  return host;
}

TEST(RiceStages, EveryTypeAndAlignment_BitsOfTheHost) {
  for (const int32_t dtype : kDtypes) {
    for (const size_t offset : {0, 1}) {
      expect_bits_of_the_host({.value_count = 5001, .dtype = dtype, .offset = offset});
    }
  }
}

TEST(RiceStages, Tails_BitsOfTheHost) {
  for (const uint64_t count : {1, 31, 32, 33, 257, 1023, 1025, 8193, 40001}) {
    expect_bits_of_the_host({.value_count = count, .ranks = count % 2 == 0 ? 1u : 2u});
    expect_bits_of_the_host({.value_count = count, .ranks = 2, .slice = true});
  }
}

TEST(RiceStages, EveryMean_BitsOfTheHost) {
  for (uint8_t half_bits = kMeanHalfBitsMin; half_bits <= kMeanHalfBitsMax; half_bits += 2) {
    expect_bits_of_the_host({.value_count = 4011, .mean_half_bits = half_bits});
  }
}

TEST(RiceStages, EveryRounding_BitsOfTheHost) {
  for (const Rounding rounding : {Rounding::independent, Rounding::correlated, Rounding::nearest}) {
    for (const int32_t op : {GQSGD_MEAN, GQSGD_SUM}) {
      expect_bits_of_the_host(
          {.value_count = 3000, .dtype = GQSGD_BFLOAT16, .rounding = rounding, .op = op});
    }
  }
}

TEST(RiceStages, TensorsThatShareGroups_BitsOfTheHost) {
  const std::vector<uint64_t> tensors = {1, 0, 300, 128, 3000, 127, 0, 1049, 4000, 0};
  for (const int32_t dtype : kDtypes) {
    expect_bits_of_the_host(
        {.value_count = 0, .dtype = dtype, .offset = 1, .tensors = tensors, .groups_of_piece = 1});
  }
}

TEST(RiceStages, PiecesInOneLaunch_BitsOfTheHost) {
  expect_bits_of_the_host({.value_count = 70003, .ranks = 4, .groups_of_piece = 1});
  expect_bits_of_the_host({.value_count = 70003, .ranks = 1, .slice = true, .groups_of_piece = 1});
}

TEST(RiceStages, ManyRanks_BitsOfTheHost) {
  for (const uint32_t ranks : {4, 5, 17}) {
    expect_bits_of_the_host({.value_count = 700, .mean_half_bits = 16, .ranks = ranks});
  }
}

TEST(RiceStages, GroupsWithoutCodes_BitsOfTheHost) {
  const ValueOf values[] = {[](uint32_t, uint64_t) { return 0.0f; },
                            [](uint32_t, uint64_t) { return NAN; },
                            [](uint32_t, uint64_t e) { return e == 40 ? NAN : -0.0f; },
                            [](uint32_t, uint64_t e) { return e == 40 ? 1e38f : 1e-38f; },
                            [](uint32_t, uint64_t e) { return e % 2 ? 3e38f : -3e38f; }};
  for (const ValueOf& value : values) {
    expect_bits_of_the_host({.value_count = 2100, .value = value});
  }
}

/** Words change one after the other, and all of a message. */
TEST(RiceStages, WordsThatNoEncoderWrites_ReadAsByTheHost) {
  for (uint32_t seed = 0; seed < 60; ++seed) {
    const auto change = [seed](uint32_t rank, Words& words) {
      const uint64_t random = mix(seed * 97 + rank);
      const size_t at = random % words.size();
      if (seed % 4 == 0) words[at] = static_cast<uint32_t>(random >> 32);
      if (seed % 4 == 1) words[at] ^= 1u << (random >> 40) % 32;
      if (seed % 4 == 2) words[1 + at % 9] = static_cast<uint32_t>(random >> 32);
      if (seed == 3) std::fill(words.begin(), words.end(), 0u);
      if (seed == 7) std::fill(words.begin(), words.end(), ~0u);
      if (seed == 11) std::fill(words.begin() + 1, words.end(), 0xddddddddu);
      if (seed % 4 == 3 && seed > 11) {
        for (size_t k = 0; k < words.size(); ++k) {
          words[k] = static_cast<uint32_t>(mix(random + k)) & static_cast<uint32_t>(mix(k));
        }
      }
    };
    expect_bits_of_the_host({.value_count = 2500, .ranks = 2, .change = change});
    expect_bits_of_the_host({.value_count = 2500, .ranks = 1, .slice = true, .change = change});
  }
}

/** Values that are all rounded away from 0: each is just beyond its threshold, if the step is 1. */
float value_above_threshold(double spread, uint64_t e) {
  const RandomStream stream = random_stream(0x1234567890u, 5, 9, Draw::quantize, 0, 0);
  const PhiloxBlock block = random_group(stream, e / kGroupValues);
  const uint32_t bits = value_bits(block.word[e % kGroupValues / kWordValues],
                                   static_cast<uint32_t>(e));
  const uint32_t threshold = mirrored_uniform_of<false>(bits, ~0u);  // of a value above 0
  const double low = std::floor(spread * std::fabs(normal_at(3, e)));
  const double part = std::min((threshold + 64.0) * 0x1p-23, 1 - 0x1p-18);
  return static_cast<float>(low + part);
}

/** Random roundings of such values need more bits than a look at any values expects. */
TEST(RiceStages, CodesThatDoNotFit_AllTowardZero) {
  constexpr uint32_t kStepOne = 0x3f80;
  double low = 0.5, high = 64;
  bool found = false;
  for (int look = 0; look < 40 && !found; ++look) {
    const double spread = (low + high) / 2;
    const ValueOf value = [spread](uint32_t, uint64_t e) {
      return value_above_threshold(spread, e);
    };
    const Case test{.value_count = 8192, .ranks = 1, .rounding = Rounding::independent,
                    .value = value};
    const Made host = CallStages<HostSide>(test).make();
    const uint32_t step = host.words[0][0];
    (step < kStepOne ? low : high) = spread;
    if (step != kStepOne) continue;
    found = true;
    expect_bits_of_the_host(test);
    for (uint64_t e = 0; e < 8192; ++e) {
      ASSERT_EQ(host.values[e], std::floor(value(0, e))) << "value " << e;
    }
  }
  EXPECT_TRUE(found) << "no values have the step 1";
}

}  // namespace
}  // namespace gq::test
