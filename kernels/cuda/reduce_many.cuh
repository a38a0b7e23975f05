// Wide reduce stage: the owner of a shard adds all operands as numbers and encodes the sum once.
#ifndef GQ_KERNELS_CUDA_REDUCE_MANY_CUH
#define GQ_KERNELS_CUDA_REDUCE_MANY_CUH

#include "kernels/codec/norm.h"
#include "kernels/cuda/decode.cuh"
#include "kernels/cuda/encode.cuh"

namespace gq::cuda {

/** The operands' words; threads read the array of pointers themselves, and that of weights. */
struct Operands {
  const uint32_t* const* words;
  uint32_t count;
  const uint32_t* weights;  ///< null: one operand for each rank

  explicit Operands(const ReduceManyArgs& args)
      : words(args.words),
        count(args.weights == nullptr ? args.coding.ranks : args.weight_count),
        weights(args.weights) {}

  GQ_HD void set(const void* list) { words = static_cast<const uint32_t* const*>(list); }

  template <uint32_t kBits>
  GQ_HD void load(uint32_t k, const Place& place, uint32_t (&word)[kThreadWords<kBits>]) const {
    load_words<kBits>(word_buffer<kBits>(words[k]), place.offset, place.code_count, word);
  }
};

/** Sums of linear codes. Lanes, each code + s, are added 16 bits apart, which hold 256 ranks; the
 *  offsets of all ranks are taken off at once. */
template <uint32_t kCodeBits>
struct AddLinear {
  static constexpr uint32_t kBits = kCodeBits;
  static constexpr uint32_t kWords = kThreadWords<kBits>;
  static constexpr uint32_t kNarrowRanks = 256;
  static constexpr uint32_t kParts = 16 / kBits;  ///< of a word: each has 2 lanes, 16 bits apart
  static constexpr uint32_t kLanes = ((1u << kBits) - 1) * 0x10001u;
  Operands operands;
  uint32_t steps;

  /** Lane e of a word is in part e mod kParts, in its lower half or its upper one. */
  GQ_HD void add_narrow(const Place& place, uint32_t first_rank, uint32_t end,
                        uint32_t (&sum)[kWords][kParts]) const {
    for (uint32_t rank = first_rank; rank < end; ++rank) {
      uint32_t word[kWords];
      operands.load<kBits>(rank, place, word);
      GQ_UNROLL for (uint32_t w = 0; w < kWords; ++w) {
        GQ_UNROLL for (uint32_t k = 0; k < kParts; ++k) {
          sum[w][k] += (word[w] >> (kBits * k)) & kLanes;
        }
      }
    }
  }

