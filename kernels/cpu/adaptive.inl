// Stages of adaptive widths (docs/FORMAT.md, section 16). They go through the granules of a group;
// inside one, codes are lanes of a byte as in other formats, and only memory has planes.

/** A granule of a range: where its values begin in the caller's buffer, and its blocks. */
struct Granule {
  uint64_t first_value;  ///< in the call
  size_t offset;         ///< in the buffer
  uint32_t value_count;
  uint32_t first_block;  ///< in the group

  uint32_t block_count() const { return (value_count + kAdaptiveBlock - 1) / kAdaptiveBlock; }
};

/** Calls `work(granule)` for each granule of the range. */
template <typename Work>
void for_each_granule(const Range& range, Work work) {
  Granule granule{range.first_value, 0, 0, range.group.first_block};
  for (size_t left = range.value_count; left > 0; left -= granule.value_count) {
    granule.value_count = left < kGranuleValues ? static_cast<uint32_t>(left) : kGranuleValues;
    work(granule);
    granule.first_value += range.group.stride_values;
    granule.offset += range.group.stride_values;
    granule.first_block += kGranuleBlocks;
  }
}

static_assert(kNormsAtOnce % kGranuleBlocks == 0, "a set of norms has those of whole granules");
static_assert(kGranuleValues % kTileValues == 0, "a granule is whole tiles");

constexpr uint32_t kSetGranules = kNormsAtOnce / kGranuleBlocks;
constexpr uint32_t kSetValues = kSetGranules * kGranuleValues;
constexpr uint32_t kSetTiles = kSetValues / kTileValues;

/** Granules that follow each other in a group, whose blocks' norms are one set. */
struct GranuleSet {
  Range range;
  size_t offset;  ///< of the first value, in the buffer

  uint32_t first_block() const { return range.group.first_block; }
  uint32_t block_count() const {
    return static_cast<uint32_t>((range.value_count + kAdaptiveBlock - 1) / kAdaptiveBlock);
  }
  /** A tile of one of them, by its place among the values of the set. */
  Tile tile_of(const Granule& granule, const Tile& tile) const {
    const size_t before = size_t{granule.first_block - first_block()} * kAdaptiveBlock;
    return {before + tile.offset, tile.count};
  }
};

/** Calls `work(set)` for the granules of the range. */
template <typename Work>
void for_each_set(const Range& range, Work work) {
  GranuleSet set{range, 0};
  for (size_t left = range.value_count; left > 0; left -= set.range.value_count) {
    set.range.value_count = left < kSetValues ? left : kSetValues;
    work(set);
    set.range.first_value += kSetGranules * range.group.stride_values;
    set.offset += kSetGranules * range.group.stride_values;
    set.range.group.first_block += kNormsAtOnce;
  }
}

/** The tiles of a granule, offsets from its own begin. */
template <typename Work>
void for_each_tile_of(const Granule& granule, Work work) {
  for_each_tile(Range{granule.first_value, granule.value_count}, work);
}

constexpr uint32_t kTileBlocks = kTileValues / kAdaptiveBlock;

uint32_t blocks_of(const Tile& tile) { return (tile.count + kAdaptiveBlock - 1) / kAdaptiveBlock; }

/** Steps s of the values of a tile, of which each block has its own. */
struct BlockSteps {
  const uint32_t* of_block;
  GQ_INLINE uint32_t operator()(uint32_t e) const { return of_block[e / kAdaptiveBlock]; }
};

/** Norms or scales of the blocks of a set, and zeros for those that it lacks. */
void load_norms(const uint16_t* codes, const GranuleSet& set, NormSet& norms) {
  alignas(64) uint16_t code[kNormsAtOnce] = {};
  if (set.block_count() == kNormsAtOnce) {  // without a call
    memcpy(code, codes + set.first_block(), sizeof code);
  } else {
    memcpy(code, codes + set.first_block(), set.block_count() * sizeof *code);
  }
  for (uint32_t k = 0; k < kNormsAtOnce; ++k) norms.norm[k] = norm_from_code(code[k]);
}

