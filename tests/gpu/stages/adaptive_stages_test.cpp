// Stages of adaptive widths on whole groups against those of a CPU, bit for bit: every element
// type, tails, memory that is not aligned, tensors that share groups, slices, poisoned blocks.
#include <string.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "kernels/codec/block_norm.h"
#include "src/schedule/move.h"
#include "tests/gpu/stages/group_sides.h"
#include "tests/support/inputs.h"
#include "tests/unit/kernels/support/outcome.h"

namespace gq::test {
namespace {

using Codes = std::vector<uint16_t>;

/** A call, and how its stages are called. */
struct Case {
  uint64_t value_count;
  int32_t dtype = GQSGD_FLOAT32;
  uint8_t mean_half_bits = 8;
  uint32_t ranks = 3;
  Rounding rounding = Rounding::correlated;
  bool rescale = true;
  bool subtractive = false;
  bool slice = false;  ///< else an allreduce
  size_t offset = 0;  ///< elements from aligned memory
  std::vector<uint64_t> tensors = {};
  uint64_t groups_of_piece = 0;  ///< 0: one piece
  int32_t op = GQSGD_MEAN;
  std::vector<uint32_t> nodes = {};  ///< operands are means of nodes of so many ranks
};

Coding coding_of(const Case& test) {
  Format format;
  format.block = kAdaptiveBlock;
  format.mean_half_bits = test.mean_half_bits;
  format.rounding = test.rounding;
  format.rounding_down = test.subtractive ? RoundingDown::subtractive : RoundingDown::random;
  format.rescale = test.rescale;
  uint32_t ranks = 0;
  for (const uint32_t count : test.nodes) ranks += count;
  return gq::coding_of(format, test.nodes.empty() ? test.ranks : ranks, 0);
}

/** Values of blocks of every size: zeros, NaN, infinity, denormals, the largest ones. */
float value_at(uint64_t seed, uint64_t e) {
  const uint64_t block = mix(seed + e / kAdaptiveBlock), kind = block % 23;
  const double normal = normal_at(seed, e);
  if (kind == 0) return e % 2 == 0 ? 0.0f : -0.0f;
  if (kind == 1) return e % kAdaptiveBlock == block % 128 ? NAN : 1.0f;
  if (kind == 2) return e % kAdaptiveBlock == 5 ? -INFINITY : 2.0f;
  if (kind == 3) return static_cast<float>(std::ldexp(normal, -140));
  if (kind == 4) return static_cast<float>(std::ldexp(uniform_at(seed, e) - 0.5, 128));
  return static_cast<float>(std::ldexp(normal, static_cast<int>(block >> 8 & 15) - 8));
}

/** All that the stages of a call make. */
struct Made {
  Codes norms, scales;
  std::vector<Words> words;
  Words sums;
  Bytes result;

  bool operator==(const Made&) const = default;
};

/** One call on one side. */
template <typename Side>
class CallStages : GroupCall<Side, Case> {
  using Base = GroupCall<Side, Case>;
  using Base::buffer_bytes_, Base::coding_, Base::end_, Base::test_;
  using Base::operand_lists, Base::site, Base::values_at;

 public:
  explicit CallStages(const Case& test) : Base(test, coding_of(test), kAdaptiveBlock) {}

