// The random words of a tile, and what is made of them for each of its values.

/** Word e / 4 of a tile serves its value e. */
struct RandomTile {
  alignas(64) uint32_t word[kTileWords];
};

/** R(e) of every value of a tile. */
struct BitsTile {
  alignas(64) uint32_t bits[kTileValues];
};

/** Leading zeros of R(e) of every value of a tile. */
struct ZerosTile {
  alignas(64) uint8_t zeros[kTileValues];
};

RandomStream stream_of(const RandomSite& site, Draw draw) {
  return random_stream(site.key, site.step, site.index, draw, site.rank, site.hop);
}

/** Words that are the same on all ranks. */
RandomStream shared_stream_of(const RandomSite& site, Draw draw) {
  return random_stream(site.key, site.step, site.index, draw, 0, 0);
}

constexpr uint32_t kTileGroups = kTileValues / kGroupValues;

/** One group after the other. */
void fill_groups(const RandomStream& stream, uint64_t first_group, RandomTile& random) {
  for (uint32_t group = 0; group < kTileGroups; ++group) {
    const PhiloxBlock block = random_group(stream, first_group + group);
    for (uint32_t k = 0; k < 4; ++k) random.word[4 * group + k] = block.word[k];
  }
}

#if GQ_VECTOR_BYTES == 0

/** A stream, ready for many tiles. */
using TileStream = RandomStream;

void fill_random(const TileStream& stream, uint64_t first_value, RandomTile& random) {
  fill_groups(stream, first_value / kGroupValues, random);
}

void spread_bits(const RandomTile& random, BitsTile& tile) {
  for (uint32_t e = 0; e < kTileValues; ++e) {
    tile.bits[e] = value_bits(random.word[e / kWordValues], e);
  }
}

void count_zeros(const RandomTile& random, ZerosTile& tile) {
  for (uint32_t e = 0; e < kTileValues; ++e) {
    const uint32_t bits = value_bits(random.word[e / kWordValues], e);
    tile.zeros[e] = static_cast<uint8_t>(leading_zeros(bits));
  }
}

#else

struct VectorLanes {
  using Lane = Lanes64;
  static GQ_INLINE Lane low_product(Lane word, uint32_t factor) {
    return low_products(word, factor);
  }
};

constexpr uint32_t kLanes = GQ_VECTOR_BYTES / 8;
constexpr uint32_t kChains = 4;  // vectors of counters under way: hides the latency of products

static_assert(kTileGroups % (kChains * kLanes) == 0, "tiles are whole iterations");

/** Counters lie in lanes so that even_pairs are the first half of them in order, odd_pairs the
 * rest. */
GQ_INLINE Lanes64 lane_counters() {
  Lanes64 counters;
  for (uint32_t k = 0; k < kLanes; ++k) counters[k] = k / 2 + (k % 2) * (kLanes / 2);
  return counters;
}

/** A stream, ready for many tiles: the keys of each round in all lanes, so that they come from
 * memory and take no register. */
struct TileStream {
  Lanes64 keys[kPhiloxRounds][2];
  RandomStream stream;
  StreamStart start;

  TileStream(const RandomStream& of)  // where one tile is all there is
      : stream(of), start(start_of(of, ScalarKeys{of.k0, of.k1})) {
    const ScalarKeys scalar{of.k0, of.k1};
    for (uint32_t round = 0; round < kPhiloxRounds; ++round) {
      keys[round][0] = Lanes64{} + scalar.first(round);
      keys[round][1] = Lanes64{} + scalar.second(round);
    }
  }

  GQ_INLINE Lanes64 first(uint32_t round) const { return keys[round][0]; }
  GQ_INLINE Lanes64 second(uint32_t round) const { return keys[round][1]; }
};

template <uint32_t... kWord>
GQ_INLINE Words taken_in_turn(Words a, Words b, std::integer_sequence<uint32_t, kWord...>) {
  constexpr uint32_t kWords = sizeof...(kWord);
  return __builtin_shufflevector(a, b, (kWord % 2 == 0 ? kWord : kWords + kWord)...);
}

/** The low halves of `low`'s lanes below the high ones of `high`'s. */
GQ_INLINE Lanes64 halves(Lanes64 low, Lanes64 high) {
  return reinterpret_cast<Lanes64>(
      taken_in_turn(reinterpret_cast<Words>(low), reinterpret_cast<Words>(high),
                    std::make_integer_sequence<uint32_t, 2 * kLanes>()));
}

/** The low halves of a's lanes, each below that of b's. */
GQ_INLINE Lanes64 joined(Lanes64 a, Lanes64 b) { return halves(a, b << 32); }

/** What two rounds make of the counters of a tile, whose groups differ in the low half of their
 *  numbers alone: half of the products are the same for all of them. */
struct TileStart {
  Lanes64 first, second, third, fourth;

  TileStart(const TileStream& stream, uint64_t first_group) {
    const uint32_t word = stream.start.first ^ static_cast<uint32_t>(first_group >> 32);
    const uint64_t product = ScalarLanes::low_product(word, kPhiloxLeft);
    first = Lanes64{} + static_cast<uint64_t>(stream.start.second);
    first ^= stream.first(1);
    second = Lanes64{} + static_cast<uint64_t>(stream.stream.c3);
    second ^= stream.second(0);
    third = stream.second(1) ^ (product >> 32);
    fourth = Lanes64{} + product;
  }

  template <uint32_t kCount>
  GQ_INLINE void round_twice(Lanes64 counters, Lanes64 (&word)[4][kCount], uint32_t k) const {
    const Lanes64 left = low_products(counters, kPhiloxLeft);
    const Lanes64 right = low_products(second ^ (left >> 32), kPhiloxRight);
    word[0][k] = first ^ (right >> 32);
    word[1][k] = right;
    word[2][k] = third ^ left;
    word[3][k] = fourth;
  }
};

