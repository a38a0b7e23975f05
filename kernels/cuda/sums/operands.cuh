// Where the operands of wide sums are, and what each stands for.
#ifndef GQ_KERNELS_CUDA_SUMS_OPERANDS_CUH
#define GQ_KERNELS_CUDA_SUMS_OPERANDS_CUH

#include "kernels/codec/block_norm.h"
#include "kernels/cuda/launch/access.cuh"
#include "kernels/cuda/launch/pieces.cuh"

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
   *  kAtOnce operands are under way together. */
  template <uint32_t kBits, typename Add>
  GQ_DEVICE void each(const OperandList& list, uint32_t begin, uint32_t end, const Place& place,
                      Add add) const {
    constexpr uint32_t kWords = kThreadWords<kBits>, kAtOnce = 16 / kWords;
    const bool is_plain = vectors && is_aligned(first, 16) && place.code_count == kThreadValues;
    const ptrdiff_t behind = first - list.words[0] + place.offset / codes_per_word(kBits);
    for (uint32_t k = begin; k < end; k += kAtOnce) {
      uint32_t word[kAtOnce][kWords];
      if (is_plain) {
        GQ_UNROLL for (uint32_t n = 0; n < kAtOnce; ++n) {
          if (k + n >= end) break;
          const uint32_t* const from = list.words[k + n] + behind;
          assume_global(from);
          const Vector<kWords> loaded = load_vector<kWords>(from);
          GQ_UNROLL for (uint32_t w = 0; w < kWords; ++w) word[n][w] = loaded.word[w];
        }
      } else {
        GQ_UNROLL for (uint32_t n = 0; n < kAtOnce; ++n) {
          if (k + n >= end) break;
          load_words<kBits>(word_buffer<kBits>(words_of(list, k + n)), place.offset,
                            place.code_count, word[n]);
        }
      }
      GQ_UNROLL for (uint32_t n = 0; n < kAtOnce; ++n) {
        if (k + n < end) add(word[n], k + n);
      }
    }
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

}  // namespace gq::cuda

#endif
