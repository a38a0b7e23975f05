// Wide sums of exponential codes without mantissa bits, encoded with as many bits. Values go from
// operands to codes in registers, in columns: vectors of the values that have the same place in a
// word, of which no lane has to move on the way.

#if GQ_VECTOR_BYTES > 0

/** Sums of 4-bit lanes as integers fit 16 bits for so many ranks. */
constexpr uint32_t kNibbleSums = 511;

bool is_sum_of_powers(const ReduceManyArgs& args) {
  const Coding& coding = args.coding;
  const bool powers = coding.levels == Levels::exponential && coding.mantissa_bits == 0;
  const bool equal_bits = coding.bits_down == coding.bits;
  const bool one_scale = !coding.rescale && args.weights == nullptr;
  const bool fits = coding.bits == 8 || coding.ranks <= kNibbleSums;
  return powers && equal_bits && one_scale && fits && !has_strata(args);
}

/** Both factors in one: the least sum, 2^-126 or 1, times the power is no smaller than a float32
 *  that is not rounded, for up to 2^20 ranks. */
struct PowerScale {
  float factor, target;
  bool is_within;  ///< no sum exceeds the target: the factor of 55 ranks is rounded up, say
};

/** `unit` is what a level of 1 counts in a sum. */
PowerScale power_scale(const Coding& coding, float unit) {
  const float most = static_cast<float>(coding.ranks);
  const Scale scale = exponential_scale(most, coding.bits, 0, 0);
  const float factor = scale.power * scale.factor;
  return {factor / unit, scale.target, most * factor <= scale.target};
}

/** exponential_pattern() of sums whose exponential_number() is there; `bits` has R(e) of each. */
template <bool kNearest>
GQ_INLINE Words rounded_patterns(Floats number, Floats sums, Words bits) {
  const Words pattern = reinterpret_cast<Words>(number);
  if constexpr (kNearest) return pattern + kUniformHalf;
  const Words negative = reinterpret_cast<Words>(reinterpret_cast<Integers>(sums) >> 31);
  return pattern + ((bits ^ negative) & kUniformMask);
}

/** exponential_pattern() of sums. */
template <bool kNearest>
GQ_INLINE Words power_patterns(Floats sums, const PowerScale& scale, Words bits) {
  const Floats scaled = magnitudes_within(sums * scale.factor, in_all_lanes(scale.target));
  const Floats smallest = in_all_lanes(power_of_two(kSmallestLevelExponent));
  return rounded_patterns<kNearest>(scaled + larger(scaled, smallest), sums, bits);
}

/** The upper halves of words of a, below those of b. */
GQ_INLINE Halves upper_halves(Words a, Words b) {
  return reinterpret_cast<Halves>((b & 0xffff0000u) | a >> 16);
}

/** Adds columns of float32 numbers to sums, or begins these with them. */
template <bool kFirst>
GQ_INLINE void add_numbers(const Words (&column)[4], Floats (&sum)[4]) {
  GQ_UNROLL for (uint32_t k = 0; k < 4; ++k) {
    const Floats powers = reinterpret_cast<Floats>(column[k]);
    sum[k] = kFirst ? powers : sum[k] + powers;
  }
}

/** Adds an operand's powers to sums of the values k modulo 4: the 16 upper bits of a float32 are a
 *  sign, a bit 0, a code and zeros. */
template <bool kFirst>
GQ_INLINE void add_columns(Bytes lanes, Floats (&sum)[4]) {
  const Halves pairs = reinterpret_cast<Halves>(lanes);
  const auto halved = [](Halves a) {
    return reinterpret_cast<Words>(reinterpret_cast<SignedHalves>(a) >> 1) & 0xbf80bf80u;
  };
  const Words even = halved(pairs << 8), odd = halved(pairs);
  add_numbers<kFirst>({even << 16, odd << 16, even & 0xffff0000u, odd & 0xffff0000u}, sum);
}