/** Widths of the blocks of a set, and steps s; those without codes have any. */
struct SetBlocks {
  uint32_t steps[kNormsAtOnce];
  BlockPlanes planes;

  /** plane_end: that of BlockPlanes. */
  SetBlocks(const GroupWidths& widths, const GranuleSet& set, uint32_t plane_end)
      : planes(BlockPlanes{widths.width, widths.first_plane, plane_end}.from(set.first_block())) {
    for (uint32_t k = 0; k < kNormsAtOnce; ++k) {  // widths beyond the last block are 0
      const uint32_t bits = planes.width[k];
      steps[k] = code_max(bits < kWidthMin ? kWidthMin : bits);
    }
  }
};

void fill_scales(const uint32_t* __restrict steps, const NormSet& __restrict norms,
                 ScaleSet& __restrict scales) {
  fill_scales_of([&](uint32_t k) { return encoding_scale(norms.norm[k], steps[k]); }, scales);
}

/** The map of a tile of a set to the set's norms. */
SegmentMap block_map(const Tile& tile) {
  return SegmentMap{tile.offset, block_log2(kAdaptiveBlock)};
}

/** Encodes one tile of a set, from value `first_value` of the call on, and writes its planes; lanes
 *  beyond the last value are 0. prefetch(first, end) prefetches such a part of a later tile. */
template <typename Uniforms, typename Prefetch>
void encode_blocks(const float* value, uint64_t first_value, const Tile& tile,
                   const SetBlocks& blocks, const ScaleSet& scales, const Thresholds& thresholds,
                   uint32_t* words, Prefetch prefetch) {
  prefetch(0, kPrefetchedFirst);
  Uniforms uniforms;
  uniforms.fill(thresholds, first_value);
  prefetch(kPrefetchedFirst, kTileValues);
  const size_t first = tile.offset / kAdaptiveBlock;
  CodeTile lanes;
  encode_linear(value, SegmentScales{scales, block_map(tile)}, BlockSteps{blocks.steps + first},
                uniforms, lanes.byte);
  if (!is_full(tile)) memset(lanes.byte + tile.count, 0, kTileValues - tile.count);
  pack_blocks(lanes.byte, blocks_of(tile), blocks.planes.from(first), words);
}

/** Calls `work` with the type of numbers that round. */
template <typename Work>
void with_uniforms(Rounding rounding, const Thresholds& thresholds, Work work) {
  if (rounding == Rounding::nearest) {
    work(std::type_identity<NearestUniforms>());
  } else if (thresholds.are_own()) {
    work(std::type_identity<SpreadUniforms>());
  } else if (thresholds.are_field()) {
    work(std::type_identity<FieldUniforms>());
  } else {
    work(std::type_identity<StoredUniforms>());
  }
}

/** What the widths of a group leave of its words; ranges without the group's first block leave it
 *  to the one that has it. */
void clear_unspent(const Range& range, const GroupWidths& widths, uint32_t* words) {
  if (range.group.first_block != 0) return;
  memset(words + widths.plane_count * kPlaneWords, 0,
         (range.group.plane_count - widths.plane_count) * kPlaneWords * sizeof *words);
}

/** Behind the planes of a range. */
uint32_t plane_end_of(const Range& range, const GroupWidths& widths) {
  const size_t end =
      range.group.first_block + (range.value_count + kAdaptiveBlock - 1) / kAdaptiveBlock;
  return end < kGroupBlocks ? widths.first_plane[end] : widths.plane_count;
}

__attribute__((noinline)) void norm_granules(const NormArgs& args) {
  uint16_t* codes = static_cast<uint16_t*>(args.out);
  for_each_granule(args.range, [&](const Granule& granule) {
    NormArgs here = args;
    here.range = Range{granule.first_value, granule.value_count};
    here.values = values_from(args.values, args.dtype, granule.offset);
    here.out = codes + granule.first_block;
    norm_blocks(here);
  });
}

/** Prefetches the last line of the granule that begins at `values`, whose page is new where
 *  granules begin within pages. To the first cache: prefetches to the second one seem to leave
 *  the page's address out of the TLB, and lines come late (docs/results/stage-changes.md). */
