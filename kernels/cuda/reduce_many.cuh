// Wide reduce stage: the owner of a shard adds all operands as numbers and encodes the sum once.
#ifndef GQ_KERNELS_CUDA_REDUCE_MANY_CUH
#define GQ_KERNELS_CUDA_REDUCE_MANY_CUH

#include "kernels/codec/block_norm.h"
#include "kernels/codec/norm.h"
#include "kernels/cuda/decode.cuh"
#include "kernels/cuda/encode.cuh"

namespace gq::cuda {

inline uint32_t operand_count(const ReduceManyArgs& args) {
  return args.weights != nullptr ? args.weight_count : args.coding.ranks;
}

/** The operands' words, one for each rank, as arguments of a kernel. */
struct OperandList {
  const uint32_t* words[kOperandArgumentsMax];

  static bool holds(const ReduceManyArgs& args) {
    return args.operands != nullptr && operand_count(args) <= kOperandArgumentsMax;
  }
  explicit OperandList(const ReduceManyArgs& args) {
    for (uint32_t k = 0; k < kOperandArgumentsMax; ++k) {
      words[k] = holds(args) && k < operand_count(args) ? args.operands[k] : nullptr;
    }
  }
  GQ_DEVICE static float weight_of(uint32_t) { return 1; }
};

/** The same with how many ranks each stands for: 1 where there are no weights. */
struct WeightedOperandList : OperandList {
  float weight[kOperandArgumentsMax];
  const uint64_t* weights;  ///< of the device's memory, if there are more

  explicit WeightedOperandList(const ReduceManyArgs& args)
      : OperandList(args),
        weights(operand_count(args) > kOperandArgumentsMax ? args.device_weights : nullptr) {
    for (uint32_t k = 0; k < kOperandArgumentsMax; ++k) {
      const bool has_weight = weights == nullptr && k < args.weight_count;
      weight[k] = has_weight ? static_cast<float>(args.weights[k]) : 1;
    }
  }
  GQ_DEVICE float weight_of(uint32_t k) const {
    if (weights != nullptr) return static_cast<float>(static_cast<uint32_t>(__ldg(weights + k)));
    return weight[k % kOperandArgumentsMax];
  }
};

/** The same for means that have scales of their own: what a step of each counts. */
struct MeanList : OperandList {
  float weight[kOperandArgumentsMax];
  const uint64_t* weights;  ///< ranks of each, in the device's memory, if there are more

  explicit MeanList(const ReduceManyArgs& args)
      : OperandList(args),
        weights(operand_count(args) > kOperandArgumentsMax ? args.device_weights : nullptr) {
    const Coding& coding = args.coding;
    for (uint32_t k = 0; k < kOperandArgumentsMax; ++k) {
      const bool has_weight = weights == nullptr && k < args.weight_count;
      weight[k] = has_weight ? mean_weight(args.weights[k], coding.ranks, coding.steps) : 0;
    }
  }
  GQ_DEVICE float weight_of(uint32_t k, uint32_t ranks, uint32_t steps) const {
    if (weights == nullptr) return weight[k % kOperandArgumentsMax];
    return mean_weight(static_cast<uint32_t>(__ldg(weights + k)), ranks, steps);
  }
};

/** Where the operands of one piece are: as far behind those of the list, or, if there are more than
 *  it holds, in an array of the device's memory. */
struct Operands {
  const uint32_t* first;
  const uint32_t* const* array;
  uint32_t count;
  bool vectors;  ///< those of the list are where vectors are if the first one is

  explicit Operands(const ReduceManyArgs& args)
      : first(OperandList::holds(args) ? args.operands[0] : nullptr),
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

/** Sums of linear codes. Lanes, each code + s, are added 16 bits apart, which hold 256 ranks; the
 *  offsets of all ranks are taken off at once. */
template <uint32_t kCodeBits>
struct AddLinear {
  using List = OperandList;
  static constexpr bool kOwnScales = false;
  static constexpr uint32_t kBlocksAtOnce = 3;
  static constexpr uint32_t kBits = kCodeBits;
  static constexpr uint32_t kWords = kThreadWords<kBits>;
  static constexpr uint32_t kNarrowRanks = 256;
  static constexpr uint32_t kParts = 16 / kBits;  ///< of a word: each has 2 lanes, 16 bits apart
  static constexpr uint32_t kLanes = ((1u << kBits) - 1) * 0x10001u;
  Operands operands;
  uint32_t steps;

