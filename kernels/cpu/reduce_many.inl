// Wide reduce stage: the owner of a shard adds all operands as numbers and encodes the sum once.

/** Sums of 8-bit lanes fit 16 bits for so many ranks. */
constexpr uint32_t kNarrowSums = 256;

struct SumTile {
  alignas(64) uint16_t lane[kTileValues];
};

void take_lanes(const uint8_t* __restrict a, SumTile& __restrict sum) {
  for (uint32_t e = 0; e < kTileValues; ++e) sum.lane[e] = a[e];
}

void take_lanes(const uint8_t* __restrict a, const uint8_t* __restrict b, SumTile& __restrict sum) {
  for (uint32_t e = 0; e < kTileValues; ++e) sum.lane[e] = static_cast<uint16_t>(a[e] + b[e]);
}

void add_lanes(const uint8_t* __restrict a, const uint8_t* __restrict b, SumTile& __restrict sum) {
  for (uint32_t e = 0; e < kTileValues; ++e) {
    sum.lane[e] = static_cast<uint16_t>(sum.lane[e] + a[e] + b[e]);
  }
}

/** Adds the lanes of ranks first_rank .. first_rank + rank_count - 1, two at a time. */
template <uint32_t kBits>
void add_ranks(const ReduceManyArgs& args, const Tile& tile, uint32_t first_rank,
               uint32_t rank_count, SumTile& sum) {
  CodeTile local[2], lanes[2];
  const auto operand = [&](uint32_t rank) {
    const uint8_t* byte = load_codes<kBits>(args.words[rank], tile, local[rank % 2]);
    return lanes_of<kBits>(byte, lanes[rank % 2]);
  };
  const uint32_t end = first_rank + rank_count;
  uint32_t rank = first_rank + (rank_count % 2 == 0 ? 2 : 1);
  if (rank_count % 2 == 0) {
    take_lanes(operand(first_rank), operand(first_rank + 1), sum);
  } else {
    take_lanes(operand(first_rank), sum);
  }
  for (; rank < end; rank += 2) add_lanes(operand(rank), operand(rank + 1), sum);
}

void subtract_offset(const SumTile& __restrict sum, int32_t offset, float* __restrict value) {
  for (uint32_t e = 0; e < kTileValues; ++e) {
    value[e] = static_cast<float>(static_cast<int32_t>(sum.lane[e]) - offset);
  }
}

/** More ranks than 16 bits hold: groups of them, added in 32 bits. */
template <uint32_t kBits>
void add_many_ranks(const ReduceManyArgs& args, const Tile& tile, int32_t offset,
                    float* __restrict value) {
  alignas(64) int32_t total[kTileValues];
  for (uint32_t e = 0; e < kTileValues; ++e) total[e] = -offset;
  for (uint32_t first = 0; first < args.coding.ranks; first += kNarrowSums) {
    const uint32_t left = args.coding.ranks - first;
    SumTile sum;
    add_ranks<kBits>(args, tile, first, left < kNarrowSums ? left : kNarrowSums, sum);
    for (uint32_t e = 0; e < kTileValues; ++e) total[e] += sum.lane[e];
  }
  for (uint32_t e = 0; e < kTileValues; ++e) value[e] = static_cast<float>(total[e]);
}

void add_weighted_lanes(const uint8_t* __restrict lane, uint32_t weight,
                        int32_t* __restrict total) {
  for (uint32_t e = 0; e < kTileValues; ++e) total[e] += static_cast<int32_t>(weight * lane[e]);
}

/** Codes of means, each as often as it has ranks. */
template <uint32_t kBits>
void add_means(const ReduceManyArgs& args, const Tile& tile, int32_t offset,
               float* __restrict value) {
  alignas(64) int32_t total[kTileValues];
  for (uint32_t e = 0; e < kTileValues; ++e) total[e] = -offset;
  for (uint32_t k = 0; k < args.weight_count; ++k) {
    CodeTile local, lanes;
    const uint8_t* byte = load_codes<kBits>(args.words[k], tile, local);
    add_weighted_lanes(lanes_of<kBits>(byte, lanes), args.weights[k], total);
  }
  for (uint32_t e = 0; e < kTileValues; ++e) value[e] = static_cast<float>(total[e]);
}

