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

/** Calls `merge(a, b, random, tile)` for every tile of octets; the result replaces b. Cleared lanes
 *  of a last tile stay clear under every rule of reduction. */
template <uint32_t kBits, typename Merge>
void reduce_tiles(const ReduceArgs& args, Merge merge) {
  const RandomStream stream = stream_of(args.random, Draw::reduce);
  for_each_tile(args.range, [&](const Tile& tile) {
    RandomTile random;
    fill_random(stream, args.range.first_value + tile.offset, random);
    CodeTile local_a, local_b;
    const uint8_t* a = load_codes<kBits>(args.a, tile, local_a);
    if (is_full(tile)) {
      merge(a, octets_at<kBits>(args.b, tile), random);
      return;
    }
    load_codes<kBits>(args.b, tile, local_b);
    merge(a, local_b.octet, random);
    store_tail<kBits>(local_b, args.b, tile);
  });
}

void average_bytes_tile(const Average& average, const uint8_t* __restrict a, uint8_t* __restrict b,
                        const RandomTile& random) {
  for (uint32_t e = 0; e < kTileValues; ++e) {
    const uint32_t bits = value_bits(random.word[e / kWordValues], e);
    b[e] = static_cast<uint8_t>(linear_average(a[e], b[e], average, bits));
  }
}

void average_nibbles_tile(const Average& average, const uint8_t* __restrict a,
                          uint8_t* __restrict b, const RandomTile& random) {
  for (uint32_t k = 0; k < kTileValues / 2; ++k) {
    const uint32_t word = random.word[2 * k / kWordValues];
    const uint32_t low = linear_average(a[k] & 15, b[k] & 15, average, value_bits(word, 2 * k));
    const uint32_t high =
        linear_average(a[k] >> 4, b[k] >> 4, average, value_bits(word, 2 * k + 1));
    b[k] = static_cast<uint8_t>(low | high << 4);
  }
}

void sum_tile(const uint8_t* __restrict a, uint8_t* __restrict b, const RandomTile& random) {
  alignas(64) uint8_t zeros[kTileValues];
  for (uint32_t e = 0; e < kTileValues; ++e) {
    zeros[e] = static_cast<uint8_t>(leading_zeros(value_bits(random.word[e / kWordValues], e)));
  }
  for (uint32_t e = 0; e < kTileValues; ++e) b[e] = exponential_sum(a[e], b[e], zeros[e]);
}

void exponential_average_tile(const ReduceArgs& args, const uint8_t* __restrict a,
                              uint8_t* __restrict b, const RandomTile& random) {
  for (uint32_t k = 0; k < kTileValues / 2; ++k) {
    uint32_t merged = 0;
    for (uint32_t e = 2 * k; e < 2 * k + 2; ++e) {
      const uint32_t bits = value_bits(random.word[e / kWordValues], e);
      const AverageOutcome outcome = exponential_average_outcome(
          lane<4>(a[k], e % 2), lane<4>(b[k], e % 2), args.weight_a, args.weight_b);
      merged |= placed<4>(exponential_average(outcome, bits & kUniformMask), e % 2);
    }
    b[k] = static_cast<uint8_t>(merged);
  }
}

void reduce_linear_average(const ReduceArgs& args) {
  const Average average = average_of(args.weight_a, args.weight_b);
  if (args.coding.bits == 8) {
    reduce_tiles<8>(args, [&](const uint8_t* a, uint8_t* b, const RandomTile& random) {
      average_bytes_tile(average, a, b, random);
    });
  } else {
    reduce_tiles<4>(args, [&](const uint8_t* a, uint8_t* b, const RandomTile& random) {
      average_nibbles_tile(average, a, b, random);
    });
  }
}

__attribute__((noinline)) gqsgd_status reduce_any(const ReduceArgs& args) {
  const Coding& coding = args.coding;
  const bool linear = coding.levels == Levels::linear;
  const bool exponential = coding.levels == Levels::exponential;
  if (coding.levels == Levels::none) {
    reduce_none(args);
  } else if (linear && coding.combine == Combine::exact) {
    reduce_exact(args);
  } else if (linear && coding.combine == Combine::average) {
    reduce_linear_average(args);
  } else if (exponential && coding.bits == 8 && coding.combine == Combine::sum) {
    reduce_tiles<8>(args, sum_tile);
  } else if (exponential && coding.bits == 4 && coding.combine == Combine::average) {
    reduce_tiles<4>(args, [&](const uint8_t* a, uint8_t* b, const RandomTile& random) {
      exponential_average_tile(args, a, b, random);
    });
  } else {
    return GQSGD_INTERNAL;  // The caller lets no other pairing through.
  }
  return GQSGD_OK;
}

gqsgd_status reduce(const ReduceArgs& args) {
  const FloatEnvironment environment;
  return reduce_any(args);
}