GQ_INLINE void prefetch_last_page(uintptr_t values, uint32_t value_bytes) {
  const uintptr_t last = values + (kGranuleValues - 1) * value_bytes;
  __builtin_prefetch(reinterpret_cast<const void*>(last), 0, kFirstCache);
}

/** That of the granule behind the one at `values`. */
GQ_INLINE void prefetch_next_granule(const void* values, int32_t dtype, const GroupPlace& group) {
  const uint32_t value_bytes = dtype_size_bytes(dtype);
  const uintptr_t next = reinterpret_cast<uintptr_t>(values) + group.stride_values * value_bytes;
  prefetch_last_page(next, value_bytes);
}

/** The values of a tile of the next granule, which prefetchers do not know. */
struct NextGranule {
  const float* value;  ///< null: of another type

  NextGranule(const QuantizeArgs& args, const Granule& granule, const Tile& tile)
      : value(args.dtype != GQSGD_FLOAT32 ? nullptr
                                          : static_cast<const float*>(args.values) +
                                                granule.offset + args.range.group.stride_values +
                                                tile.offset) {}

  GQ_INLINE void operator()(uint32_t first, uint32_t end) const {
    if (value != nullptr) prefetch_values<kSecondCache>(value, first, end);
  }
};

template <typename Uniforms>
void quantize_set(const QuantizeArgs& args, const GranuleSet& set, const SetBlocks& blocks,
                  const ScaleSet& scales, const Thresholds& thresholds) {
  for_each_granule(set.range, [&](Granule granule) {
    granule.offset += set.offset;
    const void* values = values_from(args.values, args.dtype, granule.offset);
    prefetch_next_granule(values, args.dtype, args.range.group);
    for_each_tile_of(granule, [&](const Tile& tile) {
      ValueTile local;
      const float* value = load_values(values, args.dtype, tile, local);
      encode_blocks<Uniforms>(value, granule.first_value + tile.offset, set.tile_of(granule, tile),
                              blocks, scales, thresholds, args.words,
                              NextGranule(args, granule, tile));
    });
  });
}

__attribute__((noinline)) void quantize_adaptive(const QuantizeArgs& args) {
  const Coding& coding = args.coding;
  GroupWidths widths;
  find_widths(args.norms.blocks, args.range.group, widths);
  clear_unspent(args.range, widths, args.words);
  const uint32_t plane_end = plane_end_of(args.range, widths);
  const Thresholds thresholds = quantize_thresholds(coding, args.random);
  with_uniforms(coding.rounding, thresholds, [&](auto uniforms) {
    for_each_set(args.range, [&](const GranuleSet& set) {
      const SetBlocks blocks(widths, set, plane_end);
      NormSet norms;
      load_norms(args.norms.blocks, set, norms);
      ScaleSet scales;
      fill_scales(blocks.steps, norms, scales);
      quantize_set<typename decltype(uniforms)::type>(args, set, blocks, scales, thresholds);
    });
  });
}

/** Wide sums of a set, tile by tile, and zeros beyond the last value. */
struct SetSums {
  ValueTile tile[kSetTiles];
  uint32_t peak[kNormsAtOnce];  ///< largest magnitude of each block, as its pattern
};

/** The sum of one block's codes, where 16 bits hold it. */
void add_block(const ReduceManyArgs& args, uint32_t width, size_t first_word,
               float* __restrict value) {
  alignas(64) uint16_t sum[kAdaptiveBlock];
  add_lanes(args.words, args.coding.ranks, width, first_word, sum);
  const int32_t offset = static_cast<int32_t>(args.coding.ranks * code_max(width));
  for (uint32_t e = 0; e < kAdaptiveBlock; ++e) {
    value[e] = static_cast<float>(static_cast<int32_t>(sum[e]) - offset);
  }
}