  Made make() const {
    const size_t blocks = divided_up(end_, kAdaptiveBlock);
    const size_t words = words_for(coding_.packing(), end_);
    Made made{Codes(blocks), Codes(blocks, 0xA5A5), {}, Words(words, 0x5A5A5A5Au),
              Bytes(buffer_bytes_, 0x5A)};
    std::vector<Bytes> values;
    for (uint32_t rank = 0; rank < test_.ranks; ++rank) {
      values.push_back(
          Base::values_of([&](uint64_t e) { return value_at(rank % 2, e); }));
      // Devices make norms behind the call's last value 0; nothing does on a CPU, nor looks there.
      Codes own(blocks, std::is_same_v<Side, DeviceSide> ? 0xA5A5 : 0);
      take_norms(values[rank], own);
      for (size_t b = 0; b < blocks; ++b) made.norms[b] = std::max(made.norms[b], own[b]);
    }
    for (uint32_t rank = 0; rank < test_.ranks; ++rank) {
      made.words.push_back(Words(words, 0xA5A5A5A5u));
      quantize(rank, values[rank], made.norms, made.words[rank]);
    }
    if (test_.nodes.empty()) {
      reduce_many(made);
    } else {
      add_means(made);
    }
    if (!test_.rescale) made.scales = made.norms;
    dequantize(made);
    return made;
  }

 private:
  /** Arguments of each piece: make(range, blocks before it, words before it). */
  template <typename Make>
  void run(Side& side, const void* send, void* recv, Make make) const {
    Base::run(side, send, recv, [&](const Range& range) {
      return make(range, range.first_value / kAdaptiveBlock,
                  words_for(coding_.packing(), range.first_value));
    });
  }

  void take_norms(const Bytes& values, Codes& norms) const {
    Side side;
    const uint8_t* const from = side.place(values.data(), values.size());
    uint16_t* const to = side.place(norms.data(), 2 * norms.size());
    run(side, from, nullptr, [&](const Range& range, size_t blocks, size_t) {
      NormArgs args{};
      args.block = kAdaptiveBlock;
      args.range = range;
      args.values = values_at(from, range);
      args.dtype = test_.dtype;
      args.out = to + blocks;
      return args;
    });
  }

  void quantize(uint32_t rank, const Bytes& values, const Codes& norms, Words& words) const {
    Side side;
    const uint8_t* const from = side.place(values.data(), values.size());
    const uint16_t* const norm = side.place(norms.data(), 2 * norms.size());
    uint32_t* const to = side.place(words.data(), 4 * words.size());
    run(side, from, nullptr, [&](const Range& range, size_t blocks, size_t before) {
      return QuantizeArgs{coding_,     site(rank, 0), range, values_at(from, range), test_.dtype,
                          {nullptr, norm + blocks}, to + before, nullptr};
    });
  }

  void reduce_many(Made& made) const {
    Side side;
    uint32_t* const to = side.place(made.sums.data(), 4 * made.sums.size());
    uint16_t* const scales = side.place(made.scales.data(), 2 * made.scales.size());
    run_sums(side, made, operand_lists(side, made.words), to, test_.rescale ? scales : nullptr,
             [](ReduceManyArgs*, size_t, size_t) {});
  }

  /** more(arguments of a piece, blocks before it, words before it). */
  template <typename More>
  void run_sums(Side& side, const Made& made, const std::vector<const uint32_t*>& lists,
                uint32_t* to, uint16_t* scales, More more) const {
    const uint16_t* const norm = side.place(made.norms.data(), 2 * made.norms.size());
    const uint32_t* const* list =
        side.place(lists.data(), lists.size() * sizeof lists[0]);
    const std::vector<uint64_t> weights(test_.nodes.begin(), test_.nodes.end());
    const uint64_t* const weights_there =
        weights.empty() ? nullptr
                        : side.place(weights.data(), weights.size() * sizeof weights[0]);
    run(side, nullptr, nullptr, [&](const Range& range, size_t blocks, size_t before) {
      ReduceManyArgs args{coding_, site(1, 1), range, list, {nullptr, norm + blocks},
                          to + before, scales == nullptr ? nullptr : scales + blocks, nullptr};
      args.device_weights = weights_there;
      more(&args, blocks, before);
      list += test_.ranks;
      return args;
    });
  }