/** The lanes of sums in columns. Patterns are below 2^31. */
template <bool kNearest>
GQ_INLINE Bytes encoded_columns(const Floats (&sum)[4], const PowerScale& scale,
                                const Words (&bits)[4]) {
  Words pattern[4];
  GQ_UNROLL for (uint32_t k = 0; k < 4; ++k) {
    pattern[k] = power_patterns<kNearest>(sum[k], scale, bits[k]);
  }
  const Halves even = upper_halves(pattern[0], pattern[2]) >> 7;
  const Halves odd = upper_halves(pattern[1], pattern[3]) << 1 & 0xff00;
  const Bytes codes =
      reinterpret_cast<Bytes>(even | odd) - static_cast<uint8_t>(kSmallestLevelField);
  const Bytes parts = saturated_parts(
      reinterpret_cast<Integers>(sum[0]), reinterpret_cast<Integers>(sum[1]),
      reinterpret_cast<Integers>(sum[2]), reinterpret_cast<Integers>(sum[3]));
  const Bytes signs = shuffled(parts, kColumns.part(0)) & 0x80;
  return codes | (codes != 0 ? signs : Bytes{});
}

template <bool kFull, bool kNearest>
void add_power_bytes(const ReduceManyArgs& args, const PowerScale& scale, const Tile& tile,
                     const RandomTile& random, uint8_t* byte) {
  for (uint32_t e = 0; e < kTileValues; e += GQ_VECTOR_BYTES) {
    const auto lanes_of_rank = [&](uint32_t rank) {
      return operand_bytes<8, kFull>(bytes_at<8>(args.words[rank], tile), tile, e);
    };
    Floats sum[4];
    add_columns<true>(lanes_of_rank(0), sum);
    for (uint32_t rank = 1; rank < args.coding.ranks; ++rank) {
      add_columns<false>(lanes_of_rank(rank), sum);
    }
    Words bits[4] = {};
    if constexpr (!kNearest) spread_columns(words_of(random, e), bits);
    const Bytes lanes = encoded_columns<kNearest>(sum, scale, bits);
    memcpy(byte + e, &lanes, sizeof lanes);
  }
}

constexpr uint32_t kNibbleOffset = 64;

/** The level of each 4-bit lane, from -64 to 64, and 64. */
constexpr Control levels_of_nibbles() {
  Control table = {};
  for (uint32_t k = 0; k < 64; ++k) {
    const uint32_t level = k % 8 == 0 ? 0 : 1u << (k % 8 - 1);
    table.byte[k] = static_cast<uint8_t>((k & 8) != 0 ? kNibbleOffset - level
                                                      : kNibbleOffset + level);
  }
  return table;
}

constexpr Control kLevelsOfNibbles = levels_of_nibbles();

/** The lanes of sums of four values in each half of a word, as a half of a word. sum[k] has those
 *  of the values k modulo 4; bits[0] those of the lower halves' random words, bits[1] of the upper
 *  ones'. */
template <bool kNearest>
GQ_INLINE Halves encoded_nibbles(const Halves (&sum)[4], const PowerScale& scale,
                                 const Words (&bits)[2][4]) {
  Halves lane[4];  // from bit 12 on
  GQ_UNROLL for (uint32_t k = 0; k < 4; ++k) {
    const Words lower = power_patterns<kNearest>(floats_of_lower(sum[k]), scale, bits[0][k]);
    const Words upper = power_patterns<kNearest>(floats_of_upper(sum[k]), scale, bits[1][k]);
    const Halves patterns = upper_halves(lower, upper);
    lane[k] = chosen_bits(Halves{} + 0x8000, sum[k], patterns << 5);
  }
  const Halves high = Halves{} + 0xf000;
  const Halves of_01 = chosen_bits(high, lane[1], lane[0] >> 4);
  const Halves of_23 = chosen_bits(high, lane[3], lane[2] >> 4);
  const Halves lanes = chosen_bits(Halves{} + 0xff00, of_23, of_01 >> 8);
  const Halves nonzero = (lanes & 0x7777) + 0x7777;  // in the leading bits
  return lanes & (nonzero | 0x7777);
}

