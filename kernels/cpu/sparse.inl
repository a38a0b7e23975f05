// Stages of the sparse schedule: selects codes that are not zero as entries, and adds entries to
// values.

/** The lanes of a tile, one per byte; beyond its last value there are zero codes. */
template <uint32_t kBits>
void load_lanes(const uint32_t* words, const Tile& tile, uint32_t zero, CodeTile& lanes) {
  CodeTile local;
  const uint8_t* byte = load_codes<kBits>(words, tile, local);
  if (kBits == 8) {
    memcpy(lanes.byte, byte, kTileBytes<8>);
  } else {
    unpack_nibbles(byte, lanes.byte);
  }
  memset(lanes.byte + tile.count, static_cast<int>(zero), kTileValues - tile.count);
}

uint32_t count_other_lanes(const CodeTile& __restrict lanes, uint8_t zero) {
  uint32_t count = 0;
  for (uint32_t e = 0; e < kTileValues; ++e) count += lanes.byte[e] != zero ? 1 : 0;
  return count;
}

/** Counts a tile's entries; only the first of them can need fillers, since no tile is as long as a
 *  full gap. */
void count_tile(const CodeTile& lanes, const Tile& tile, uint8_t zero,
                const CountEntriesArgs& args) {
  const uint32_t others = count_other_lanes(lanes, zero);
  if (others == 0) {
    *args.skipped += tile.count;
    return;
  }
  uint32_t first = 0, end = tile.count;
  while (lanes.byte[first] == zero) ++first;
  while (lanes.byte[end - 1] == zero) --end;
  *args.entry_count += fillers_of(*args.skipped + first) + others;
  *args.skipped = tile.count - end;
}

/** Writes a tile's entries from `entry` on; returns where the next one goes. Eight lanes at a time:
 *  most of them are all zero. */
uint32_t* select_tile(const CodeTile& lanes, const Tile& tile, uint8_t zero, uint64_t* skipped,
                      uint32_t* entry) {
  const uint64_t zeros = zero * UINT64_C(0x0101010101010101);
  uint64_t before = *skipped;  // zero codes between the last entry and this tile, less bytes done
  uint32_t begin = 0;          // first value after the last entry
  for (uint32_t e = 0; e < kTileValues; e += 8) {
    uint64_t eight;
    memcpy(&eight, lanes.byte + e, sizeof eight);
    for (uint64_t differ = eight ^ zeros; differ != 0;) {
      const uint32_t byte = static_cast<uint32_t>(__builtin_ctzll(differ)) / 8;
      differ &= ~(UINT64_C(0xff) << (8 * byte));
      uint64_t gap = before + (e + byte - begin);
      for (; fillers_of(gap) != 0; gap -= UINT64_C(1) << kEntryGapBits) {
        *entry++ = filler_entry(zero);
      }
      *entry++ = entry_of(gap, lanes.byte[e + byte]);
      before = 0;
      begin = e + byte + 1;
    }
  }
  *skipped = before + (tile.count - begin);
  return entry;
}

template <uint32_t kBits>
void count_range(const CountEntriesArgs& args) {
  const uint32_t zero = zero_lane(args.coding);
  for_each_tile(args.range, [&](const Tile& tile) {
    CodeTile lanes;
    load_lanes<kBits>(args.words, tile, zero, lanes);
    count_tile(lanes, tile, static_cast<uint8_t>(zero), args);
  });
}

template <uint32_t kBits>
void select_range(const SelectArgs& args) {
  const uint32_t zero = zero_lane(args.coding);
  uint32_t* entry = args.entries + *args.entry_count;
  for_each_tile(args.range, [&](const Tile& tile) {
    CodeTile lanes;
    load_lanes<kBits>(args.words, tile, zero, lanes);
    entry = select_tile(lanes, tile, static_cast<uint8_t>(zero), args.skipped, entry);
  });
  *args.entry_count = static_cast<uint64_t>(entry - args.entries);
}

/** Calls `add(place, lane)` for each sparse entry in a tile. Entries are in the memory of peers:
 *  whatever is written there, and whenever, no place is outside the tile. */