/** The same in 32 bits, each operand as often as it has ranks. */
void add_block_wide(const ReduceManyArgs& args, uint32_t width, size_t first_word, float* value) {
  alignas(64) uint8_t lane[kAdaptiveBlock];
  alignas(64) int32_t sum[kAdaptiveBlock] = {};
  for (uint32_t k = 0; k < operand_count(args); ++k) {
    const uint32_t weight = args.weights == nullptr ? 1 : args.weights[k];
    unpack_planes(args.words[k] + first_word, width, lane);
    for (uint32_t e = 0; e < kAdaptiveBlock; ++e) sum[e] += static_cast<int32_t>(weight * lane[e]);
  }
  const int32_t offset = static_cast<int32_t>(args.coding.ranks * code_max(width));
  for (uint32_t e = 0; e < kAdaptiveBlock; ++e) value[e] = static_cast<float>(sum[e] - offset);
}

/** Means that have scales of their own, in the order of nodes. block: in the group. */
void add_block_of_means(const ReduceManyArgs& args, uint32_t width, size_t first_word,
                        uint32_t block, float* __restrict value) {
  const uint32_t steps = code_max(width);
  for (uint32_t k = 0; k < args.weight_count; ++k) {
    const float weight = mean_weight(args.weights[k], args.coding.ranks, steps);
    const float factor = mean_factor(operand_scales(args, k)[block], weight);
    alignas(64) uint8_t lane[kAdaptiveBlock];
    unpack_planes(args.words[k] + first_word, width, lane);
    if (k == 0) {
      add_scaled<true>(lane, kAdaptiveBlock, steps, factor, value);
    } else {
      add_scaled<false>(lane, kAdaptiveBlock, steps, factor, value);
    }
  }
}

void add_codes(const ReduceManyArgs& args, const SetBlocks& blocks, uint32_t b, uint32_t block,
               float* value) {
  const uint32_t width = blocks.planes.width[b];
  const size_t first_word = blocks.planes.first_word(b);
  if (args.operand_scales_bytes != 0) {
    add_block_of_means(args, width, first_word, block, value);
  } else if (args.weights != nullptr || args.coding.ranks > kNarrowSums) {
    add_block_wide(args, width, first_word, value);
  } else {
    add_block(args, width, first_word, value);
  }
}

void add_set(const ReduceManyArgs& args, const GranuleSet& set, const SetBlocks& blocks,
                 SetSums& sums) {
  for (uint32_t b = 0; b < kNormsAtOnce; ++b) {
    float* const value = sums.tile[b / kTileBlocks].value + b % kTileBlocks * kAdaptiveBlock;
    const size_t first = b * kAdaptiveBlock;
    const size_t left = set.range.value_count > first ? set.range.value_count - first : 0;
    const uint32_t count = left < kAdaptiveBlock ? static_cast<uint32_t>(left) : kAdaptiveBlock;
    const bool has_sum = count > 0 && blocks.planes.width[b] > 0;
    if (has_sum) add_codes(args, blocks, b, set.first_block() + b, value);
    for (uint32_t e = has_sum ? count : 0; e < kAdaptiveBlock; ++e) value[e] = 0;
    uint32_t peak = 0;
    for (uint32_t e = 0; e < kAdaptiveBlock; ++e) peak = larger(peak, magnitude_bits(value[e]));
    sums.peak[b] = peak;
  }
}

/** The sum where all ranks hold the top code of a block. */
GQ_INLINE double full_sum(double ranks, const SetBlocks& blocks, uint32_t b) {
  return ranks * static_cast<int32_t>(blocks.steps[b]);
}

/** Norms with rescale, of all blocks at once: norms and peaks beyond the last are 0. */
__attribute__((noinline)) void rescale_sums(const ReduceManyArgs& args, const GranuleSet& set,
                                            const SetBlocks& blocks, const SetSums& sums,
                                            NormSet& norms) {
  const double ranks = args.coding.ranks;
  uint16_t codes[kNormsAtOnce];
  rescale_norms([&](uint32_t k) { return full_sum(ranks, blocks, k); }, sums.peak, norms, codes);
  memcpy(args.out_scales + set.first_block(), codes, set.block_count() * sizeof *codes);
}

/** Makes of a set's norms those that its sums are encoded with; with rescale they follow from
 *  the sums, and their codes are written. */
