// Dequantize stage: codes back to values of any element type.

/** What one level, or the norm, is in the result, for each block. */
struct StepSet {
  alignas(64) float step[kNormsAtOnce];
  uint32_t constants;  ///< bit k: scale k is zero or not finite
};

/** `step_of(k, scale)` is the step of block k under a finite scale. gcc makes vectors of several
 *  loops and of choices between integers, in a function that is not inlined. */
template <uint32_t kBlocks, typename StepOf>
GQ_INLINE void fill_steps_of(StepOf step_of, const NormSet& __restrict scales,
                             StepSet& __restrict steps) {
  alignas(64) float usable[kBlocks];
  for (uint32_t k = 0; k < kBlocks; ++k) usable[k] = usable_norm(scales.norm[k]);
  for (uint32_t k = 0; k < kBlocks; ++k) steps.step[k] = step_of(k, usable[k]);
  uint32_t constants = 0;
  for (uint32_t k = 0; k < kBlocks; ++k) {
    const float scale = scales.norm[k];
    const bool constant = !is_usable(scale);
    const uint32_t result = magnitude_bits(scale) == 0 ? 0 : kFloatNanBits;
    steps.step[k] = float_from_bits(constant ? result : float_bits(steps.step[k]));
    constants |= static_cast<uint32_t>(constant) << k;
  }
  steps.constants = constants;
}

template <typename Decoder>
void fill_steps(const Decoder& decoder, const NormSet& scales, StepSet& steps) {
  const auto step_of = [&](uint32_t, float scale) { return decoder.step(scale); };
  fill_steps_of<kNormsAtOnce>(step_of, scales, steps);
}

/** A scale of zero, or one that is not finite, determines the result, whatever the codes. */
void write_constants(const StepSet& steps, SegmentMap map, float* value) {
  for (uint32_t s = 0; s < kTileSegments; ++s) {
    if ((steps.constants >> map[s] & 1) == 0) continue;
    for (uint32_t k = 0; k < kSegmentValues; ++k) {
      value[s * kSegmentValues + k] = steps.step[map[s]];
    }
  }
}

/** Linear codes that have one step. */
template <uint32_t kCount>
GQ_INLINE void decode_lanes(const uint8_t* __restrict lane, uint32_t top, float step,
                            float* __restrict value) {
#if GQ_VECTOR_BYTES == 0
  for (uint32_t e = 0; e < kCount; ++e) value[e] = linear_decode(lane[e], top, step);
#else
  for (uint32_t e = 0; e < kCount; e += GQ_VECTOR_BYTES / sizeof *value) {
    const Integers codes = unsigned_integers_at(lane + e) - static_cast<int32_t>(top);
    const Floats values = __builtin_convertvector(codes, Floats) * step;
    memcpy(value + e, &values, sizeof values);
  }
#endif
}

/** A tile of them. gcc makes vectors of half a line of it: slower than above in a cache, but 1.1
 *  times as fast where caches have no room for the results. */
void decode_tile_to_memory(const uint8_t* __restrict lane, uint32_t top, float step,
                           float* __restrict value) {
  for (uint32_t s = 0; s < kTileSegments; ++s) {
    for (uint32_t e = s * kSegmentValues; e < (s + 1) * kSegmentValues; ++e) {
      value[e] = linear_decode(lane[e], top, step);
    }
  }
}

struct LinearDecoder {
  uint32_t top;
  uint32_t multiplier;
  bool to_memory;  ///< caches have no room for the results

  float step(float scale) const { return linear_step(scale, multiplier, top); }

  void decode(const uint8_t* __restrict lane, const StepSet& __restrict steps, SegmentMap map,
              uint64_t, float* __restrict value) const {
    if (GQ_VECTOR_BYTES == kLineBytes && to_memory && map.is_one()) {
      return decode_tile_to_memory(lane, top, steps.step[map[0]], value);
    }
    for (uint32_t s = 0; s < kTileSegments; ++s) {
      const uint32_t first = s * kSegmentValues;
      decode_lanes<kSegmentValues>(lane + first, top, steps.step[map[s]], value + first);
    }
  }
};