void fill_random(const TileStream& stream, uint64_t first_value, RandomTile& random) {
  const uint64_t first_group = first_value / kGroupValues;
  if (first_group >> 32 != (first_group + kTileGroups - 1) >> 32) {
    return fill_groups(stream.stream, first_group, random);
  }
  const TileStart start(stream, first_group);
  for (uint32_t group = 0; group < kTileGroups; group += kChains * kLanes) {
    Lanes64 word[4][kChains];
    GQ_UNROLL for (uint32_t k = 0; k < kChains; ++k) {
      start.round_twice(lane_counters() + (first_group + group + k * kLanes), word, k);
    }
    philox_rounds<VectorLanes, kChains, 2>(word, stream);
    GQ_UNROLL for (uint32_t k = 0; k < kChains; ++k) {
      const Lanes64 first = joined(word[0][k], word[1][k]);
      const Lanes64 second = joined(word[2][k], word[3][k]);
      const Lanes64 even = even_pairs(first, second), odd = odd_pairs(first, second);
      uint32_t* target = random.word + 4 * (group + k * kLanes);
      memcpy(target, &even, sizeof even);
      memcpy(target + 2 * kLanes, &odd, sizeof odd);
    }
  }
}

/** 64 bytes that steer shuffles within 16; kNoByte makes a zero. */
struct Control {
  alignas(64) uint8_t byte[64];

  GQ_INLINE Bytes part(uint32_t first) const {
    Bytes part;
    memcpy(&part, byte + first, sizeof part);
    return part;
  }
};

constexpr uint8_t kNoByte = 0x80;

/** For 16 values from 4 words: byte t of R(e) is byte (t + e + 1) mod 4 of word e / 4. */
constexpr Control spread_control() {
  Control control = {};
  for (uint32_t e = 0; e < 16; ++e) {
    for (uint32_t t = 0; t < 4; ++t) {
      control.byte[4 * e + t] = static_cast<uint8_t>(4 * (e / 4) + (t + e + 1) % 4);
    }
  }
  return control;
}

constexpr Control kSpread = spread_control();

void spread_bits(const RandomTile& random, BitsTile& tile) {
  for (uint32_t e = 0; e < kTileValues; e += 16) {
    const Bytes words = repeated(random.word + e / kWordValues);
    GQ_UNROLL for (uint32_t k = 0; k < 64; k += GQ_VECTOR_BYTES) {
      const Bytes bits = shuffled(words, kSpread.part(k));
      memcpy(tile.bits + e + k / 4, &bits, sizeof bits);
    }
  }
}

/** Byte j of a word becomes the one `below` places below it, cyclically. */
constexpr Control rotation(uint32_t below) {
  Control control = {};
  for (uint32_t k = 0; k < 64; ++k) {
    control.byte[k] = static_cast<uint8_t>(k % 16 / 4 * 4 + (k + 4 - below) % 4);
  }
  return control;
}

constexpr Control kBelow1 = rotation(1), kBelow2 = rotation(2), kBelow3 = rotation(3);

/** R(e) of the values of a vector of words: those of values k modulo 4 in bits[k]. */
GQ_INLINE void spread_columns(Words words, Words (&bits)[kWordValues]) {
  const Bytes bytes = reinterpret_cast<Bytes>(words);
  bits[0] = reinterpret_cast<Words>(shuffled(bytes, kBelow3.part(0)));
  bits[1] = reinterpret_cast<Words>(shuffled(bytes, kBelow2.part(0)));
  bits[2] = reinterpret_cast<Words>(shuffled(bytes, kBelow1.part(0)));
  bits[3] = words;
}

GQ_INLINE Words words_of(const RandomTile& random, uint32_t e) {
  Words words;
  memcpy(&words, random.word + e / kWordValues, sizeof words);
  return words;
}

/** Leading zeros of a nibble, and `none` for zero. */
constexpr Control nibble_zeros(uint8_t offset, uint8_t none) {
  constexpr uint8_t kZeros[16] = {0, 3, 2, 2, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0};
  Control table = {};
  for (uint32_t k = 0; k < 64; ++k) {
    table.byte[k] = k % 16 == 0 ? none : static_cast<uint8_t>(kZeros[k % 16] + offset);
  }
  return table;
}

constexpr Control kHighZeros = nibble_zeros(0, 8), kLowZeros = nibble_zeros(4, 8);

/** R(e) begins with byte e mod 4 of its word and continues with those below it, cyclically. So its
 *  leading zeros are those of the byte and, if that is zero, of the one below, and so on: pairs of
 *  bytes first, then pairs of pairs. */
void count_zeros(const RandomTile& random, ZerosTile& tile) {
  for (uint32_t e = 0; e < kTileValues; e += GQ_VECTOR_BYTES) {
    Bytes bytes;
    memcpy(&bytes, random.word + e / kWordValues, sizeof bytes);
    const Bytes high = shuffled(kHighZeros.part(0), bytes >> 4);
    const Bytes low = shuffled(kLowZeros.part(0), bytes & 15);
    const Bytes one = high < low ? high : low;
    const Bytes two = one + (shuffled(one, kBelow1.part(0)) & (one == 8));
    const Bytes four = two + (shuffled(two, kBelow2.part(0)) & (two == 16));
    memcpy(tile.zeros + e, &four, sizeof four);
  }
}

#endif

void fill_bits(const TileStream& stream, uint64_t first_value, BitsTile& tile) {
  RandomTile random;
  fill_random(stream, first_value, random);
  spread_bits(random, tile);
}