/** The sums of all ranks from byte e of a tile on, as encoded_nibbles() takes them. */
template <bool kFull>
GQ_INLINE void add_nibbles(const ReduceManyArgs& args, const Tile& tile, uint32_t e,
                           Halves (&sum)[4]) {
  const Bytes table = kLevelsOfNibbles.part(0);
  const auto bytes_of_rank = [&](uint32_t rank) {
    return operand_bytes<4, kFull>(bytes_at<4>(args.words[rank], tile), tile, e);
  };
  const auto low_levels = [&](Bytes bytes) { return shuffled(table, bytes & 15); };
  const auto high_levels = [&](Bytes bytes) {
    return shuffled(table, reinterpret_cast<Bytes>(reinterpret_cast<Halves>(bytes) >> 4) & 15);
  };
  const Bytes first = bytes_of_rank(0);
  ByteSums low(low_levels(first)), high(high_levels(first));
  for (uint32_t rank = 1; rank < args.coding.ranks; ++rank) {
    const Bytes bytes = bytes_of_rank(rank);
    low.add(low_levels(bytes));
    high.add(high_levels(bytes));
  }
  const uint16_t offset = static_cast<uint16_t>(args.coding.ranks * kNibbleOffset);
  sum[0] = low.even() - offset;
  sum[1] = high.even() - offset;
  sum[2] = low.odd - offset;
  sum[3] = high.odd - offset;
}

template <bool kFull, bool kNearest>
void add_power_nibbles(const ReduceManyArgs& args, const PowerScale& scale, const Tile& tile,
                       const RandomTile& random, uint8_t* byte) {
  const auto places = std::make_integer_sequence<uint32_t, GQ_VECTOR_BYTES / 4>();
  for (uint32_t e = 0; e < kTileBytes<4>; e += GQ_VECTOR_BYTES) {
    Words bits[2][4] = {};
    if constexpr (!kNearest) {
      const Words first = words_of(random, 2 * e);
      const Words second = words_of(random, 2 * e + GQ_VECTOR_BYTES);
      spread_columns(every_second<0>(first, second, places), bits[0]);
      spread_columns(every_second<1>(first, second, places), bits[1]);
    }
    Halves sum[4];
    add_nibbles<kFull>(args, tile, e, sum);
    const Halves lanes = encoded_nibbles<kNearest>(sum, scale, bits);
    memcpy(byte + e, &lanes, sizeof lanes);
  }
}

#if GQ_VBMI
template <bool kNearest>
void add_powers_by_matrices(const ReduceManyArgs& args, const PowerScale& scale, const Tile& tile,
                            const RandomTile& random, uint8_t* byte);
#endif

template <uint32_t kBits, bool kFull, bool kNearest>
GQ_INLINE void add_power_tile(const ReduceManyArgs& args, const PowerScale& scale,
                              const Tile& tile, const RandomTile& random, uint8_t* byte) {
  if constexpr (kBits == 8) {
#if GQ_VBMI
    if (kFull && scale.is_within) {
      return add_powers_by_matrices<kNearest>(args, scale, tile, random, byte);
    }
#endif
    add_power_bytes<kFull, kNearest>(args, scale, tile, random, byte);
  } else {
    add_power_nibbles<kFull, kNearest>(args, scale, tile, random, byte);
  }
}

template <uint32_t kBits, bool kNearest>
void reduce_many_powers(const ReduceManyArgs& args) {
  const Thresholds thresholds = encode_thresholds_of(args);
  const float unit = kBits == 8 ? 1 : static_cast<float>(kNibbleOffset);
  const PowerScale scale = power_scale(args.coding, unit);
  for_each_tile(args.range, [&](const Tile& tile) {
    constexpr bool kGains = GQ_VECTOR_BYTES == 64;  // AVX2: 0.94 to 0.98 times as fast with it
    const size_t ahead = tile.offset + kStretchValues;
    if (kGains) prefetch_sum(args, ahead, ahead + kPrefetchedFirst);
    RandomTile random;
    if (!kNearest) thresholds.fill_own(args.range.first_value + tile.offset, random);
    if (kGains) prefetch_sum(args, ahead + kPrefetchedFirst, ahead + kTileValues);
    write_codes<kBits>({args.out_words, args.nontemporal}, tile, [&](uint8_t* byte) {
      if (is_full(tile)) {
        add_power_tile<kBits, true, kNearest>(args, scale, tile, random, byte);
      } else {
        add_power_tile<kBits, false, kNearest>(args, scale, tile, random, byte);
      }
    });
  });
}

void reduce_many_powers(const ReduceManyArgs& args) {
  const bool nearest = args.coding.rounding == Rounding::nearest;
  if (args.coding.bits == 8) {
    return nearest ? reduce_many_powers<8, true>(args) : reduce_many_powers<8, false>(args);
  }
  nearest ? reduce_many_powers<4, true>(args) : reduce_many_powers<4, false>(args);
}

#endif