/** Takes off what the re-encode added: the thresholds are known to all ranks. */
struct SubtractiveDecoder {
  uint32_t top;
  uint32_t multiplier;
  TileStream stream;

  float step(float scale) const { return subtractive_step(scale, multiplier, top); }

  void decode(const uint8_t* __restrict lane, const StepSet& __restrict steps, SegmentMap map,
              uint64_t first_value, float* __restrict value) const {
    BitsTile bits;
    fill_bits(stream, first_value, bits);
    for (uint32_t s = 0; s < kTileSegments; ++s) {
      const float step = steps.step[map[s]];
      for (uint32_t e = s * kSegmentValues; e < (s + 1) * kSegmentValues; ++e) {
        value[e] = subtractive_decode(lane[e], top, step, bits.bits[e]);
      }
    }
  }
};

template <uint32_t kBits, uint32_t kMantissaBits>
struct ExponentialDecoder {
  uint32_t one;  ///< the code of the norm
  uint32_t ranks;
  bool added, mean;

  float step(float scale) const {
    return exponential_unit(scale, added, mean, ranks, kMantissaBits);
  }

  void decode(const uint8_t* __restrict lane, const StepSet& __restrict steps, SegmentMap map,
              uint64_t, float* __restrict value) const {
    alignas(64) uint16_t upper[kTileValues];
    fill_levels<kBits, kMantissaBits>(lane, one, upper);
    for (uint32_t s = 0; s < kTileSegments; ++s) {
      const float step = steps.step[map[s]];
      for (uint32_t e = s * kSegmentValues; e < (s + 1) * kSegmentValues; ++e) {
        value[e] = float_from_upper(upper[e]) * step;
      }
    }
  }
};

/** Whether values of a whole tile are computed where they belong. Those of non-temporal stores are
 *  computed in a cache first, for they are stored by whole lines. */
GQ_INLINE bool is_at_once(const DequantizeArgs& args, const Tile& tile) {
  return is_full(tile) && args.dtype == GQSGD_FLOAT32 && !args.nontemporal;
}

/** Stores the results of a tile. */
template <typename Element>
void store_elements(const DequantizeArgs& args, const Tile& tile, const Element* from) {
  write_bytes(static_cast<Element*>(args.values) + tile.offset, from,
              tile.count * sizeof(Element), args.nontemporal);
}

/** Writes decoded values as elements narrower than float32. While they are rounded nothing else is
 *  written, and prefetchers lose track: the next tile's elements are prefetched. */
template <bool kNearest>
void store_narrow(const DequantizeArgs& args, const Tile& tile, const float* value) {
  if (!args.nontemporal) {
    const size_t next = tile.offset + kTileValues;
    prefetch_codes<1>(static_cast<const uint32_t*>(args.values), 16, next, next + kTileValues);
  }
  BitsTile bits;
  const RandomStream stream = shared_stream_of(args.random, Draw::output);
  if (!kNearest) fill_bits(stream, args.range.first_value + tile.offset, bits);
  alignas(64) uint16_t elements[kTileValues];
  if (args.dtype == GQSGD_FLOAT16) {
    narrow_tile<Levels::fp16, kNearest>(value, bits, elements);
  } else {
    narrow_tile<Levels::bf16, kNearest>(value, bits, elements);
  }
  store_elements(args, tile, elements);
}

void store_values(const DequantizeArgs& args, const Tile& tile, const float* value) {
  if (args.dtype == GQSGD_FLOAT32) {
    store_elements(args, tile, value);
  } else if (args.dtype == GQSGD_FLOAT64) {
    double* target = static_cast<double*>(args.values) + tile.offset;
    for (uint32_t e = 0; e < tile.count; ++e) target[e] = static_cast<double>(value[e]);
  } else if (args.coding.rounding == Rounding::nearest) {
    store_narrow<true>(args, tile, value);
  } else {
    store_narrow<false>(args, tile, value);
  }
}

