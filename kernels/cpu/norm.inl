// Norm stage: the largest magnitude, of a range or of each block, or a sum in the one order that
// docs/FORMAT.md allows.

/** Of a tile. Where a vector is a line, loads leave the prefetchers of the hardware behind, more so
 *  the better they are aligned: the values of half a tile ahead go to the second cache. */
uint32_t largest_magnitude(const float* value) {
  constexpr uint32_t kPart = kTileValues / 4;
  uint32_t largest = 0;
  for (uint32_t first = 0; first < kTileValues; first += kPart) {
    if (GQ_VECTOR_BYTES == 64) {
      prefetch_values<kSecondCache>(value + first + kTileValues / 2, 0, kPart);
    }
    for (uint32_t e = first; e < first + kPart; ++e) {
      const uint32_t magnitude = magnitude_bits(value[e]);
      largest = magnitude > largest ? magnitude : largest;
    }
  }
  return largest;
}

Values values_of(const NormArgs& args) {
  return Values(args.values, args.dtype, args.range, args.rotated, args.random);
}

__attribute__((noinline)) void norm_inf(const NormArgs& args) {
  uint32_t largest = 0;
  Values values = values_of(args);
  values.for_each([&](const Tile& tile) {
    ValueTile local;
    const uint32_t here = largest_magnitude(values.load(tile, local));
    largest = here > largest ? here : largest;
  });
  *static_cast<uint32_t*>(args.out) = largest;
}

/** Blocks may be shorter or longer than a tile: each segment's code is merged into its block's, in
 *  any order, since codes are ordered as magnitudes are. The values `ahead` of a tile are
 *  prefetched with it. */
__attribute__((noinline)) void norm_blocks(const NormArgs& args, size_t ahead) {
  uint16_t* codes = static_cast<uint16_t*>(args.out);
  const uint32_t shift = block_log2(args.block);
  const size_t code_count = norm_count(args.block, args.rotated, args.range.value_count);
  if (code_count > 0) memset(codes, 0, code_count * sizeof *codes);  // of no value: may be null
  Values values = values_of(args);
  values.for_each([&](const Tile& tile) {
    ValueTile local;
    PeakTile peaks;
    const float* const value = values.load(tile, local);
    prefetch_elements<kFirstCache>(args.values, args.dtype, tile.offset + ahead, kTileValues);
    find_peaks(value, peaks);
    for (uint32_t s = 0; s < segments_of(tile); ++s) {
      const uint16_t code = norm_code(peaks.magnitude[s]);
      uint16_t& merged = codes[(tile.offset + s * kSegmentValues) >> shift];
      merged = code > merged ? code : merged;
    }
  });
}

/** The lanes of the group under way and the sum of the groups before it. */
struct NormSum {
  alignas(64) double lane[kNormLanes];
  double total;
};

void clear_lanes(NormSum& sum) {
  for (uint32_t k = 0; k < kNormLanes; ++k) sum.lane[k] = 0;
}

void finish_group(NormSum& sum) {
  for (uint32_t half = kNormLanes / 2; half > 0; half /= 2) {
    for (uint32_t k = 0; k < half; ++k) sum.lane[k] += sum.lane[k + half];
  }
  sum.total += sum.lane[0];
  clear_lanes(sum);
}

static_assert(kNormLanes % kTileValues == 0, "a tile's lanes follow each other");

/** Adds values to consecutive lanes. */
template <NormOrder kOrder>
void add_to_lanes(const float* __restrict value, uint32_t count, double* __restrict lane) {
  if (count == kTileValues) {
    for (uint32_t k = 0; k < kTileValues; ++k) lane[k] += norm_term(kOrder, value[k]);
    return;
  }
  for (uint32_t k = 0; k < count; ++k) lane[k] += norm_term(kOrder, value[k]);
}

/** Tiles here end at multiples of kTileValues of the call, whatever its first value is. */
template <NormOrder kOrder>
__attribute__((noinline)) void norm_sum(const NormArgs& args) {
  NormSum sum;
  sum.total = 0;
  clear_lanes(sum);
  Values values = values_of(args);
  const Range range = values.coded_range();
  size_t offset = 0;
  while (offset < range.value_count) {
    const uint64_t position = range.first_value + offset;
    const size_t left = range.value_count - offset;
    const uint32_t room = kTileValues - static_cast<uint32_t>(position % kTileValues);
    const Tile tile{offset, left < room ? static_cast<uint32_t>(left) : room};
    ValueTile local;
    prefetch_next_page(values_from(args.values, args.dtype, offset));
    add_to_lanes<kOrder>(values.load(tile, local), tile.count, sum.lane + position % kNormLanes);
    offset += tile.count;
    const bool group_ends = (position + tile.count) % kNormGroupValues == 0;
    if (group_ends || offset == range.value_count) finish_group(sum);
  }
  *static_cast<double*>(args.out) = sum.total;
}

StageError merge_norms(const MergeNormsArgs& args) {
  const uint16_t* __restrict a = args.a;
  uint16_t* __restrict b = args.b;
  for (size_t k = 0; k < args.norm_count; ++k) b[k] = a[k] > b[k] ? a[k] : b[k];
  return {};
}

void norm_granules(const NormArgs& args);

StageError norm(const NormArgs& args) {
  const FloatEnvironment environment;
  if (args.range.group.block_count > 0) {
    norm_granules(args);
  } else if (args.block > 0) {
    norm_blocks(args, kTileValues / 2);
  } else if (args.q == NormOrder::inf) {
    norm_inf(args);
  } else if (args.q == NormOrder::one) {
    norm_sum<NormOrder::one>(args);
  } else {
    norm_sum<NormOrder::two>(args);
  }
  return {};
}
