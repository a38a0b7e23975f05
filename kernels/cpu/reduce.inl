// Reduce stages: two operands in code form, or many added wide and encoded once.

void reduce_exact(const ReduceArgs& args) {
  const uint64_t word_count = words_for(args.coding.bits, args.range.value_count);
  const uint32_t* __restrict a = args.a;
  uint32_t* __restrict b = args.b;
  for (uint64_t w = 0; w < word_count; ++w) b[w] += a[w];
}

void reduce_none(const ReduceArgs& args) {
  const uint32_t* __restrict a = args.a;
  uint32_t* __restrict b = args.b;
  for (size_t w = 0; w < args.range.value_count; ++w) {
    b[w] = float_bits(canonical(float_from_bits(a[w]) + float_from_bits(b[w])));
  }
}

/** Calls `merge(a, b, random)` for every tile of bytes; the result replaces b. Cleared lanes of a
 *  last tile stay clear under every rule of reduction. */
template <uint32_t kBits, typename Merge>
void reduce_tiles(const ReduceArgs& args, Merge merge) {
  const TileStream stream(stream_of(args.random, Draw::reduce));
  for_each_tile(args.range, [&](const Tile& tile) {
    const size_t next = tile.offset + kTileValues;
    prefetch_codes<0>(args.a, kBits, next, next + kTileValues);
    prefetch_codes<0>(args.b, kBits, next, next + kTileValues);
    RandomTile random;
    fill_random(stream, args.range.first_value + tile.offset, random);
    CodeTile local_a, local_b;
    const uint8_t* a = load_codes<kBits>(args.a, tile, local_a);
    if (is_full(tile)) {
      merge(a, bytes_at<kBits>(args.b, tile), random);
      return;
    }
    load_codes<kBits>(args.b, tile, local_b);
    merge(a, local_b.byte, random);
    store_tail<kBits>(local_b, args.b, tile);
  });
}

void average_equal8(const uint8_t* __restrict a, uint8_t* __restrict b,
                    const RandomTile& __restrict random) {
  for (uint32_t w = 0; w < kTileValues / 4; ++w) {
    store_word(b, w, linear_average_equal8(load_word(a, w), load_word(b, w), random.word[w]));
  }
}

void average_equal4(const uint8_t* __restrict a, uint8_t* __restrict b,
                    const RandomTile& __restrict random) {
  for (uint32_t w = 0; w < kTileValues / 8; ++w) {
    store_word(b, w,
               linear_average_equal4(load_word(a, w), load_word(b, w), random.word[2 * w],
                                     random.word[2 * w + 1]));
  }
}

void average_lanes(const Average& average, const uint8_t* __restrict a, uint8_t* __restrict b,
                   const BitsTile& __restrict random) {
  for (uint32_t e = 0; e < kTileValues; ++e) {
    b[e] = static_cast<uint8_t>(linear_average(a[e], b[e], average, random.bits[e]));
  }
}

/** Runs a reduction of lanes on packed bytes. */
template <uint32_t kBits, typename Merge>
void merge_lanes(const uint8_t* a, uint8_t* b, Merge merge) {
  if (kBits == 8) return merge(a, b);
  CodeTile lanes_a, lanes_b;
  unpack_nibbles(a, lanes_a.byte);
  unpack_nibbles(b, lanes_b.byte);
  merge(lanes_a.byte, lanes_b.byte);
  pack_nibbles(lanes_b.byte, b);
}

void sum_tile(const uint8_t* __restrict a, uint8_t* __restrict b, const RandomTile& random) {
  ZerosTile tile;
  count_zeros(random, tile);
  for (uint32_t e = 0; e < kTileValues; ++e) b[e] = exponential_sum(a[e], b[e], tile.zeros[e]);
}

/** What every pair of 4-bit codes becomes under one pair of weights. */
struct AverageTable {
  uint32_t outcome[256];  ///< threshold | low << 24 | negative << 31
};

void fill_average_table(uint32_t weight_a, uint32_t weight_b, AverageTable& table) {
  for (uint32_t pair = 0; pair < 256; ++pair) {
    const AverageOutcome outcome =
        exponential_average_outcome(pair & 15, pair >> 4, weight_a, weight_b);
    table.outcome[pair] = outcome.threshold | outcome.low << 24 | outcome.negative << 31;
  }
}

void average_exponentials(const AverageTable& __restrict table, const uint8_t* __restrict a,
                          uint8_t* __restrict b, const BitsTile& __restrict random) {
  alignas(64) uint32_t outcomes[kTileValues];
  for (uint32_t e = 0; e < kTileValues; ++e) outcomes[e] = table.outcome[a[e] | b[e] << 4];
  for (uint32_t e = 0; e < kTileValues; ++e) {
    const uint32_t packed = outcomes[e];
    const AverageOutcome outcome{packed >> 31, (packed >> 24) & 7, packed & 0xffffffu};
    b[e] = static_cast<uint8_t>(exponential_average(outcome, random.bits[e]));
  }
}

#if GQ_VECTOR_BYTES > 0

/** Averages of which 7 random bits decide, as short_average makes them: rows of all codes of a, one
 *  for each code of b that is not negative. */
struct ShortAverageTable {
  alignas(64) uint8_t addend[8][16];
  alignas(64) uint8_t lanes[8][16];
};