/** Decodes the tiles of a range, those of a stretch in order. */
template <uint32_t kBits, typename Decoder>
class TileDecoder {
 public:
  TileDecoder(const Decoder& decoder, const DequantizeArgs& args)
      : decoder_(decoder), args_(args), norms_(args.scales, args.coding, args.range.value_count) {
    if (args.scales.blocks != nullptr) return;
    for (StepSet& steps : steps_) load_steps(Tile{}, steps);
  }

  /** place: one of the stretches under way. */
  void decode(const Tile& tile, size_t place, float* value) {
    StepSet& steps = steps_[place];
    if (norms_.begin_with(tile)) load_steps(tile, steps);
    CodeTile codes, lanes;
    const uint8_t* byte = load_codes<kBits>(args_.words, tile, codes);
    const SegmentMap map = norms_.map(tile);
    decoder_.decode(lanes_of<kBits>(byte, lanes), steps, map, args_.range.first_value + tile.offset,
                    value);
    if (steps.constants != 0) write_constants(steps, map, value);
  }

 private:
  void load_steps(const Tile& tile, StepSet& steps) const {
    NormSet scales;
    norms_.load(tile, scales);
    fill_steps(decoder_, scales, steps);
  }

  const Decoder& decoder_;
  const DequantizeArgs& args_;
  Norms norms_;
  StepSet steps_[kPlaces];
};

constexpr size_t at_most_one_rotation(size_t value_count) {
  return value_count < kRotationValues ? value_count : kRotationValues;
}

/** Decodes the codes of one rotation after the other and applies the inverse rotation. */
template <typename Tiles>
void dequantize_rotated(Tiles& tiles, const DequantizeArgs& args) {
  Signs signs(args.random, args.range.first_value);
  const size_t value_count = args.range.value_count;
  const size_t coded_count = static_cast<size_t>(code_count(true, value_count));
  for (size_t first = 0; first < value_count; first += kRotationValues) {
    const Range codes{0, at_most_one_rotation(coded_count - first)};
    const Range left{0, at_most_one_rotation(value_count - first)};
    RotationBuffer buffer;
    for_each_tile(codes, [&](const Tile& tile) {
      tiles.decode(Tile{first + tile.offset, tile.count}, 0, buffer.value + tile.offset);
    });
    const bool is_whole = left.value_count == kRotationValues;
    const bool at_once = is_whole && args.dtype == GQSGD_FLOAT32;
    const uint32_t* const own_signs = signs.of_rotation(first);
    float* const values = static_cast<float*>(args.values) + first;
    if (at_once && args.nontemporal) {
      prefetch_next_page(values);
      rotate_whole_back<true>(own_signs, buffer, values);
    } else if (is_whole) {
      rotate_whole_back<false>(own_signs, buffer, at_once ? values : buffer.value);
    } else {
      rotate_last_back(own_signs, left.value_count, buffer);
    }
    if (at_once) continue;
    for_each_tile(left, [&](const Tile& tile) {
      store_values(args, Tile{first + tile.offset, tile.count}, buffer.value + tile.offset);
    });
  }
}

template <uint32_t kBits, typename Decoder>
void dequantize_range(const Decoder& decoder, const DequantizeArgs& args) {
  TileDecoder<kBits, Decoder> tiles(decoder, args);
  if (args.coding.rotated) return dequantize_rotated(tiles, args);
  for_each_tile_apart(args.range, [&](const Tile& tile, size_t place) {
    if (args.nontemporal) prefetch_next_page(values_from(args.values, args.dtype, tile.offset));
    if (is_at_once(args, tile)) {
      tiles.decode(tile, place, static_cast<float*>(args.values) + tile.offset);
      return;
    }
    ValueTile values;
    tiles.decode(tile, place, values.value);
    store_values(args, tile, values.value);
  });
}

template <typename Decoder>
void dequantize_codes(const Decoder& decoder, const DequantizeArgs& args) {
  if (args.coding.bits_down == 8) return dequantize_range<8>(decoder, args);
  dequantize_range<4>(decoder, args);
}