void find_sum_norms(const ReduceManyArgs& args, const GranuleSet& set,
                    const SetBlocks& blocks, const SetSums& sums, NormSet& norms) {
  if (args.coding.rescale && args.operand_scales_bytes == 0) {
    return rescale_sums(args, set, blocks, sums, norms);
  }
  for (uint32_t b = 0; b < set.block_count(); ++b) {
    const double full = full_sum(args.coding.ranks, blocks, b);
    const float norm = norms.norm[b];
    norms.norm[b] = static_cast<float>(full);
    if (!args.coding.rescale) continue;
    const bool by_peak = args.operand_scales_bytes != 0 && blocks.planes.width[b] > 0;
    const Rescaled made = by_peak ? rescaled_means(sums.peak[b])
                                  : rescaled(norm, float_from_bits(sums.peak[b]), full);
    norms.norm[b] = made.sum_norm;
    args.out_scales[set.first_block() + b] = made.code;
  }
}

template <typename Uniforms>
void encode_set(const ReduceManyArgs& args, const GranuleSet& set, const SetBlocks& blocks,
                const SetSums& sums, const ScaleSet& scales, const Thresholds& thresholds) {
  for_each_granule(set.range, [&](const Granule& granule) {
    for_each_tile_of(granule, [&](const Tile& tile) {
      const Tile of_set = set.tile_of(granule, tile);
      encode_blocks<Uniforms>(sums.tile[of_set.offset / kTileValues].value,
                              granule.first_value + tile.offset, of_set, blocks, scales,
                              thresholds, args.out_words, [](uint32_t, uint32_t) {});
    });
  });
}

__attribute__((noinline)) void reduce_many_adaptive(const ReduceManyArgs& args) {
  const Coding& coding = args.coding;
  GroupWidths widths;
  find_widths(args.norms.blocks, args.range.group, widths);
  clear_unspent(args.range, widths, args.out_words);
  const Thresholds thresholds = encode_thresholds_of(args);
  with_uniforms(coding.rounding, thresholds, [&](auto uniforms) {
    for_each_set(args.range, [&](const GranuleSet& set) {
      const SetBlocks blocks(widths, set, 0);
      SetSums sums;
      add_set(args, set, blocks, sums);
      NormSet norms;
      load_norms(args.norms.blocks, set, norms);
      find_sum_norms(args, set, blocks, sums, norms);
      ScaleSet scales;
      fill_scales(blocks.steps, norms, scales);
      encode_set<typename decltype(uniforms)::type>(args, set, blocks, sums, scales, thresholds);
    });
  });
}

/** The codes of a tile of a set, in lanes. */
void load_blocks(const uint32_t* words, const Tile& tile, const SetBlocks& blocks,
                 CodeTile& lanes) {
  const size_t first = tile.offset / kAdaptiveBlock;
  const uint32_t count = blocks_of(tile);
  unpack_blocks(words, count, blocks.planes.from(first), lanes.byte);
  if (count == kTileBlocks) return;
  memset(lanes.byte + count * kAdaptiveBlock, 0, kTileValues - count * kAdaptiveBlock);
}

/** Steps of the result for each block; top codes are those of the block's width. */
__attribute__((noinline)) void fill_linear_steps(const uint32_t* __restrict tops,
                                                 uint32_t multiplier,
                                                 const NormSet& __restrict scales,
                                                 StepSet& __restrict steps) {
  const auto step_of = [&](uint32_t k, float scale) {
    return linear_step(scale, multiplier, tops[k]);
  };
  fill_steps_of<kNormsAtOnce>(step_of, scales, steps);
}

void fill_steps(const DequantizeArgs& args, const GranuleSet& set, const uint32_t* top,
                StepSet& steps) {
  const uint32_t multiplier = args.op == GQSGD_SUM ? args.coding.ranks : 1;
  NormSet scales;
  load_norms(args.scales.blocks, set, scales);
  if (args.coding.rounding_down == RoundingDown::subtractive) {
    const auto step_of = [&](uint32_t k, float scale) {
      return subtractive_step(scale, multiplier, top[k]);
    };
    fill_steps_of<kNormsAtOnce>(step_of, scales, steps);
  } else {
    fill_linear_steps(top, multiplier, scales, steps);
  }
  steps.constants &= (1u << set.block_count()) - 1;
}

