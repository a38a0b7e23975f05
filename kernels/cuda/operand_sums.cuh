// Wide sums: where their operands are, what each stands for, and their codes added as numbers.
#ifndef GQ_KERNELS_CUDA_OPERAND_SUMS_CUH
#define GQ_KERNELS_CUDA_OPERAND_SUMS_CUH

#include "kernels/codec/norm.h"
#include "kernels/cuda/decode.cuh"

namespace gq::cuda {

/** The operands' words, one for each rank, as arguments of a kernel. */
struct OperandList {
  const uint32_t* words[kOperandArgumentsMax];

  explicit OperandList(const ReduceManyArgs& args) {
    for (uint32_t k = 0; k < kOperandArgumentsMax; ++k) {
      words[k] = are_arguments(args) && k < operand_count(args) ? args.operands[k] : nullptr;
    }
  }
  GQ_DEVICE static float weight_of(uint32_t) { return 1; }
};

/** The same with what each counts: the ranks that it stands for, 1 where there are no weights, or,
 *  of means that have scales of their own, what a step counts. */
template <bool kOwnScales>
struct WeightedOperandList : OperandList {
  float weight[kOperandArgumentsMax];
  const uint64_t* weights;  ///< of the device's memory, if there are more
  uint32_t ranks, steps;

  explicit WeightedOperandList(const ReduceManyArgs& args)
      : OperandList(args),
        weights(operand_count(args) > kOperandArgumentsMax ? args.device_weights : nullptr),
        ranks(args.coding.ranks),
        steps(args.coding.steps) {
    for (uint32_t k = 0; k < kOperandArgumentsMax; ++k) {
      const bool has_weight = weights == nullptr && k < args.weight_count;
      weight[k] = has_weight ? counted(args.weights[k]) : 1;
    }
  }
  GQ_HD float counted(uint32_t rank_count) const {
    return kOwnScales ? mean_weight(rank_count, ranks, steps) : static_cast<float>(rank_count);
  }
  GQ_DEVICE float weight_of(uint32_t k) const {
    if (weights != nullptr) return counted(static_cast<uint32_t>(__ldg(weights + k)));
    return weight[k % kOperandArgumentsMax];
  }
};
using RankWeights = WeightedOperandList<false>;
using MeanWeights = WeightedOperandList<true>;

/** Where the operands of one piece are: as far behind those of the list, or, if there are more than
 *  it holds, in an array of the device's memory. */
struct Operands {
  const uint32_t* first;
  const uint32_t* const* array;
  uint32_t count;
  bool vectors;  ///< those of the list are where vectors are if the first one is

  explicit Operands(const ReduceManyArgs& args)
      : first(are_arguments(args) ? args.operands[0] : nullptr),
        array(args.words),
        count(operand_count(args)),
        vectors(first != nullptr) {
    for (uint32_t k = 1; vectors && k < count; ++k) {
      const uintptr_t behind = reinterpret_cast<uintptr_t>(args.operands[k]) -
                               reinterpret_cast<uintptr_t>(first);
      vectors = behind % 16 == 0;
    }
  }

  GQ_HD void set(const void* piece) {
    if (first != nullptr) {
      first = static_cast<const uint32_t*>(piece);
    } else {
      array = static_cast<const uint32_t* const*>(piece);
    }
  }

  GQ_DEVICE const uint32_t* words_of(const OperandList& list, uint32_t k) const {
    // By an instruction of its own kind: a pointer to either place would be a generic one.
    const auto from_array = [&] {
      return reinterpret_cast<const uint32_t*>(
          __ldg(reinterpret_cast<const unsigned long long*>(array + k)));
    };
    const uint32_t* const words =
        first != nullptr ? list.words[k] + (first - list.words[0]) : from_array();
    assume_global(words);
    return words;
  }

  /** Calls `add(word, k)` with the words of one operand k after the other, in their order. Loads of
   *  kAtOnce operands are under way together while there are so many, then of half as many. */
  template <uint32_t kBits, typename Add>
  GQ_DEVICE void each(const OperandList& list, uint32_t begin, uint32_t end, const Place& place,
                      Add add) const {
    constexpr uint32_t kWords = kThreadWords<kBits>, kAtOnce = 16 / kWords;
    uint32_t k = begin;
    if (vectors && is_aligned(first, 16) && place.code_count == kThreadValues) {
      const ptrdiff_t behind = first - list.words[0] + place.offset / codes_per_word(kBits);
      while (k + kAtOnce <= end) each_of<kAtOnce, kWords>(list, behind, k, add);
      if (k + kAtOnce / 2 <= end) each_of<kAtOnce / 2, kWords>(list, behind, k, add);
      if (kAtOnce == 8 && k + 2 <= end) each_of<2, kWords>(list, behind, k, add);
    }
    for (; k < end; ++k) {
      uint32_t word[kWords];
      load_words<kBits>(word_buffer<kBits>(words_of(list, k)), place.offset, place.code_count,
                        word);
      add(word, k);
    }
  }