/** Adds the lanes, each code + s, and takes the offsets of all ranks away at once. */
template <uint32_t kBits>
const float* add_linear(const ReduceManyArgs& args, const Tile& tile, ValueTile& values) {
  const int32_t offset = static_cast<int32_t>(args.coding.ranks * args.coding.steps);
  if (args.weights != nullptr) {
    add_means<kBits>(args, tile, offset, values.value);
  } else if (args.coding.ranks > kNarrowSums) {
    add_many_ranks<kBits>(args, tile, offset, values.value);
  } else {
    SumTile sum;
    add_ranks<kBits>(args, tile, 0, args.coding.ranks, sum);
    subtract_offset(sum, offset, values.value);
  }
  return values.value;
}

/** Values need no weights: sums of them are sums. */
void add_none(const ReduceManyArgs& args) {
  for_each_tile(args.range, [&](const Tile& tile) {
    ValueTile sum;
    memcpy(sum.value, args.words[0] + tile.offset, tile.count * sizeof(float));
    for (uint32_t k = 1; k < operand_count(args); ++k) {
      const uint32_t* operand = args.words[k] + tile.offset;
      for (uint32_t e = 0; e < tile.count; ++e) {
        sum.value[e] = canonical(sum.value[e] + float_from_bits(operand[e]));
      }
    }
    write_bytes(args.out_words + tile.offset, sum.value, tile.count * sizeof(float),
                args.nontemporal);
  });
}

/** Wide sums under one scale: `full`, where all ranks hold their top code, is the most they are. */
template <typename Encoder, typename Add>
struct SumSource {
  const Encoder& encoder;
  const ReduceManyArgs& args;
  Add add;
  double full;

  SegmentMap map(const Tile&) const { return SegmentMap{0, 63}; }

  const float* load(const Tile& tile, ValueTile& local, ScaleSet& scales) const {
    if (tile.offset == 0) {
      NormSet set;
      fill_norms(static_cast<float>(full), set);
      fill_scales(encoder, set, scales);
    }
    return add(args, tile, local);
  }

  void prefetch(const Tile&, uint32_t, uint32_t) const {}
};

uint32_t larger(uint32_t a, uint32_t b) { return a > b ? a : b; }

void clear_from(uint32_t first, ValueTile& sums) {
  for (uint32_t e = first; e < kTileValues; ++e) sums.value[e] = 0;
}

/** What rescaled() makes of each norm, in place. `full_of(k)` is the sum of block k where all ranks
 *  hold their top code. Loops apart: so gcc makes vectors of them. */
template <typename FullOf>
GQ_INLINE void rescale_norms(FullOf full_of, const uint32_t* __restrict peaks,
                             NormSet& __restrict norms, uint16_t* __restrict codes) {
  alignas(64) float usable[kNormsAtOnce], sum_norm[kNormsAtOnce];
  alignas(64) uint16_t code[kNormsAtOnce];
  for (uint32_t k = 0; k < kNormsAtOnce; ++k) usable[k] = usable_norm(norms.norm[k]);
  for (uint32_t k = 0; k < kNormsAtOnce; ++k) {
    code[k] = rescaled_code(usable[k], float_from_bits(peaks[k]), full_of(k));
  }
  for (uint32_t k = 0; k < kNormsAtOnce; ++k) {
    sum_norm[k] = rescaled_sum_norm(code[k], usable[k], full_of(k));
  }
  for (uint32_t k = 0; k < kNormsAtOnce; ++k) {
    const bool is_zero = magnitude_bits(norms.norm[k]) == 0, has_scale = is_usable(norms.norm[k]);
    const uint16_t other = is_zero ? uint16_t{0} : kNormCodeNan;
    codes[k] = has_scale ? code[k] : other;
    norms.norm[k] = float_from_bits(has_scale ? float_bits(sum_norm[k]) : 0);
  }
}

/** Scales of blocks by their norms; `full` is the sum where all ranks hold their top code. */
struct ScalesByNorms {
  double full;

  static void load(const Norms& norms, const Tile& tile, NormSet& set) { norms.load(tile, set); }
  __attribute__((noinline)) void make(const uint32_t* peaks, NormSet& norms,
                                      uint16_t* codes) const {
    const double all = full;
    rescale_norms([&](uint32_t) { return all; }, peaks, norms, codes);
  }
};

/** Wide sums of which each block gets a scale of its own (rescale). A stretch is added at once, so
 *  that its blocks' scales are made at once. Blocks longer than that are added twice, for their
 *  peak and for their codes: that needs no memory. */
template <typename Sums, typename Encoder, typename Add, typename Scales>
class RescaledSource {
 public:
  RescaledSource(const Encoder& encoder, const ReduceManyArgs& args, Add add, Scales scales)
      : encoder_(encoder),
        args_(args),
        add_(add),
        scales_(scales),
        block_(args.coding.block),
        stretch_(Norms::stretch_of(block_)),
        norms_(args.norms, args.coding, args.range.value_count) {}