  /** Codes of ranks as those of means, with scales behind them; the sum is where the last one
   *  is. */
  void add_means(Made& made) const {
    Side side;
    const size_t words = made.sums.size(), blocks = made.scales.size();
    std::vector<Words> operands = made.words;
    for (size_t k = 0; k < operands.size(); ++k) {
      Codes own(blocks);
      for (size_t b = 0; b < blocks; ++b) {
        const uint64_t draw = mix(blocks * 31 + k * 977 + b);
        const uint16_t edges[] = {0, kNormCodeNan, kNormCodeMax, 1};
        own[b] = draw % 64 < 4 ? edges[draw % 64] : static_cast<uint16_t>(0x4000 - draw / 64 % 512);
      }
      operands[k].resize(words + (blocks + 1) / 2);
      memcpy(operands[k].data() + words, own.data(), 2 * blocks);
    }
    const std::vector<const uint32_t*> lists = operand_lists(side, operands);
    Words& last = operands.back();
    uint32_t* const to = side.place(last.data(), 4 * last.size());
    auto* const scales = reinterpret_cast<uint16_t*>(to + words);
    run_sums(side, made, lists, to, scales, [&](ReduceManyArgs* args, size_t blocks_before,
                                                size_t words_before) {
      args->weights = test_.nodes.data();
      args->weight_count = static_cast<uint32_t>(test_.nodes.size());
      args->operand_scales_bytes = 4 * (words - words_before) + 2 * blocks_before;
    });
    std::copy_n(last.begin(), words, made.sums.begin());
    memcpy(made.scales.data(), last.data() + words, 2 * blocks);
  }