  GQ_HD void add(const Place& place, float (&value)[kThreadValues]) const {
    const int32_t offset = static_cast<int32_t>(operands.count * steps);
    int32_t total[kThreadValues];
    GQ_UNROLL for (uint32_t e = 0; e < kThreadValues; ++e) total[e] = -offset;
    for (uint32_t first = 0; first < operands.count; first += kNarrowRanks) {
      const uint32_t left = operands.count - first;
      uint32_t sum[kWords][kParts] = {};
      add_narrow(place, first, first + (left < kNarrowRanks ? left : kNarrowRanks), sum);
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

/** Sums of linear codes of means, each as often as it has ranks. */
template <uint32_t kCodeBits>
struct AddMeans {
  static constexpr uint32_t kBits = kCodeBits;
  Operands operands;
  uint32_t offset;  ///< s of all ranks

  GQ_HD void add(const Place& place, float (&value)[kThreadValues]) const {
    int32_t total[kThreadValues];
    GQ_UNROLL for (uint32_t e = 0; e < kThreadValues; ++e) total[e] = -static_cast<int32_t>(offset);
    for (uint32_t k = 0; k < operands.count; ++k) {
      uint32_t word[kThreadWords<kBits>];
      operands.load<kBits>(k, place, word);
      const uint32_t weight = operands.weights[k];
      GQ_UNROLL for (uint32_t e = 0; e < kThreadValues; ++e) {
        const uint32_t one = lane<kBits>(word[e / codes_per_word(kBits)], e);
        total[e] += static_cast<int32_t>(weight * one);
      }
    }
    GQ_UNROLL for (uint32_t e = 0; e < kThreadValues; ++e) {
      value[e] = static_cast<float>(total[e]);
    }
  }
};

/** Sums of exponential levels with the norm's octave as 1, in rank order; of means each as often as
 *  it has ranks, a product that is exact. */
template <uint32_t kCodeBits, uint32_t kMantissaBits, bool kWeighted>
struct AddExponential {
  static constexpr uint32_t kBits = kCodeBits;
  Operands operands;

  GQ_HD void levels(uint32_t k, const Place& place, float (&level)[kThreadValues]) const {
    uint32_t word[kThreadWords<kBits>];
    operands.load<kBits>(k, place, word);
    const float weight = kWeighted ? static_cast<float>(operands.weights[k]) : 1.0f;
    GQ_UNROLL for (uint32_t e = 0; e < kThreadValues; ++e) {
      level[e] = exponential_level_of<kBits, kMantissaBits>(
          lane<kBits>(word[e / codes_per_word(kBits)], e), code_max(kBits));
      if (kWeighted) level[e] *= weight;
    }
  }

  GQ_HD void add(const Place& place, float (&value)[kThreadValues]) const {
    levels(0, place, value);
    for (uint32_t k = 1; k < operands.count; ++k) {
      float level[kThreadValues];
      levels(k, place, level);
      GQ_UNROLL for (uint32_t e = 0; e < kThreadValues; ++e) value[e] += level[e];
    }
  }
};

/** What all wide sums share: `full`, where all ranks hold their top code, is the most they are. */
template <typename Add, typename Levels>
struct WideSum : WorkDefaults {
  Add add;
  Encoder<Levels, OwnThresholds> encoder;
  double full;
  bool counts_rotated;  ///< codes are as many as a rotation makes

  WideSum(const ReduceManyArgs& args, const Add& add, const Levels& levels, double full)
      : WorkDefaults(
            {args.range.first_value, gq::code_count(args.coding.rotated, args.range.value_count)},
            false),
        add(add),
        encoder{levels,
                {args.coding.rounding_down == RoundingDown::subtractive
                     ? shared_stream(args.random, Draw::subtractive)
                     : own_stream(args.random, Draw::encode_again)},
                args.coding.rounding == Rounding::nearest,
                word_buffer<Levels::kBits>(args.out_words)},
        full(full),
        counts_rotated(args.coding.rotated) {}

  GQ_HD void set(const Piece& piece) {
    this->first_value = piece.first_value;
    this->value_count = this->code_count = gq::code_count(counts_rotated, piece.value_count);
    add.operands.set(piece.values);
    encoder.set(piece.words);
  }
};

/** Wide sums under one scale. */
template <typename Add, typename Levels>
struct ReduceMany : WideSum<Add, Levels> {
  struct Own {
    Scale scale;
  };
  using Here = Local<Nothing, Own>;
  using WideSum<Add, Levels>::WideSum;

  GQ_HD void begin(Here local) const {
    local.own.scale = this->encoder.levels.scale_for_norm(static_cast<float>(this->full));
  }
  GQ_HD void give(const Place& place, Here, float (&value)[kThreadValues]) const {
    this->add.add(place, value);
  }
  GQ_HD void take(const Place& place, Here local, const float (&value)[kThreadValues]) const {
    this->encoder.encode(this->first_value, place, local.own.scale, value);
  }
};

/** Wide sums of which each block gets a scale of its own (rescale): an iteration finds the peaks of
 *  its blocks and then encodes them. Blocks longer than a block of threads are added twice, for
 *  their peak and for their codes: that needs no memory. */
template <typename Add, typename Levels>
struct ReduceManyRescaled : WideSum<Add, Levels> {
  static constexpr uint32_t kBlocksAtOnce = 2;  // its sums do not fit into 80 registers
  static constexpr bool kShares = true;
  static constexpr bool kIterationBarriers = true;
  struct Shared {
    uint32_t peak[BlockIterations::kBlocksMax];
  };
  struct Own {
    float sum[kThreadValues];
  };
  using Here = Local<Shared, Own>;
  NormSource norms;
  BlockIterations blocks;
  uint16_t* out_scales;

  ReduceManyRescaled(const ReduceManyArgs& args, const Add& add, const Levels& levels, double full)
      : WideSum<Add, Levels>(args, add, levels, full),
        norms(args.norms, args.coding.block),
        blocks(args.coding.block, this->code_count),
        out_scales(args.out_scales) {
    this->set_parts(blocks.part_count);
    this->part_count = 2 * blocks.part_count;
  }

  GQ_HD void set(const Piece& piece) {
    WideSum<Add, Levels>::set(piece);
    norms.set(piece.norms);
    blocks.set(this->code_count);
    out_scales = static_cast<uint16_t*>(piece.scales);
  }
  uint32_t iterations() const { return this->iterations_of(blocks.part_count); }

  GQ_HD Place place(uint32_t iteration, uint32_t part, uint32_t thread) const {
    const uint64_t here = part < blocks.part_count ? part : part - blocks.part_count;
    const uint64_t parts = uint64_t{iteration} * blocks.part_count + here;
    return this->place_at(iteration, part, (parts * this->kThreads + thread) * kThreadValues);
  }

  GQ_HD void open(uint32_t, Here local) const {
    if (local.thread < BlockIterations::kBlocksMax) local.shared.peak[local.thread] = 0;
  }

  GQ_HD void give(const Place& place, Here local, float (&value)[kThreadValues]) const {
    if (place.part == 1 && blocks.part_count == 1) {
      GQ_UNROLL for (uint32_t e = 0; e < kThreadValues; ++e) value[e] = local.own.sum[e];
    } else {
      this->add.add(place, value);
    }
  }

  GQ_HD void take(const Place& place, Here local, const float (&value)[kThreadValues]) const {
    uint32_t& peak = local.shared.peak[blocks.number_of(place)];
    if (place.part >= blocks.part_count) return encode(place, float_from_bits(peak), value);
    uint32_t largest = 0;
    GQ_UNROLL for (uint32_t e = 0; e < kThreadValues; ++e) {
      const uint32_t magnitude = e < place.code_count ? magnitude_bits(value[e]) : 0;
      largest = magnitude > largest ? magnitude : largest;
      local.own.sum[e] = value[e];
    }
    raise(&peak, largest);
  }

 private:
  GQ_HD void encode(const Place& place, float peak, const float (&value)[kThreadValues]) const {
    const Rescaled made = rescaled(norms.at(place.offset), peak, this->full);
    const uint64_t block = uint64_t{1} << blocks.shift;
    if (place.offset % block == 0) out_scales[place.offset >> blocks.shift] = made.code;
    const Scale scale = this->encoder.levels.scale_for_norm(made.sum_norm);
    this->encoder.encode(this->first_value, place, scale, value);
  }
};

/** Sums of float32, in rank order. */
struct ReduceManyNone : WorkDefaults {
  using Here = Local<Nothing, Nothing>;
  Operands operands;
  WordBuffer<uint32_t> target;

  explicit ReduceManyNone(const ReduceManyArgs& args, const Operands& operands)
      : WorkDefaults(args.range, false),
        operands(operands),
        target(word_buffer<32>(args.out_words)) {}

  GQ_HD void set(const Piece& piece) {
    set_range(piece);
    operands.set(piece.values);
    target = word_buffer<32>(static_cast<uint32_t*>(piece.words));
  }

  GQ_HD void give(const Place& place, Here, float (&value)[kThreadValues]) const {
    uint32_t word[kThreadValues];
    operands.load<32>(0, place, word);
    GQ_UNROLL for (uint32_t e = 0; e < kThreadValues; ++e) value[e] = float_from_bits(word[e]);
    for (uint32_t k = 1; k < operands.count; ++k) {
      operands.load<32>(k, place, word);
      GQ_UNROLL for (uint32_t e = 0; e < kThreadValues; ++e) {
        value[e] = canonical(value[e] + float_from_bits(word[e]));
      }
    }
  }
  GQ_HD void take(const Place& place, Here, const float (&value)[kThreadValues]) const {
    uint32_t word[kThreadValues];
    GQ_UNROLL for (uint32_t e = 0; e < kThreadValues; ++e) word[e] = float_bits(value[e]);
    store_words<32>(target, place.offset, place.code_count, word);
  }
};

/** The most that a wide sum is: the top code of all ranks. */
inline double full_sum(const Coding& coding) {
  if (coding.levels == Levels::linear) return static_cast<double>(coding.ranks) * coding.steps;
  return static_cast<double>(coding.ranks) * exponential_top(coding.mantissa_bits);
}

using ReduceManyCalls = StageCalls<ReduceManyArgs>;

template <typename Launcher, typename Add, typename Levels>
StageError reduce_many_with(Launcher& launch, const ReduceManyCalls& calls, const Add& add,
                            const Levels& levels) {
  const ReduceManyArgs& args = calls.first();
  const double full = full_sum(args.coding);
  if (args.coding.rescale) {
    return calls.run(launch, Plain<ReduceManyRescaled<Add, Levels>>({args, add, levels, full}));
  }
  return calls.run(launch, Plain<ReduceMany<Add, Levels>>({args, add, levels, full}));
}

template <typename Launcher, typename Add>
StageError reduce_many_linear(Launcher& launch, const ReduceManyCalls& calls, const Add& add) {
  const Coding& coding = calls.first().coding;
  if (coding.bits_down == 8) {
    return reduce_many_with(launch, calls, add, LinearLevels<8>{coding.steps_down});
  }
  return reduce_many_with(launch, calls, add, LinearLevels<4>{coding.steps_down});
}

template <uint32_t kBits, typename Launcher>
StageError reduce_many_linear_on(Launcher& launch, const ReduceManyCalls& calls) {
  const Coding& coding = calls.first().coding;
  const Operands operands(calls.first());
  return operands.weights == nullptr
             ? reduce_many_linear(launch, calls, AddLinear<kBits>{operands, coding.steps})
             : reduce_many_linear(launch, calls,
                                  AddMeans<kBits>{operands, coding.ranks * coding.steps});
}

template <uint32_t kBits, bool kWeighted, typename Launcher>
StageError reduce_many_exponential_on(Launcher& launch, const ReduceManyCalls& calls) {
  const Coding& coding = calls.first().coding;
  const Operands operands(calls.first());
  if (coding.mantissa_bits > 0) {
    return reduce_many_with(launch, calls, AddExponential<8, 2, kWeighted>{operands},
                            ExponentialLevels<8, 2>{0});
  }
  const AddExponential<kBits, 0, kWeighted> add{operands};
  if (coding.bits_down == 8) {
    return reduce_many_with(launch, calls, add, ExponentialLevels<8, 0>{0});
  }
  return reduce_many_with(launch, calls, add, ExponentialLevels<4, 0>{0});
}

template <bool kWeighted, typename Launcher>
StageError reduce_many_exponential(Launcher& launch, const ReduceManyCalls& calls) {
  return calls.first().coding.bits == 8 ? reduce_many_exponential_on<8, kWeighted>(launch, calls)
                               : reduce_many_exponential_on<4, kWeighted>(launch, calls);
}

inline Piece piece_of(const ReduceManyArgs& args) {
  return {args.range.first_value, args.range.value_count, args.words, place_of(args.norms),
          args.out_words,         args.out_scales};
}

template <typename Launcher>
StageError reduce_many_on(Launcher launch, const ReduceManyArgs* args, size_t count, void* table) {
  const ReduceManyCalls calls{args, count, table, piece_of};
  const Coding& coding = args->coding;
  if (count == 1 && args->range.value_count == 0) return {};  // Then pointers may be null.
  if (coding.levels == Levels::none) {
    return calls.run(launch, Plain<ReduceManyNone>(ReduceManyNone(*args, Operands(*args))));
  }
  if (coding.levels == Levels::linear) {
    return coding.bits == 8 ? reduce_many_linear_on<8>(launch, calls)
                            : reduce_many_linear_on<4>(launch, calls);
  }
  return args->weights == nullptr ? reduce_many_exponential<false>(launch, calls)
                                  : reduce_many_exponential<true>(launch, calls);
}

}  // namespace gq::cuda

#endif