void fill_average_table(uint32_t weight_a, uint32_t weight_b, ShortAverageTable& table) {
  for (uint32_t pair = 0; pair < 128; ++pair) {
    const uint32_t a = pair & 15, b = pair >> 4;
    const uint32_t outcome = short_average(exponential_average_outcome(a, b, weight_a, weight_b));
    table.addend[b][a] = static_cast<uint8_t>(outcome);
    table.lanes[b][a] = static_cast<uint8_t>(outcome >> 16);
  }
}

void average_exponentials(const ShortAverageTable& __restrict table, const uint8_t* __restrict a,
                          uint8_t* __restrict b, const RandomTile& __restrict random) {
  for (uint32_t e = 0; e < kTileValues; e += GQ_VECTOR_BYTES) {
    Bytes lane_a, lane_b, words, addend{}, lanes{};
    memcpy(&lane_a, a + e, sizeof lane_a);
    memcpy(&lane_b, b + e, sizeof lane_b);
    memcpy(&words, random.word + e / kWordValues, sizeof words);
    // Where b is negative both signs change, and so do the one of the average and all random bits.
    const Bytes sign = lane_b & 8;
    const Bytes flipped = sign != 0 ? Bytes{} - 1 : Bytes{};
    const Bytes column = lane_a ^ sign, row = lane_b & 7;
    GQ_UNROLL for (uint32_t code = 0; code < 8; ++code) {
      const auto is_row = row == static_cast<uint8_t>(code);
      addend = is_row ? shuffled(repeated(table.addend[code]), column) : addend;
      lanes = is_row ? shuffled(repeated(table.lanes[code]), column) : lanes;
    }
    // Of r(e) the leading 7 bits are in the byte below that of value e.
    const Bytes leading = (shuffled(words, kBelow1.part(0)) ^ flipped) & 0x7f;
    const Bytes changes = lanes >> 4;
    const Bytes changed = leading + addend >= 0x80 ? changes : Bytes{};
    const Bytes folded = (lanes & 15) ^ changed;
    const Bytes average = folded ^ (folded != 0 ? sign : Bytes{});
    memcpy(b + e, &average, sizeof average);
  }
}

void reduce_exponential_short(const ReduceArgs& args) {
  ShortAverageTable table;
  fill_average_table(args.weight_a, args.weight_b, table);
  reduce_tiles<4>(args, [&](const uint8_t* a, uint8_t* b, const RandomTile& random) {
    merge_lanes<4>(a, b, [&](const uint8_t* lanes_a, uint8_t* lanes_b) {
      average_exponentials(table, lanes_a, lanes_b, random);
    });
  });
}

#endif

template <uint32_t kBits>
void reduce_linear_average(const ReduceArgs& args) {
  if (args.weight_a == args.weight_b) {
    return reduce_tiles<kBits>(args, kBits == 8 ? average_equal8 : average_equal4);
  }
  const Average average = average_of(args.weight_a, args.weight_b);
  reduce_tiles<kBits>(args, [&](const uint8_t* a, uint8_t* b, const RandomTile& random) {
    BitsTile bits;
    spread_bits(random, bits);
    merge_lanes<kBits>(a, b, [&](const uint8_t* lanes_a, uint8_t* lanes_b) {
      average_lanes(average, lanes_a, lanes_b, bits);
    });
  });
}

void reduce_exponential_average(const ReduceArgs& args) {
#if GQ_VECTOR_BYTES > 0
  if (average_is_short(args.weight_a, args.weight_b)) return reduce_exponential_short(args);
#endif
  AverageTable table;
  fill_average_table(args.weight_a, args.weight_b, table);
  reduce_tiles<4>(args, [&](const uint8_t* a, uint8_t* b, const RandomTile& random) {
    BitsTile bits;
    spread_bits(random, bits);
    merge_lanes<4>(a, b, [&](const uint8_t* lanes_a, uint8_t* lanes_b) {
      average_exponentials(table, lanes_a, lanes_b, bits);
    });
  });
}

__attribute__((noinline)) StageError reduce_any(const ReduceArgs& args) {
  const Coding& coding = args.coding;
  const bool linear = coding.levels == Levels::linear;
  const bool exponential = coding.levels == Levels::exponential;
  if (coding.levels == Levels::none) {
    reduce_none(args);
  } else if (linear && coding.combine == Combine::exact) {
    reduce_exact(args);
  } else if (linear && coding.combine == Combine::average) {
    if (coding.bits == 8) {
      reduce_linear_average<8>(args);
    } else {
      reduce_linear_average<4>(args);
    }
  } else if (exponential && coding.bits == 8 && coding.combine == Combine::sum) {
    reduce_tiles<8>(args, sum_tile);
  } else if (exponential && coding.bits == 4 && coding.combine == Combine::average) {
    reduce_exponential_average(args);
  } else {
    return {"reduce", 0, nullptr, "no stage adds such codes"};  // The caller lets none through.
  }
  return {};
}

/** The arguments of a reduction, ranging over codes: a rotation has more than values. */
template <typename Args>
Args with_coded_range(Args args) {
  args.range.value_count = code_count(args.coding.rotated, args.range.value_count);
  return args;
}

uint32_t operand_count(const ReduceManyArgs& args) {
  return args.weights == nullptr ? args.coding.ranks : args.weight_count;
}

StageError reduce(const ReduceArgs& args) {
  if (args.range.value_count == 0) return {};  // Then pointers may be null.
  const FloatEnvironment environment;
  return reduce_any(with_coded_range(args));
}