  SegmentMap map(const Tile& tile) const { return norms_.map(tile); }

  const auto* load(const Tile& tile, ValueTile&, ScaleSet& scales) {
    if (norms_.begin_with(tile)) {
      add_stretch(tile.offset);
      if (tile.offset % block_ == 0) rescale_from(tile, scales);
      if (is_end_of_block(tile.offset + stretch_)) write_scales(tile.offset / block_);
    }
    return sums_[tile.offset % stretch_ / kTileValues].value;
  }

  /** The same part of a tile of the next stretch. While codes are made no operand is read, and
   *  prefetchers lose track. */
  GQ_INLINE void prefetch(const Tile& tile, uint32_t first, uint32_t end) const {
    const size_t ahead = tile.offset + kStretchValues;
    prefetch_sum(args_, ahead + first, ahead + end);
  }

 private:
  /** Sums, and zeros beyond the last, with the largest magnitude of each block among them. */
  void add_stretch(size_t first) {
    for (uint32_t k = 0; k < kNormsAtOnce; ++k) peaks_[k] = 0;
    const size_t count = args_.range.value_count;
    for (size_t done = 0; done < stretch_; done += kTileValues) {
      const size_t left = first + done < count ? count - first - done : 0;
      const Tile tile{first + done, left < kTileValues ? static_cast<uint32_t>(left) : kTileValues};
      Sums& sums = sums_[done / kTileValues];
      if (left > 0) add_(args_, tile, sums);
      clear_from(tile.count, sums);
      PeakTile peaks;
      find_peaks(sums.value, peaks);
      merge_peaks(norms_.map(tile), peaks);
    }
  }

  /** Segments of a block follow each other: memory is written once for each block. Not inlined: gcc
   *  would take each magnitude out of vectors that are in memory anyway. */
  __attribute__((noinline)) void merge_peaks(SegmentMap map, const PeakTile& peaks) {
    const uint32_t in_block = map.is_one() ? kTileSegments : (1u << map.shift) / kSegmentValues;
    for (uint32_t first = 0; first < kTileSegments; first += in_block) {
      uint32_t largest = peaks_[map[first]];
      for (uint32_t s = first; s < first + in_block; ++s) {
        largest = larger(largest, peaks.magnitude[s]);
      }
      peaks_[map[first]] = largest;
    }
  }

  /** Makes the scales of blocks that begin in the stretch of this tile. */
  void rescale_from(const Tile& tile, ScaleSet& scales) {
    NormSet set;
    scales_.load(norms_, tile, set);
    if (block_ > stretch_) add_rest_of_block(tile.offset);
    scales_.make(peaks_, set, codes_);
    fill_scales(encoder_, set, scales);
  }

  /** Blocks from `first` on whose scales are made at once. */
  size_t blocks_from(size_t first) const {
    const size_t left = norm_count(block_, false, args_.range.value_count) - first;
    const size_t count = block_ > stretch_ ? 1 : stretch_ / block_;
    return count < left ? count : left;
  }

  bool is_end_of_block(size_t end) const {
    return end % block_ == 0 || end >= args_.range.value_count;
  }

  /** Once all of their blocks is added: an operand's scales may have been there. */
  void write_scales(size_t first) {
    memcpy(args_.out_scales + first, codes_, blocks_from(first) * sizeof *codes_);
  }

  /** The peak of a long block; then its first stretch again. */
  void add_rest_of_block(size_t first) {
    const size_t left = args_.range.value_count - first;
    const size_t end = first + (left < block_ ? left : block_);
    uint32_t peak = peaks_[0];
    for (size_t at = first + stretch_; at < end; at += stretch_) {
      add_stretch(at);
      peak = larger(peak, peaks_[0]);
    }
    add_stretch(first);
    peaks_[0] = peak;
  }

  const Encoder& encoder_;
  const ReduceManyArgs& args_;
  Add add_;
  Scales scales_;
  uint32_t block_;
  size_t stretch_;
  Norms norms_;
  uint32_t peaks_[kNormsAtOnce];
  uint16_t codes_[kNormsAtOnce];
  Sums sums_[kStretchValues / kTileValues];
};