void dequantize_linear(const DequantizeArgs& args, bool to_memory) {
  const Coding& coding = args.coding;
  const bool exact = coding.combine == Combine::exact && !coding.wide;
  const uint32_t top = coding.wide ? coding.steps_down : coding.steps * (exact ? coding.ranks : 1);
  const uint32_t multiplier = args.op == GQSGD_SUM ? coding.ranks : 1;
  if (coding.wide && coding.rounding_down == RoundingDown::subtractive) {
    const RandomStream stream = shared_stream_of(args.random, Draw::subtractive);
    dequantize_codes(SubtractiveDecoder{top, multiplier, stream}, args);
  } else {
    dequantize_codes(LinearDecoder{top, multiplier, to_memory}, args);
  }
}

template <uint32_t kBits, uint32_t kMantissaBits>
void dequantize_exponential(const DequantizeArgs& args) {
  const Coding& coding = args.coding;
  const bool added = coding.combine == Combine::sum && !coding.wide;
  const uint32_t one = code_max(kBits) - coding.headroom;
  const ExponentialDecoder<kBits, kMantissaBits> decoder{one, coding.ranks, added,
                                                         args.op == GQSGD_MEAN};
  dequantize_range<kBits>(decoder, args);
}

void divide_sums(const uint32_t* __restrict word, float divisor, float* __restrict value) {
  for (uint32_t e = 0; e < kTileValues; ++e) {
    value[e] = canonical(float_from_bits(word[e]) / divisor);
  }
}

void dequantize_none(const DequantizeArgs& args) {
  const float divisor = result_divisor(args.op, args.coding.ranks);
  for_each_tile(args.range, [&](const Tile& tile) {
    if (is_at_once(args, tile)) {
      divide_sums(args.words + tile.offset, divisor,
                  static_cast<float*>(args.values) + tile.offset);
      return;
    }
    alignas(64) uint32_t sums[kTileValues] = {};
    memcpy(sums, args.words + tile.offset, tile.count * sizeof(uint32_t));
    ValueTile values;
    divide_sums(sums, divisor, values.value);
    store_values(args, tile, values.value);
  });
}

void dequantize_adaptive(const DequantizeArgs& args);

__attribute__((noinline)) void dequantize_any(const DequantizeArgs& args, bool to_memory) {
  if (args.coding.adaptive()) return dequantize_adaptive(args);
  if (args.coding.levels == Levels::none) return dequantize_none(args);
  if (is_narrow(args.coding.levels)) return dequantize_narrow(args, store_values);
  if (args.coding.levels == Levels::linear) return dequantize_linear(args, to_memory);
  if (args.coding.mantissa_bits > 0) return dequantize_exponential<8, 2>(args);
  if (args.coding.bits_down == 8) return dequantize_exponential<8, 0>(args);
  dequantize_exponential<4, 0>(args);
}

/** Whether non-temporal stores of a stage's results are faster from memory. Lines that two tiles
 *  share hold up what is stored behind them, and without codes as much is read as written. Vectors
 *  of whole lines need not read what they replace, but where it is not stored in a few places in
 *  order: with norms of blocks, in granules and by rotations. Rotations with shorter vectors take
 *  longer to compute than to store (docs/results/stage-changes.md). */
bool gains_by_nontemporal(const DequantizeArgs& args) {
  const Coding& coding = args.coding;
  const bool has_codes = coding.levels != Levels::none && !is_narrow(coding.levels);
  const bool aligned = reinterpret_cast<uintptr_t>(args.values) % kLineBytes == 0;
  const bool whole_lines = GQ_VECTOR_BYTES == kLineBytes;
  const bool gains = whole_lines ? coding.rotated || coding.block > 0 : !coding.rotated;
  return GQ_NONTEMPORAL != 0 && has_codes && gains && aligned;
}

StageError dequantize(const DequantizeArgs& args) {
  if (args.range.value_count == 0) return {};  // Then pointers may be null.
  const FloatEnvironment environment;
  DequantizeArgs here = args;
  here.nontemporal = args.nontemporal && gains_by_nontemporal(args);
  dequantize_any(here, args.nontemporal);
  if (here.nontemporal) end_nontemporal_stores();
  return {};
}