 private:
  /** kCount operands from `next` on, which it advances: no test for each of them. */
  template <uint32_t kCount, uint32_t kWords, typename Add>
  GQ_DEVICE static void each_of(const OperandList& list, ptrdiff_t behind, uint32_t& next,
                                Add add) {
    uint32_t word[kCount][kWords];
    GQ_UNROLL for (uint32_t n = 0; n < kCount; ++n) {
      const uint32_t* const from = list.words[next + n] + behind;
      assume_global(from);
      const Vector<kWords> loaded = load_vector<kWords>(from);
      GQ_UNROLL for (uint32_t w = 0; w < kWords; ++w) word[n][w] = loaded.word[w];
    }
    GQ_UNROLL for (uint32_t n = 0; n < kCount; ++n) add(word[n], next + n);
    next += kCount;
  }
};

/** Whether the operands of two pieces are as far from each other, so that both have one list. */
inline bool share_list(const ReduceManyArgs& a, const ReduceManyArgs& b) {
  if (!are_arguments(a)) return true;
  for (uint32_t k = 1; k < operand_count(a); ++k) {
    const auto apart = [k](const ReduceManyArgs& args) {
      return reinterpret_cast<uintptr_t>(args.operands[k]) -
             reinterpret_cast<uintptr_t>(args.operands[0]);
    };
    if (apart(a) != apart(b)) return false;
  }
  return true;
}

/** What a sum has unless it says otherwise. */
struct AddDefaults {
  using List = OperandList;
  static constexpr bool kOwnScales = false;
  static constexpr uint32_t kBlocksAtOnce = 3;
  static constexpr uint32_t kBlocksRescaled = 2;  ///< 80 registers are a few too few
  Operands operands;
};

/** Sums of linear codes. Lanes, each code + s, are added twice their width apart, which holds as
 *  many ranks as kRanksAtOnce; the offsets of all ranks are taken off at once. */
template <uint32_t kCodeBits>
struct AddLinear : AddDefaults {
  static constexpr uint32_t kBits = kCodeBits;
  static constexpr uint32_t kWords = kThreadWords<kBits>;
  static constexpr uint32_t kRanksAtOnce = 1u << kBits;
  static constexpr uint32_t kLanes = kBits == 8 ? 0x00ff00ffu : 0x0f0f0f0fu;
  // For 10.0 and later 80 registers are two too few.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 1000
  static constexpr uint32_t kBlocksRescaled = 2;
#else
  static constexpr uint32_t kBlocksRescaled = 3;
#endif
  /** Of each word its even lanes and its odd ones. */
  using Sums = uint32_t[kWords][2];
  uint32_t steps;

  GQ_DEVICE void add(const OperandList& list, const Place& place,
                     float (&value)[kThreadValues]) const {
    const uint32_t offset = operands.count * steps;
    if (operands.count <= kRanksAtOnce) {
      Sums sum = {};
      add_lanes(list, 0, operands.count, place, sum);
      // A number in the last bits of a float's pattern costs no conversion.
      const float middle = 0x1p23f + static_cast<float>(offset);
      GQ_UNROLL for (uint32_t e = 0; e < kThreadValues; ++e) {
        value[e] = float_from_bits(sum_at(sum, e, float_bits(0x1p23f))) - middle;
      }
      return;
    }
    int32_t total[kThreadValues];
    GQ_UNROLL for (uint32_t e = 0; e < kThreadValues; ++e) total[e] = -static_cast<int32_t>(offset);
    for (uint32_t first = 0; first < operands.count; first += kRanksAtOnce) {
      Sums sum = {};
      add_lanes(list, first, min(first + kRanksAtOnce, operands.count), place, sum);
      GQ_UNROLL for (uint32_t e = 0; e < kThreadValues; ++e) {
        total[e] += static_cast<int32_t>(sum_at(sum, e, 0));
      }
    }
    GQ_UNROLL for (uint32_t e = 0; e < kThreadValues; ++e) {
      value[e] = static_cast<float>(total[e]);
    }
  }

 private:
  GQ_DEVICE void add_lanes(const OperandList& list, uint32_t begin, uint32_t end,
                           const Place& place, Sums& sum) const {
    operands.each<kBits>(list, begin, end, place, [&](const uint32_t (&word)[kWords], uint32_t) {
      GQ_UNROLL for (uint32_t w = 0; w < kWords; ++w) {
        sum[w][0] += word[w] & kLanes;
        sum[w][1] += word[w] >> kBits & kLanes;
      }
    });
  }

  /** The sum of value e in the last bits of `pattern`, whose others it has. */
  GQ_DEVICE static uint32_t sum_at(const Sums& sum, uint32_t e, uint32_t pattern) {
    const uint32_t in_word = e % codes_per_word(kBits), n = in_word / 2;
    const uint32_t choice = kBits == 8 ? 0x7600 | (2 * n + 1) << 4 | 2 * n : 0x7650 | n;
    return byte_permute(sum[e / codes_per_word(kBits)][in_word % 2], pattern, choice);
  }
};

/** Sums of exponential levels with the norm's octave as 1, in rank order. */
template <uint32_t kCodeBits, uint32_t kMantissaBits, typename OperandLists = OperandList>
struct AddExponential : AddDefaults {
  using List = OperandLists;
  static constexpr uint32_t kBits = kCodeBits;
  /** What exponential_powers has levels too small by. */
  static constexpr float kPower = kMantissaBits > 0 ? 0x1p96f : kBits == 4 ? 0x1p120f : 1;

