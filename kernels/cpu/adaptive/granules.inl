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
    norm_blocks(here, args.range.group.stride_values);
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