  void dequantize(Made& made) const {
    Side side;
    const uint32_t* const words = side.place(std::as_const(made.sums).data(), 4 * made.sums.size());
    const uint16_t* const norm =
        side.place(std::as_const(made.norms).data(), 2 * made.norms.size());
    const uint16_t* const scales =
        side.place(std::as_const(made.scales).data(), 2 * made.scales.size());
    uint8_t* const to = side.place(made.result.data(), made.result.size());
    run(side, nullptr, to, [&](const Range& range, size_t blocks, size_t before) {
      DequantizeArgs args{};
      args.coding = coding_;
      args.random = site(0, 0);
      args.range = range;
      args.words = words + before;
      args.scales = {nullptr, scales + blocks};
      args.norms = {nullptr, norm + blocks};
      args.dtype = test_.dtype;
      args.op = test_.op;
      args.values = values_at(to, range);
      return args;
    });
  }
};

void expect_bits_of_the_host(const Case& test) {
  const Made host = CallStages<HostSide>(test).make(), device = CallStages<DeviceSide>(test).make();
  const std::string what = std::to_string(test.value_count) + " values of type " +
                           std::to_string(test.dtype) + ", " +
                           std::to_string(test.mean_half_bits) + " half bits, " +
                           std::to_string(test.ranks) + " ranks, " +
                           std::to_string(test.tensors.size()) + " tensors";
  EXPECT_TRUE(device.norms == host.norms) << what << ": norms";
  EXPECT_TRUE(device.words == host.words) << what << ": codes";
  EXPECT_TRUE(device.sums == host.sums) << what << ": sums";
  EXPECT_TRUE(device.scales == host.scales) << what << ": scales";
  EXPECT_TRUE(device.result == host.result) << what << ": values";
}

TEST(AdaptiveStages, EveryTypeAndAlignment_BitsOfTheHost) {
  for (const int32_t dtype : kDtypes) {
    for (const size_t offset : {0, 1, 3}) {
      expect_bits_of_the_host({.value_count = 9001, .dtype = dtype, .offset = offset});
    }
  }
}

TEST(AdaptiveStages, Tails_BitsOfTheHost) {
  for (const uint64_t count : {1, 15, 16, 17, 127, 128, 129, 1023, 1025, 8193, 32768, 70001}) {
    expect_bits_of_the_host({.value_count = count, .ranks = 2});
    expect_bits_of_the_host({.value_count = count, .ranks = 2, .slice = true});
  }
}

TEST(AdaptiveStages, EveryMean_BitsOfTheHost) {
  for (uint8_t half_bits = kMeanHalfBitsMin; half_bits <= kMeanHalfBitsMax; ++half_bits) {
    expect_bits_of_the_host({.value_count = 20011, .mean_half_bits = half_bits});
  }
}

TEST(AdaptiveStages, EveryRounding_BitsOfTheHost) {
  for (const Rounding rounding : {Rounding::independent, Rounding::correlated, Rounding::nearest}) {
    for (const bool rescale : {false, true}) {
      for (const int32_t op : {GQSGD_MEAN, GQSGD_SUM}) {
        expect_bits_of_the_host({.value_count = 5000, .dtype = GQSGD_BFLOAT16,
                                 .rounding = rounding, .rescale = rescale, .op = op});
      }
      expect_bits_of_the_host({.value_count = 5000, .rounding = rounding, .rescale = rescale,
                               .subtractive = rounding != Rounding::nearest});
    }
  }
}

TEST(AdaptiveStages, TensorsThatShareGroups_BitsOfTheHost) {
  const std::vector<uint64_t> tensors = {1, 0, 300, 128, 5000, 127, 0, 2049, 9000, 0};
  for (const int32_t dtype : kDtypes) {
    expect_bits_of_the_host({.value_count = 0, .dtype = dtype, .tensors = tensors});
    expect_bits_of_the_host({.value_count = 0, .dtype = dtype, .offset = 1, .tensors = tensors,
                             .groups_of_piece = 1});
  }
}

TEST(AdaptiveStages, PiecesInOneLaunch_BitsOfTheHost) {
  for (const uint64_t groups : {1, 2, 5}) {
    expect_bits_of_the_host({.value_count = 100003, .ranks = 4, .groups_of_piece = groups});
    expect_bits_of_the_host({.value_count = 100003, .ranks = 1, .slice = true,
                             .groups_of_piece = groups});
  }
}

// More tiles than a device runs at once: a block of threads has tiles of several groups and pieces.
TEST(AdaptiveStages, ManyGroups_BitsOfTheHost) {
  for (const uint64_t groups : {0, 5}) {
    expect_bits_of_the_host({.value_count = 2000003, .ranks = 2, .groups_of_piece = groups});
  }
}

TEST(AdaptiveStages, MeansOfNodes_BitsOfTheHost) {
  for (const std::vector<uint32_t>& nodes : {std::vector<uint32_t>{8, 8}, {3, 1, 5}}) {
    const auto count = static_cast<uint32_t>(nodes.size());
    for (const uint8_t half_bits : {5, 8, 16}) {
      expect_bits_of_the_host({.value_count = 20011, .mean_half_bits = half_bits, .ranks = count,
                               .nodes = nodes});
    }
    for (const Rounding rounding : {Rounding::independent, Rounding::nearest}) {
      expect_bits_of_the_host({.value_count = 70001, .ranks = count, .rounding = rounding,
                               .subtractive = rounding != Rounding::nearest,
                               .groups_of_piece = 1, .nodes = nodes});
    }
    expect_bits_of_the_host({.value_count = 0, .ranks = count,
                             .tensors = {1, 0, 300, 128, 5000, 127, 0, 2049, 9000, 0},
                             .nodes = nodes});
  }
  expect_bits_of_the_host({.value_count = 1000, .ranks = 40,
                           .nodes = std::vector<uint32_t>(40, 3)});
}

// Planes of sums carry into the ninth one and beyond; more ranks are added in numbers.
TEST(AdaptiveStages, ManyRanks_BitsOfTheHost) {
  for (const uint32_t ranks : {1, 17, 255, 256, 257, 300}) {
    expect_bits_of_the_host({.value_count = 400, .mean_half_bits = 16, .ranks = ranks});
  }
}

}  // namespace
}  // namespace gq::test