  /** From -0 on: added to the first level it changes no bit. Products with weights are exact, so
   *  that one instruction has the bits of two. A power of two is multiplied with at last. */
  GQ_DEVICE void add(const List& list, const Place& place,
                     float (&value)[kThreadValues]) const {
    GQ_UNROLL for (uint32_t e = 0; e < kThreadValues; ++e) value[e] = -0.0f;
    const auto add_one = [&](const uint32_t (&word)[kThreadWords<kBits>], uint32_t operand) {
      const float weight = list.weight_of(operand);
      GQ_UNROLL for (uint32_t e = 0; e < kThreadValues; e += 4) {
        float level[4];
        exponential_powers<kBits, kMantissaBits>(four_lanes<kBits>(word, e), level);
        GQ_UNROLL for (uint32_t k = 0; k < 4; ++k) {
          value[e + k] = __fmaf_rn(level[k], weight, value[e + k]);
        }
      }
    };
    operands.each<kBits>(list, 0, operands.count, place, add_one);
    if constexpr (kPower != 1) {
      GQ_UNROLL for (uint32_t e = 0; e < kThreadValues; ++e) value[e] *= kPower;
    }
  }
};

/** The same for 4 bits and so few ranks that such sums are exact: as integers, 64 times as large,
 *  of which 16 bits hold one. Each level has 64 added. */
struct AddSmallLevels : AddDefaults {
  using List = RankWeights;
  static constexpr uint32_t kBits = 4;
  static constexpr uint32_t kRanksMax = 256;
  float middle;  ///< 2^17, where the last bit is one 64th, and 1 for each rank

  explicit AddSmallLevels(const ReduceManyArgs& args)
      : AddDefaults{Operands(args)}, middle(0x1p17f + static_cast<float>(args.coding.ranks)) {}

  GQ_DEVICE void add(const List& list, const Place& place,
                     float (&value)[kThreadValues]) const {
    uint32_t sum[kThreadValues / 4][2] = {};  // of four lanes all, a byte apart, and the odd ones
    const auto add_one = [&](const uint32_t (&word)[kThreadWords<kBits>], uint32_t operand) {
      const uint32_t weight = float_bits(list.weight_of(operand) + 0x1p23f) & 0xffffu;
      GQ_UNROLL for (uint32_t k = 0; k < kThreadValues / 4; ++k) {
        const uint32_t level = exponential_bytes(four_lanes<kBits>(word, 4 * k));
        sum[k][0] += level * weight;
        sum[k][1] += byte_permute(level, 0, 0x4341) * weight;
      }
    };
    operands.each<kBits>(list, 0, operands.count, place, add_one);
    GQ_UNROLL for (uint32_t k = 0; k < kThreadValues / 4; ++k) sum[k][0] -= sum[k][1] << 8;
    GQ_UNROLL for (uint32_t e = 0; e < kThreadValues; ++e) {
      const uint32_t choice = e % 4 < 2 ? 0x7610 : 0x7632;
      const uint32_t pattern = byte_permute(sum[e / 4][e % 2], float_bits(0x1p17f), choice);
      value[e] = float_from_bits(pattern) - middle;
    }
  }
};

/** Sums of linear codes of means that have scales of their own, in the order of nodes. */
template <uint32_t kCodeBits>
struct AddMeans : AddDefaults {
  using List = MeanWeights;
  static constexpr bool kOwnScales = true;
  static constexpr uint32_t kBits = kCodeBits;
  uint32_t steps;
  uint32_t shift;         ///< a block has 2^shift values
  uint64_t scales_bytes;  ///< from an operand's words to its scales

  explicit AddMeans(const ReduceManyArgs& args)
      : AddDefaults{Operands(args)},
        steps(args.coding.steps),
        shift(block_log2(args.coding.block)),
        scales_bytes(args.operand_scales_bytes) {}

  GQ_DEVICE void add(const List& list, const Place& place,
                     float (&value)[kThreadValues]) const {
    GQ_UNROLL for (uint32_t e = 0; e < kThreadValues; ++e) value[e] = -0.0f;
    if (place.code_count == 0) return;
    const auto add_one = [&](const uint32_t (&word)[kThreadWords<kBits>], uint32_t operand) {
      const char* const words = reinterpret_cast<const char*>(operands.words_of(list, operand));
      const auto* const scales = reinterpret_cast<const uint16_t*>(words + scales_bytes);
      const float factor = mean_factor(scales[place.offset >> shift], list.weight_of(operand));
      GQ_UNROLL for (uint32_t e = 0; e < kThreadValues; ++e) {
        value[e] += linear_decode(lane<kBits>(word[e / codes_per_word(kBits)], e), steps, factor);
      }
    };
    operands.each<kBits>(list, 0, operands.count, place, add_one);
  }
};

}  // namespace gq::cuda

#endif
