// Reduce stage: two operands in code form become one.
#ifndef GQ_KERNELS_CUDA_REDUCE_CUH
#define GQ_KERNELS_CUDA_REDUCE_CUH

#include "kernels/codec/linear.h"
#include "kernels/codec/narrow.h"
#include "kernels/codec/words.h"
#include "kernels/cuda/average_table.cuh"
#include "kernels/cuda/launch/values_kernel.cuh"

namespace gq::cuda {

/** Words that a thread takes at once: 16 bytes. */
inline constexpr uint32_t kMergeWords = 4;

/** What merges have unless they say otherwise. word(a, b, random, shared) merges the codes of a
 *  word; `random`: its random words. */
struct MergeDefaults : StageDefaults {
  static constexpr uint32_t kBlocksAtOnce = 4;  ///< 64 registers each
  using Shared = Nothing;
  using Own = Nothing;
  struct Random {
    GQ_DEVICE const uint32_t* of_word(uint32_t) const { return nullptr; }
  };

  /** All threads of the block come here. */
  GQ_DEVICE Own begin(Shared&) const { return {}; }
  /** For a thread's vector in an iteration. */
  GQ_DEVICE Random draw(const Own&, uint32_t) const { return {}; }
};

/** Threads take neighbouring vectors of words. Cleared lanes behind the last value stay clear under
 *  every rule. */
template <typename Merge>
struct Reduce {
  static constexpr uint32_t kThreads = kBlockThreads;
  static constexpr uint32_t kRepeats = Merge::kRepeats;
  static constexpr uint32_t kIterationWords = kThreads * kRepeats * kMergeWords;
  using Shared = typename Merge::Shared;
  /** Where a thread's first vectors are; in the next iteration they are as far off for all
   *  threads. */
  struct Own {
    const uint32_t* a;
    uint32_t* b;
    typename Merge::Own merge;
  };
  Merge merge;
  const uint32_t* a;
  uint32_t* b;
  uint64_t word_count;
  bool vectors;

  Reduce(const ReduceArgs& args, const Merge& merge)
      : merge(merge),
        a(args.a),
        b(args.b),
        word_count(
            words_for(args.coding.bits, code_count(args.coding.rotated, args.range.value_count))),
        vectors(is_aligned(args.a, 16) && is_aligned(args.b, 16)) {}
  GQ_HD uint32_t iterations() const {
    return static_cast<uint32_t>((word_count + kIterationWords - 1) / kIterationWords);
  }

  GQ_DEVICE Own begin(Shared& shared) const {
    const uint32_t first = threadIdx.x * kMergeWords;
    return {kept(a + first), kept(b + first), merge.begin(shared)};
  }

  GQ_DEVICE void run(uint32_t iteration, const Own& own, const Shared& shared) const {
    if (vectors && uint64_t{iteration + 1} * kIterationWords <= word_count) {
      return run_full(iteration, own, shared);
    }
    for (uint32_t k = 0; k < kRepeats; ++k) merge_words(iteration, k, own, shared);
  }

  /** An iteration in which every thread has all its vectors. */
  GQ_DEVICE void run_full(uint32_t iteration, const Own& own, const Shared& shared) const {
    const uint32_t* const a_first = own.a + uint64_t{iteration} * kIterationWords;
    uint32_t* const b_first = own.b + uint64_t{iteration} * kIterationWords;
    Vector<kMergeWords> from[kRepeats], to[kRepeats];
    GQ_UNROLL for (uint32_t k = 0; k < kRepeats; ++k) {
      from[k] = load_vector<kMergeWords>(a_first + k * kThreads * kMergeWords);
      to[k] = load_vector<kMergeWords>(b_first + k * kThreads * kMergeWords);
    }
    GQ_UNROLL for (uint32_t k = 0; k < kRepeats; ++k) {
      merge_vector(iteration, own, shared, from[k], to[k]);
      store_vector(b_first + k * kThreads * kMergeWords, to[k]);
    }
  }

 private:
  GQ_DEVICE void merge_words(uint32_t iteration, uint32_t k, const Own& own,
                             const Shared& shared) const {
    const uint64_t vector = (uint64_t{iteration} * kRepeats + k) * kThreads + threadIdx.x;
    const uint64_t first = vector * kMergeWords;
    Vector<kMergeWords> from, to;
    GQ_UNROLL for (uint32_t w = 0; w < kMergeWords; ++w) {
      from.word[w] = first + w < word_count ? a[first + w] : 0;
      to.word[w] = first + w < word_count ? b[first + w] : 0;
    }
    merge_vector(iteration, own, shared, from, to);
    GQ_UNROLL for (uint32_t w = 0; w < kMergeWords; ++w) {
      if (first + w < word_count) b[first + w] = to.word[w];
    }
  }

  GQ_DEVICE void merge_vector(uint32_t iteration, const Own& own, const Shared& shared,
                              const Vector<kMergeWords>& from, Vector<kMergeWords>& to) const {
    const auto random = merge.draw(own.merge, iteration);
    GQ_UNROLL for (uint32_t w = 0; w < kMergeWords; ++w) {
      to.word[w] = merge.word(from.word[w], to.word[w], random.of_word(w), shared);
    }
  }
};

template <typename Merge>
__global__ void __launch_bounds__(kBlockThreads, Merge::kBlocksAtOnce)
    reduce_kernel(const __grid_constant__ Reduce<Merge> stage) {
  __shared__ typename Merge::Shared shared;
  const auto own = stage.begin(shared);
  for (uint32_t k = blockIdx.x; k < stage.iterations(); k += gridDim.x) stage.run(k, own, shared);
}

/** Linear levels, exact: whole words are added. */
struct AddWords : MergeDefaults {
  static constexpr uint32_t kRepeats = 2;