  /** Lane e of a word is in part e mod kParts, in its lower half or its upper one. */
  GQ_DEVICE void add_narrow(const OperandList& list, const Place& place, uint32_t first_rank,
                            uint32_t end, uint32_t (&sum)[kWords][kParts]) const {
    const auto add_one = [&](const uint32_t (&word)[kWords], uint32_t) {
      GQ_UNROLL for (uint32_t w = 0; w < kWords; ++w) {
        GQ_UNROLL for (uint32_t k = 0; k < kParts; ++k) {
          sum[w][k] += (word[w] >> (kBits * k)) & kLanes;
        }
      }
    };
    operands.each<kBits>(list, first_rank, end, place, add_one);
  }

  GQ_DEVICE void add(const OperandList& list, const Place& place,
                     float (&value)[kThreadValues]) const {
    const int32_t offset = static_cast<int32_t>(operands.count * steps);
    int32_t total[kThreadValues];
    GQ_UNROLL for (uint32_t e = 0; e < kThreadValues; ++e) total[e] = -offset;
    for (uint32_t first = 0; first < operands.count; first += kNarrowRanks) {
      const uint32_t left = operands.count - first;
      uint32_t sum[kWords][kParts] = {};
      add_narrow(list, place, first, first + (left < kNarrowRanks ? left : kNarrowRanks), sum);
      GQ_UNROLL for (uint32_t e = 0; e < kThreadValues; ++e) {
        const uint32_t in_word = e % codes_per_word(kBits);
        const uint32_t pair = sum[e / codes_per_word(kBits)][in_word % kParts];
        total[e] += static_cast<int32_t>(in_word < kParts ? pair & 0xffffu : pair >> 16);
      }
    }
    GQ_UNROLL for (uint32_t e = 0; e < kThreadValues; ++e) {
      value[e] = static_cast<float>(total[e]);
    }
  }
};

/** Sums of exponential levels with the norm's octave as 1, in rank order. */
template <uint32_t kCodeBits, uint32_t kMantissaBits, typename OperandLists = OperandList>
struct AddExponential {
  using List = OperandLists;
  static constexpr bool kOwnScales = false;
  static constexpr uint32_t kBits = kCodeBits;
  static constexpr uint32_t kBlocksAtOnce = 3;
  /** What exponential_powers has levels too small by. */
  static constexpr float kPower = kMantissaBits > 0 ? 0x1p96f : kBits == 4 ? 0x1p120f : 1;
  Operands operands;

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
template <typename OperandLists = OperandList>
struct AddSmallLevels {
  using List = OperandLists;
  static constexpr bool kOwnScales = false;
  static constexpr uint32_t kBits = 4;
  static constexpr uint32_t kBlocksAtOnce = 3;
  static constexpr uint32_t kRanksMax = 256;
  Operands operands;
  float middle;  ///< 2^17, where the last bit is one 64th, and 1 for each rank

  explicit AddSmallLevels(const ReduceManyArgs& args)
      : operands(args), middle(0x1p17f + static_cast<float>(args.coding.ranks)) {}

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

/** What a piece has room for. */
inline constexpr size_t kScalesBytesMax = sizeof(uint16_t) << 32;

/** Sums of linear codes of means that have scales of their own, in the order of nodes. */
template <uint32_t kCodeBits>
struct AddMeans {
  using List = MeanList;
  static constexpr bool kOwnScales = true;
  static constexpr uint32_t kBits = kCodeBits;
  Operands operands;
  uint32_t ranks, steps;
  uint32_t shift;         ///< a block has 2^shift values
  uint64_t scales_bytes;  ///< from an operand's words to its scales, below kScalesBytesMax