/** full: the sum where all ranks hold their top code. */
template <typename Encoder, typename Add>
void encode_sums(const Encoder& encoder, const ReduceManyArgs& args, double full, Add add) {
  const Thresholds thresholds = encode_thresholds_of(args);
  const Rounding rounding = args.coding.rounding;
  if (args.coding.rescale) {
    RescaledSource<ValueTile, Encoder, Add, ScalesByNorms> source(encoder, args, add, {full});
    encode_range(encoder, source, args.range, thresholds, rounding,
                 {args.out_words, args.nontemporal});
  } else {
    SumSource<Encoder, Add> source{encoder, args, add, full};
    encode_range(encoder, source, args.range, thresholds, rounding,
                 {args.out_words, args.nontemporal});
  }
}

#if GQ_VECTOR_BYTES == 0

bool reduce_many_vectors(const ReduceManyArgs&) { return false; }

#else

/** False for sums that vectors have no form of their own for. */
bool reduce_many_vectors(const ReduceManyArgs& args) {
  if (is_mean(args)) {
    reduce_many_mean(args);
    return true;
  }
  if (is_sum_of_powers(args)) {
    reduce_many_powers(args);
    return true;
  }
  if (!is_rescaled_bytes(args)) return false;
  using Add = void (*)(const ReduceManyArgs&, const Tile&, HalfTile&);
  const ByteSumEncoder encoder;
  const double full = static_cast<double>(args.coding.ranks) * args.coding.steps;
  RescaledSource<HalfTile, ByteSumEncoder, Add, ScalesByNorms> source(encoder, args,
                                                                      add_tile_of_bytes, {full});
  encode_range(encoder, source, args.range, encode_thresholds_of(args),
               args.coding.rounding, {args.out_words, args.nontemporal});
  return true;
}

#endif

template <uint32_t kBits>
void reduce_many_means(const ReduceManyArgs& args) {
  using Source = RescaledSource<ValueTile, LinearEncoder<kBits>,
                                void (*)(const ReduceManyArgs&, const Tile&, ValueTile&),
                                ScalesByPeaks>;
  const LinearEncoder<kBits> encoder{args.coding.steps_down};
  Source source(encoder, args, add_scaled_means<kBits>, {});
  encode_range(encoder, source, args.range, encode_thresholds_of(args),
               args.coding.rounding, {args.out_words, args.nontemporal});
}

template <uint32_t kBits>
void reduce_many_linear(const ReduceManyArgs& args) {
  if (args.operand_scales_bytes != 0) return reduce_many_means<kBits>(args);
  const Coding& coding = args.coding;
  const double full = static_cast<double>(coding.ranks) * coding.steps;
  if (coding.bits_down == 8) {
    encode_sums(LinearEncoder<8>{coding.steps_down}, args, full, add_linear<kBits>);
  } else {
    encode_sums(LinearEncoder<4>{coding.steps_down}, args, full, add_linear<kBits>);
  }
}

template <uint32_t kBits>
void reduce_many_exponential(const ReduceManyArgs& args) {
  const double full = args.coding.ranks;
  if (args.coding.bits_down == 8) {
    encode_sums(ExponentialEncoder<8, 0>{0}, args, full, add_exponential<kBits, 0>);
  } else {
    encode_sums(ExponentialEncoder<4, 0>{0}, args, full, add_exponential<kBits, 0>);
  }
}

void reduce_many_fine(const ReduceManyArgs& args) {
  const double full = static_cast<double>(args.coding.ranks) * exponential_top(2);
  encode_sums(ExponentialEncoder<8, 2>{0}, args, full, add_exponential<8, 2>);
}

void reduce_many_adaptive(const ReduceManyArgs& args);

/** Without levels there are no norms and no scales. */
__attribute__((noinline)) void reduce_many_any(const ReduceManyArgs& args) {
  if (args.coding.adaptive()) return reduce_many_adaptive(args);
  const bool byte_codes = args.coding.bits == 8;
  switch (args.coding.levels) {
    case Levels::linear:
      return byte_codes ? reduce_many_linear<8>(args) : reduce_many_linear<4>(args);
    case Levels::exponential:
      if (args.coding.mantissa_bits > 0) return reduce_many_fine(args);
      return byte_codes ? reduce_many_exponential<8>(args) : reduce_many_exponential<4>(args);
    case Levels::none:
      return add_none(args);
    case Levels::bf16:
    case Levels::fp16:
      return reduce_many_narrow(args, operand_count(args));
    case Levels::rice:
      break;  // decode_rice and encode_rice
  }
}

StageError reduce_many(const ReduceManyArgs& args) {
  const FloatEnvironment environment;
  const ReduceManyArgs coded = with_coded_range(args);
  if (args.coding.adaptive() || !reduce_many_vectors(coded)) reduce_many_any(coded);
  if (args.nontemporal) end_nontemporal_stores();
  return {};
}