  GQ_DEVICE uint32_t word(uint32_t a, uint32_t b, const uint32_t*, Nothing) const { return a + b; }
};

struct AddFloats : MergeDefaults {
  static constexpr uint32_t kRepeats = 2;

  GQ_DEVICE uint32_t word(uint32_t a, uint32_t b, const uint32_t*, Nothing) const {
    return float_bits(canonical(float_from_bits(a) + float_from_bits(b)));
  }
};

/** Merges that draw random words, one for four values, for one vector of a thread in an iteration.
 */
template <uint32_t kBits>
struct RandomMerge : MergeDefaults {
  static constexpr uint32_t kRepeats = 1;
  static constexpr uint32_t kGroups = kMergeWords * 32 / kBits / kGroupValues;  ///< 1 or 2
  /** The stream without its keys as it is in all iterations of a kernel, and a thread's first
   *  group. */
  struct Own {
    RandomStream stream;
    uint64_t group;
  };
  struct Random {
    PhiloxBlock block[kGroups];

    GQ_DEVICE const uint32_t* of_word(uint32_t w) const {
      const uint32_t first = w * kGroups;
      return block[first / 4].word + first % 4;
    }
  };
  KeyedStream stream;
  uint64_t first_group;

  explicit RandomMerge(const ReduceArgs& args)
      : stream(own_stream(args.random, Draw::reduce)),
        first_group(args.range.first_value / kGroupValues) {}

  GQ_DEVICE Own begin(Nothing) const {
    return {{stream.k0, stream.k1, c1_of(stream), c2_of(stream), stream.c3, nullptr},
            kept(first_group + uint64_t{threadIdx.x} * kGroups)};
  }
  GQ_DEVICE Random draw(const Own& own, uint32_t iteration) const {
    const uint64_t first = own.group + uint64_t{iteration} * (kBlockThreads * kGroups);
    Random random;
    GQ_UNROLL for (uint32_t k = 0; k < kGroups; ++k) {
      random.block[k] = gq::random_group(own.stream, first | k, stream);  // a multiple of kGroups
    }
    return random;
  }
};

/** Linear levels, averages of equal weights: a word's lanes at once. */
template <uint32_t kBits>
struct AverageEqual : RandomMerge<kBits> {
  using RandomMerge<kBits>::RandomMerge;

  GQ_DEVICE uint32_t word(uint32_t a, uint32_t b, const uint32_t* random, Nothing) const {
    if constexpr (kBits == 8) return linear_average_equal8(a, b, random[0]);
    return linear_average_equal4(a, b, random[0], random[1]);
  }
};

template <uint32_t kBits>
struct AverageWeighted : RandomMerge<kBits> {
  // Of 4 bits 64 registers are a few too few on some devices.
  static constexpr uint32_t kBlocksAtOnce = kBits == 4 ? 3 : MergeDefaults::kBlocksAtOnce;
  Average average;

  explicit AverageWeighted(const ReduceArgs& args)
      : RandomMerge<kBits>(args), average(average_of(args.weight_a, args.weight_b)) {}

  GQ_DEVICE uint32_t word(uint32_t a, uint32_t b, const uint32_t* random, Nothing) const {
    uint32_t merged = 0;
    GQ_UNROLL for (uint32_t e = 0; e < codes_per_word(kBits); ++e) {
      const uint32_t bits = value_bits(random[e / kWordValues], e);
      const uint32_t code = linear_average(lane<kBits>(a, e), lane<kBits>(b, e), average, bits);
      merged |= placed<kBits>(code, e);
    }
    return merged;
  }
};

struct SumExponentials : RandomMerge<8> {
  using RandomMerge::RandomMerge;

  GQ_DEVICE uint32_t word(uint32_t a, uint32_t b, const uint32_t* random, Nothing) const {
    return exponential_sum_word(a, b, random[0]);
  }
};

/** Exponential levels, averages: by table, which a block begins with as work. */
template <bool kShort>
struct AverageExponentials : RandomMerge<4> {
  using Shared = AverageTable;
  uint32_t weight_a, weight_b;

  explicit AverageExponentials(const ReduceArgs& args)
      : RandomMerge(args), weight_a(args.weight_a), weight_b(args.weight_b) {}

  GQ_DEVICE Own begin(Shared& shared) const {
    static_assert(kBlockThreads == AverageTable::kPairs, "a row for each thread");
    shared.template fill_row<kShort>(threadIdx.x, weight_a, weight_b);
    __syncthreads();
    return RandomMerge::begin({});
  }

  GQ_DEVICE uint32_t word(uint32_t a, uint32_t b, const uint32_t* random,
                          const Shared& shared) const {
    const AveragePlaces places(a, b, threadIdx.x);
    const auto entry = [&](uint32_t e) { return shared.at(places.offset_bytes(e)); };
    return kShort ? short_average_word(random[0], random[1], entry)
                  : exponential_average_word(random[0], random[1], entry);
  }
};

}  // namespace gq::cuda

#endif