  explicit AddMeans(const ReduceManyArgs& args)
      : operands(args),
        ranks(args.coding.ranks),
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
      const float factor = mean_factor(scales[place.offset >> shift],
                                       list.weight_of(operand, ranks, steps));
      GQ_UNROLL for (uint32_t e = 0; e < kThreadValues; ++e) {
        value[e] += linear_decode(lane<kBits>(word[e / codes_per_word(kBits)], e), steps, factor);
      }
    };
    operands.each<kBits>(list, 0, operands.count, place, add_one);
  }
};

/** The most that a wide sum is: the top code of all ranks. */
inline double full_sum(const Coding& coding) {
  if (coding.levels == Levels::linear) return static_cast<double>(coding.ranks) * coding.steps;
  return static_cast<double>(coding.ranks) * exponential_top(coding.mantissa_bits);
}

/** What all wide sums share: `full`, where all ranks hold their top code, is the most they are. */
template <typename Add, typename Levels>
struct WideSum : ValueStage {
  Add add;
  Encoder<Levels, OwnThresholds> encoder;
  double full;

  WideSum(const ReduceManyArgs& args, const Add& add, const Levels& levels)
      : ValueStage(args.range, args.coding.rotated),
        add(add),
        encoder{levels,
                {args.coding.rounding_down == RoundingDown::subtractive
                     ? shared_stream(args.random, Draw::subtractive)
                     : own_stream(args.random, Draw::encode_again)},
                args.coding.rounding == Rounding::nearest,
                word_buffer<Levels::kBits>(args.out_words)},
        full(full_sum(args.coding)) {}

  GQ_HD void set(const Piece& piece) {
    set_range(piece.first_value, piece.value_count);
    add.operands.set(piece.values);
    encoder.set(piece.words);
  }
};

/** Wide sums under one scale. */
template <typename Add, typename Levels>
struct ReduceMany : WideSum<Add, Levels> {
  using WideSum<Add, Levels>::WideSum;
  using List = typename Add::List;
  static constexpr uint32_t kBlocksAtOnce = Add::kBlocksAtOnce;

  GQ_DEVICE void run(const Iterations& iterations, const List& list,
                     BlockIterations::Shared&) const {
    const Scale scale = this->encoder.levels.scale_for_norm(static_cast<float>(this->full));
    for (uint32_t k = iterations.first; k < iterations.end; k += gridDim.x) {
      const Place place = this->place(k);
      if (place.code_count == 0) continue;
      float value[kThreadValues];
      this->add.add(list, place, value);
      this->encoder.encode(this->first_value, place, scale, value);
    }
  }
};

/** Wide sums of which each block gets a scale of its own (rescale): threads find the peak of their
 *  block and then encode it. Blocks longer than a block of threads are added twice, for their peak
 *  and for their codes: that needs no memory. */
template <typename Add, typename Levels>
struct ReduceManyRescaled : WideSum<Add, Levels> {
  using List = typename Add::List;
  static constexpr uint32_t kBlocksAtOnce = 2;  // its sums do not fit into 80 registers
  NormSource norms;
  BlockIterations blocks;
  uint16_t* out_scales;

  ReduceManyRescaled(const ReduceManyArgs& args, const Add& add, const Levels& levels)
      : WideSum<Add, Levels>(args, add, levels),
        norms(args.norms, args.coding.block),
        blocks(args.coding.block),
        out_scales(args.out_scales) {}

  GQ_HD void set(const Piece& piece) {
    WideSum<Add, Levels>::set(piece);
    if constexpr (Add::kOwnScales) {
      this->add.scales_bytes = uint64_t{piece.scales_behind} * sizeof(uint16_t);
    } else {
      norms.set(piece.norms);
    }
    out_scales = static_cast<uint16_t*>(piece.scales);
  }
  uint32_t iterations() const {
    return this->iterations_of(uint64_t{blocks.part_count} * kBlockValues);
  }

  GQ_DEVICE void run(const Iterations& iterations, const List& list,
                     BlockIterations::Shared& shared) const {
    for (uint32_t k = iterations.first; k < iterations.end; k += gridDim.x) {
      const uint64_t first = uint64_t{k} * blocks.part_count;
      float value[kThreadValues];
      uint32_t own = 0;
      for (uint32_t part = 0; part < blocks.part_count; ++part) {
        add_and_keep(list, this->place(first + part), value, own);
      }
      const uint32_t peak = blocks.largest(own, shared);
      const Place here = this->place(first);
      if (blocks.part_count == 1 && here.code_count == 0) continue;
      const Rescaled made = rescaled_by(here, peak);
      for (uint32_t part = 0; part < blocks.part_count; ++part) {
        const Place place = this->place(first + part);
        if (blocks.part_count > 1) this->add.add(list, place, value);
        if (place.code_count > 0) encode(place, made, value);
      }
      // One operand's scale may be in this place.
      if (Add::kOwnScales && blocks.part_count > 1) __syncthreads();
      if (here.code_count > 0) write_scale(here, made);
    }
  }