template <uint32_t kBits, typename Add>
void add_entries(uint64_t first_value, uint32_t value_count, RankEntries& sparse, Add add) {
  uint64_t next_entry = sparse.next_entry;
  uint64_t next_value = sparse.next_value;
  for (; next_entry < sparse.entry_count; ++next_entry) {
    const uint32_t entry = sparse.entries[next_entry];
    const uint64_t place = next_value + gap_of_entry(entry) - first_value;
    if (place >= value_count) break;
    add(static_cast<uint32_t>(place), lane_of_entry(entry, kBits));
    next_value = first_value + place + 1;
  }
  sparse.next_entry = next_entry;
  sparse.next_value = next_value;
}

/** Sums of codes, in steps. */
template <uint32_t kBits>
struct LinearEntries {
  static void add(const Coding& coding, RankEntries* rank_entries, uint64_t first_value,
                  uint32_t value_count, float* __restrict value) {
    alignas(64) int32_t sum[kTileValues] = {};
    const int32_t steps = static_cast<int32_t>(coding.steps);
    for (uint32_t rank = 0; rank < coding.ranks; ++rank) {
      add_entries<kBits>(
          first_value, value_count, rank_entries[rank],
          [&](uint32_t place, uint32_t lane) { sum[place] += static_cast<int32_t>(lane) - steps; });
    }
    for (uint32_t e = 0; e < kTileValues; ++e) value[e] = static_cast<float>(sum[e]);
  }
};

/** Sums of levels, in norms. */
template <uint32_t kBits>
struct ExponentialEntries {
  static void add(const Coding& coding, RankEntries* rank_entries, uint64_t first_value,
                  uint32_t value_count, float* value) {
    for (uint32_t e = 0; e < kTileValues; ++e) value[e] = 0;
    for (uint32_t rank = 0; rank < coding.ranks; ++rank) {
      add_entries<kBits>(first_value, value_count, rank_entries[rank],
                         [&](uint32_t place, uint32_t lane) {
                           value[place] += float_from_upper(exponential_level_upper<kBits>(
                               static_cast<uint8_t>(lane), static_cast<uint8_t>(code_max(kBits))));
                         });
    }
  }
};

void multiply(float step, float* value) {
  for (uint32_t e = 0; e < kTileValues; ++e) value[e] *= step;
}

template <typename Entries>
void add_range(const AddSparseArgs& args) {
  DequantizeArgs target{};  // where the values go, and as what
  target.coding = args.coding;
  target.random = args.random;
  target.range = args.range;
  target.dtype = args.dtype;
  target.values = args.values;
  const bool constant = args.scale == 0 || !is_finite(args.scale);
  const float step = sparse_step(args.coding, constant ? 1 : args.scale, args.op == GQSGD_MEAN);
  ValueTile values;
  if (constant) {
    const float all = args.scale == 0 ? 0 : float_from_bits(kFloatNanBits);
    for (uint32_t e = 0; e < kTileValues; ++e) values.value[e] = all;
  }
  for_each_tile(args.range, [&](const Tile& tile) {
    if (!constant) {
      Entries::add(args.coding, args.rank_entries, args.range.first_value + tile.offset, tile.count,
                   values.value);
      multiply(step, values.value);
    }
    store_values(target, tile, values.value);
  });
}

StageError count_entries(const CountEntriesArgs& args) {
  args.coding.bits == 8 ? count_range<8>(args) : count_range<4>(args);
  return {};
}

StageError select(const SelectArgs& args) {
  args.coding.bits == 8 ? select_range<8>(args) : select_range<4>(args);
  return {};
}

StageError add_sparse(const AddSparseArgs& args) {
  const FloatEnvironment environment;
  const bool byte_codes = args.coding.bits == 8;
  if (args.coding.levels == Levels::linear) {
    byte_codes ? add_range<LinearEntries<8>>(args) : add_range<LinearEntries<4>>(args);
  } else {
    byte_codes ? add_range<ExponentialEntries<8>>(args) : add_range<ExponentialEntries<4>>(args);
  }
  return {};
}