void decode_blocks(const uint32_t* words, const Tile& tile, const SetBlocks& blocks,
                   const StepSet& steps, float* __restrict value) {
  const size_t first = tile.offset / kAdaptiveBlock;
  const uint32_t* const tops = blocks.steps + first;
#if GQ_VECTOR_BYTES == 32
  const BlockPlanes planes = blocks.planes.from(first);
  if (planes.has_rows(kTileBlocks - 1)) {  // as blocks before it have
    GQ_UNROLL for (uint32_t b = 0; b < kTileBlocks; ++b) {
      decode_rows(words + planes.first_word(b), planes.width[b], tops[b], steps.step[first + b],
                  value + b * kAdaptiveBlock);
    }
    return;
  }
#endif
  CodeTile lanes;
  load_blocks(words, tile, blocks, lanes);
  for (uint32_t b = 0; b < kTileBlocks; ++b) {
    const uint32_t e = b * kAdaptiveBlock;
    decode_lanes<kAdaptiveBlock>(lanes.byte + e, tops[b], steps.step[first + b], value + e);
  }
}

void decode_subtractive(const uint32_t* words, const Tile& tile, const SetBlocks& blocks,
                        const StepSet& steps, const BitsTile& bits, float* __restrict value) {
  CodeTile lanes;
  load_blocks(words, tile, blocks, lanes);
  for (uint32_t e = 0; e < kTileValues; e += kAdaptiveBlock) {
    const size_t b = (tile.offset + e) / kAdaptiveBlock;
    for (uint32_t k = e; k < e + kAdaptiveBlock; ++k) {
      value[k] =
          subtractive_decode(lanes.byte[k], blocks.steps[b], steps.step[b], bits.bits[k]);
    }
  }
}

/** Values of one granule of a set, whose own part of the buffer `args` has. */
void dequantize_granule(const DequantizeArgs& args, const GranuleSet& set, const Granule& granule,
                        const SetBlocks& blocks, const StepSet& steps) {
  const bool subtractive = args.coding.rounding_down == RoundingDown::subtractive;
  prefetch_next_granule(args.values, args.dtype, args.range.group);
  for_each_tile_of(granule, [&](const Tile& tile) {
    const Tile of_set = set.tile_of(granule, tile);
    const bool at_once = is_at_once(args, tile);
    if (at_once) {  // the next granule's, which prefetchers do not know
      const float* const results = static_cast<const float*>(args.values) + tile.offset;
      prefetch_values<kSecondCache>(results + args.range.group.stride_values, 0, kTileValues);
    }
    ValueTile values;
    float* const value =
        at_once ? static_cast<float*>(args.values) + tile.offset : values.value;
    if (subtractive) {
      BitsTile bits;
      fill_bits(shared_stream_of(args.random, Draw::subtractive),
                granule.first_value + tile.offset, bits);
      decode_subtractive(args.words, of_set, blocks, steps, bits, value);
    } else {
      decode_blocks(args.words, of_set, blocks, steps, value);
    }
    if (steps.constants != 0) write_constants(steps, block_map(of_set), value);
    if (!at_once) store_values(args, tile, value);
  });
}

__attribute__((noinline)) void dequantize_adaptive(const DequantizeArgs& args) {
  GroupWidths widths;
  find_widths(args.norms.blocks, args.range.group, widths);
  const uint32_t plane_end = plane_end_of(args.range, widths);
  DequantizeArgs here = args;
  for_each_set(args.range, [&](const GranuleSet& set) {
    const SetBlocks blocks(widths, set, plane_end);
    StepSet steps;
    fill_steps(args, set, blocks.steps, steps);
    for_each_granule(set.range, [&](const Granule& granule) {
      here.range.first_value = granule.first_value;
      here.range.value_count = granule.value_count;
      here.values = static_cast<unsigned char*>(args.values) +
                    (set.offset + granule.offset) * dtype_size_bytes(args.dtype);
      dequantize_granule(here, set, granule, blocks, steps);
    });
  });
}