 private:
  GQ_DEVICE void add_and_keep(const List& list, const Place& place,
                              float (&value)[kThreadValues], uint32_t& largest) const {
    this->add.add(list, place, value);
    if (place.code_count < kThreadValues) {
      GQ_UNROLL for (uint32_t e = 0; e < kThreadValues; ++e) {
        value[e] = e < place.code_count ? value[e] : 0;
      }
    }
    GQ_UNROLL for (uint32_t e = 0; e < kThreadValues; ++e) {
      largest = max(largest, magnitude_bits(value[e]));
    }
  }
  /** peak: the largest sum's pattern. */
  GQ_DEVICE Rescaled rescaled_by(const Place& place, uint32_t peak) const {
    if constexpr (Add::kOwnScales) {
      const uint16_t code = means_scale(peak);
      return {code, norm_from_code(code)};
    } else {
      return rescaled(norms.at(place.offset), float_from_bits(peak), this->full);
    }
  }
  GQ_DEVICE void write_scale(const Place& place, const Rescaled& made) const {
    if (blocks.begins(place.offset)) out_scales[place.offset >> blocks.shift] = made.code;
  }
  GQ_DEVICE void encode(const Place& place, const Rescaled& made,
                        const float (&value)[kThreadValues]) const {
    const Scale scale = this->encoder.levels.scale_for_norm(made.sum_norm);
    this->encoder.encode(this->first_value, place, scale, value);
  }
};

/** Sums of float32, in rank order. */
struct ReduceManyNone : ValueStage {
  using List = OperandList;
  Operands operands;
  PatternBuffer target;

  explicit ReduceManyNone(const ReduceManyArgs& args)
      : ValueStage(args.range, false),
        operands(args),
        target(args.out_words) {}

  GQ_HD void set(const Piece& piece) {
    set_range(piece.first_value, piece.value_count);
    operands.set(piece.values);
    target.set(piece.words);
  }

  GQ_DEVICE void run(const Iterations& iterations, const OperandList& list,
                     BlockIterations::Shared&) const {
    for (uint32_t k = iterations.first; k < iterations.end; k += gridDim.x) {
      const Place here = place(k);
      if (here.code_count == 0) continue;
      float value[kThreadValues];
      PatternBuffer(operands.words_of(list, 0)).load(here, value);
      for (uint32_t n = 1; n < operands.count; ++n) {
        float other[kThreadValues];
        PatternBuffer(operands.words_of(list, n)).load(here, other);
        GQ_UNROLL for (uint32_t e = 0; e < kThreadValues; ++e) {
          value[e] = canonical(value[e] + other[e]);
        }
      }
      target.store(here, value);
    }
  }
};

template <typename Stage>
__global__ void __launch_bounds__(kBlockThreads, Stage::kBlocksAtOnce)
    reduce_many_kernel(const __grid_constant__ Pieces<Stage> pieces,
                       const __grid_constant__ typename Stage::List list) {
  __shared__ BlockIterations::Shared shared;
  for_each_piece(pieces, [&](const Stage& stage, const Iterations& iterations) {
    stage.run(iterations, list, shared);
  });
}

inline Piece piece_of(const ReduceManyArgs& args) {
  const void* const operands = OperandList::holds(args)
                                   ? static_cast<const void*>(args.operands[0])
                                   : static_cast<const void*>(args.words);
  return {args.range.first_value,
          args.range.value_count,
          operands,
          place_of(args.norms),
          args.out_words,
          args.out_scales,
          0,
          static_cast<uint32_t>(args.operand_scales_bytes / sizeof(uint16_t))};
}

/** Whether the operands of two pieces are as far from each other, so that both have one list. */
inline bool share_list(const ReduceManyArgs& a, const ReduceManyArgs& b) {
  if (!OperandList::holds(a)) return true;
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
