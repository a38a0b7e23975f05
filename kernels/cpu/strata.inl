// Thresholds of roundings for a tile: a rank's own words, or those of its strata (correlated); and
// the forms in which encoders read them.

#if GQ_VECTOR_BYTES == 0

/** How correlated_uniform() is computed for many values. */
struct StrataTables {
  explicit StrataTables(const Strata&) {}
};

void fill_correlated(const Strata& strata, const StrataTables&, const RandomTile& own,
                     const RandomTile& a, const RandomTile& b, BitsTile& tile) {
  for (uint32_t e = 0; e < kTileValues; ++e) {
    const uint32_t word = e / kWordValues;
    tile.bits[e] = correlated_uniform(strata, value_bits(own.word[word], e),
                                      value_bits(a.word[word], e), value_bits(b.word[word], e));
  }
}

#else

/** Products with the own rank in GF(2^m), nibble by nibble of the other factor: low bytes and high
 *  ones. */
struct StrataTables {
  static constexpr uint32_t kNibbles = 3;
  alignas(16) uint8_t low[kNibbles][16];
  alignas(16) uint8_t high[kNibbles][16];

  explicit StrataTables(const Strata& strata) {
    for (uint32_t nibble = 0; nibble < kNibbles; ++nibble) {
      for (uint32_t k = 0; k < 16; ++k) {
        const uint32_t product = field_product(strata, k << (4 * nibble));
        low[nibble][k] = static_cast<uint8_t>(product);
        high[nibble][k] = static_cast<uint8_t>(product >> 8);
      }
    }
  }
};

/** The same table lookup for the lowest byte of each lane; the others must be 0, as entry 0 is. */
GQ_INLINE Words looked_up(const uint8_t* table, Words index) {
  return reinterpret_cast<Words>(shuffled(repeated(table), reinterpret_cast<Bytes>(index)));
}

/** Q = 2^m, m <= 4 kNibbles. The factor a = 1 + mulhi(R, 2^m - 1) is the leading bits of R, and one
 *  more unless those behind them are less than R. */
template <uint32_t kNibbles>
struct FieldThresholds {
  static_assert(kNibbles == 2 || kNibbles == 3);
  const StrataTables& tables;
  uint32_t field_bits;

  GQ_INLINE Words operator()(Words own, Words bits_a, Words bits_b) const {
    const uint32_t rest = 32 - field_bits;
    const Words a = (bits_a >> rest) - reinterpret_cast<Words>((bits_a << field_bits) >= bits_a);
    const Words b = bits_b >> rest;
    const Words stratum = product(a) ^ b;
    return stratum << (kUniformBits - field_bits) | (own & kUniformMask) >> field_bits;
  }

  GQ_INLINE Words product(Words a) const {
    const Words low = looked_up(tables.low[0], a & 15) ^ looked_up(tables.low[1], (a >> 4) & 15);
    if (kNibbles == 2) return low;
    const Words high = looked_up(tables.high[0], a & 15) ^ looked_up(tables.high[1], (a >> 4) & 15);
    return low ^ looked_up(tables.low[2], a >> 8) ^ (high ^ looked_up(tables.high[2], a >> 8)) << 8;
  }
};

/** The same for m <= 7, where a, b and the stratum are bytes. The leading bits of R(e) are those of
 *  byte e of a tile's words, so that only the comparison needs R(e) itself. */
class FieldStrata {
 public:
  FieldStrata(const StrataTables& tables, uint32_t field_bits)
      : tables_(tables), field_bits_(field_bits) {}

  /** Strata of a tile, at the top of bits 0 to 6 of their bytes. */
  void fill(const RandomTile& a, const RandomTile& b, uint8_t* stratum) const {
    if (field_bits_ <= 4) return fill<false>(a, b, stratum);
    fill<true>(a, b, stratum);
  }

 private:
  template <bool kTwoNibbles>
  void fill(const RandomTile& a, const RandomTile& b, uint8_t* stratum) const {
    for (uint32_t e = 0; e < kTileValues; e += GQ_VECTOR_BYTES) {
      const Bytes bits_b = leading_bits(words_of(b, e));
      const Bytes strata = product<kTwoNibbles>(factors(words_of(a, e))) ^ bits_b;
      const Words placed = reinterpret_cast<Words>(strata) << (7 - field_bits_);
      memcpy(stratum + e, &placed, sizeof placed);
    }
  }

  GQ_INLINE Bytes leading_bits(Words words) const {
    const Bytes ones = Bytes{} + static_cast<uint8_t>((1u << field_bits_) - 1);
    return reinterpret_cast<Bytes>(words >> (8 - field_bits_)) & ones;
  }

  GQ_INLINE Bytes factors(Words words) const {
    Words bits[kWordValues], sum = reinterpret_cast<Words>(leading_bits(words));
    spread_columns(words, bits);
    GQ_UNROLL for (uint32_t k = 0; k < kWordValues; ++k) {
      sum = (bits[k] << field_bits_) >= bits[k] ? sum + (1u << (8 * k)) : sum;
    }
    return reinterpret_cast<Bytes>(sum);
  }

  template <bool kTwoNibbles>
  GQ_INLINE Bytes product(Bytes a) const {
    if (!kTwoNibbles) return shuffled(repeated(tables_.low[0]), a);
    return shuffled(repeated(tables_.low[0]), a & 15) ^ shuffled(repeated(tables_.low[1]), a >> 4);
  }

  const StrataTables& tables_;
  uint32_t field_bits_;
};

/** What thresholds of 2^m ranks are made of, m <= 7: strata, and own words for the bits below. */
struct FieldTile {
  RandomTile own;
  alignas(64) uint8_t stratum[kTileValues];
  uint32_t field_bits;
};

/** For 16 values from 16 bytes: the byte of each in bits 16 to 23 of a word. */
constexpr Control third_bytes() {
  Control control = {};
  for (uint32_t k = 0; k < 64; ++k) {
    control.byte[k] = k % 4 == 2 ? static_cast<uint8_t>(k / 4) : kNoByte;
  }
  return control;
}

constexpr Control kThirdBytes = third_bytes();

/** Q is a prime: k 2^23 + v, divided by Q, is (t 2^23 + v) / Q modulo 2^23 for any t that is k
 *  modulo Q. Here t = a j' + b, with j' the multiple of Q next to 0 away from j, so that its
 *  distance from 0 is at most 530,480. Each product of the words lies in the high half of a lane,
 *  where j' meets it, and v in the low half: as a mantissa they are t 2^23 + v in units of 2^-9.
 *
 *  With 2^43 and what else keeps the number positive and below 2^44, a float64 holds the dividend
 *  exactly and the quotient but for 2^-8 / Q. The distance of a quotient from where its rounding
 *  changes is 1 / (2 Q) at least: the nearest integer of (x - (Q - 1) / 2) / Q is x / Q rounded
 *  down, for odd Q. What was added is K Q, and K is taken away with the rounding. */
class PrimeThresholds {
 public:
  PrimeThresholds(uint32_t count, uint32_t rank) : count_(count), reciprocal_(1.0 / count) {
    const int64_t factor = int64_t{rank} - (rank > count / 2 ? int64_t{count} : 0);
    factor_ = reinterpret_cast<Words>(Lanes64{} + (static_cast<uint64_t>(factor) << 32));
    const uint64_t unit = uint64_t{1} << 43, half = (count - 1) / 2;
    const uint64_t least = unit + half + (factor < 0 ? 3 * unit / 4 : 0);
    const uint64_t multiple = (least + count - 1) / count;  // K
    const uint64_t added = multiple * count - half - unit;
    constexpr uint64_t kUnitExponent = uint64_t{1023 + 43} << 52;
    constant_ = kUnitExponent + (added << 9) + (static_cast<uint64_t>(factor) << 32);
    nearest_ = 0x1.8p52 - static_cast<double>(multiple);
  }

  GQ_INLINE Words operator()(Words own, Words bits_a, Words bits_b) const {
    const Lanes64 uniform = reinterpret_cast<Lanes64>(own << 9);
    const Lanes64 a = reinterpret_cast<Lanes64>(bits_a), b = reinterpret_cast<Lanes64>(bits_b);
    const Lanes64 even = quotients(uniform, a, b);
    const Lanes64 odd = quotients(uniform >> 32, a >> 32, b >> 32);
    return reinterpret_cast<Words>(joined(even, odd)) & kUniformMask;
  }

 private:
  /** In the low halves, modulo 2^32. */
  GQ_INLINE Lanes64 quotients(Lanes64 uniform, Lanes64 bits_a, Lanes64 bits_b) const {
    const Words a = reinterpret_cast<Words>(low_products(bits_a, count_ - 1));  // less 1
    const Lanes64 number = reinterpret_cast<Lanes64>(a * factor_) + low_products(bits_b, count_);
    const Lanes64 dividend = halves(uniform, number) + constant_;
    const Doubles quotient = reinterpret_cast<Doubles>(dividend) * reciprocal_ + nearest_;
    return reinterpret_cast<Lanes64>(quotient);
  }

  uint32_t count_;     ///< Q
  Words factor_;       ///< 0 and j' in the halves of each lane
  uint64_t constant_;  ///< what is added to the dividend, as bits
  double reciprocal_, nearest_;
};

/** R(e) of the values from e on, as many as a vector holds. */
GQ_INLINE Words spread_part(const RandomTile& random, uint32_t e, uint32_t part) {
  return reinterpret_cast<Words>(
      shuffled(repeated(random.word + e / kWordValues), kSpread.part(part)));
}

/** Thresholds of the values from e + part / 4 on, as many as a vector holds. */
GQ_INLINE Words field_part(const FieldTile& tile, uint32_t e, uint32_t part) {
  const Words own = spread_part(tile.own, e, part) >> tile.field_bits;
  const Words strata = reinterpret_cast<Words>(
      shuffled(repeated(tile.stratum + e), kThirdBytes.part(part)));
  return (own & (kUniformMask >> tile.field_bits)) | strata;
}

void fill_thresholds(const FieldTile& field, BitsTile& tile) {
  for (uint32_t e = 0; e < kTileValues; e += 16) {
    GQ_UNROLL for (uint32_t k = 0; k < 64; k += GQ_VECTOR_BYTES) {
      const Words bits = field_part(field, e, k);
      memcpy(tile.bits + e + k / 4, &bits, sizeof bits);
    }
  }
}

template <typename ThresholdOf>
void fill_thresholds(ThresholdOf threshold, const RandomTile& own, const RandomTile& a,
                     const RandomTile& b, BitsTile& tile) {
  for (uint32_t e = 0; e < kTileValues; e += 16) {
    GQ_UNROLL for (uint32_t k = 0; k < 64; k += GQ_VECTOR_BYTES) {
      const Words bits =
          threshold(spread_part(own, e, k), spread_part(a, e, k), spread_part(b, e, k));
      memcpy(tile.bits + e + k / 4, &bits, sizeof bits);
    }
  }
}

/** Those of which no field has bytes. */
void fill_correlated(const Strata& strata, const StrataTables& tables, const RandomTile& own,
                     const RandomTile& a, const RandomTile& b, BitsTile& tile) {
  const uint32_t field_bits = strata.field_bits;
  if (field_bits == 0) {
    fill_thresholds(PrimeThresholds{strata.count, strata.rank}, own, a, b, tile);
  } else if (field_bits <= 8) {
    fill_thresholds(FieldThresholds<2>{tables, field_bits}, own, a, b, tile);
  } else {
    fill_thresholds(FieldThresholds<3>{tables, field_bits}, own, a, b, tile);
  }
}

#endif

/** Where the thresholds of a stage's roundings come from. */
class Thresholds {
 public:
  explicit Thresholds(const RandomStream& own) : Thresholds(own, Strata{0, 0, 1, 0, 0, {}}, {}) {}

  /** Those of quantize. */
  Thresholds(const Coding& coding, const RandomSite& site)
      : Thresholds(stream_of(site, Draw::quantize),
                   coding.rounding == Rounding::correlated ? strata_of(site.rank, coding.ranks)
                                                           : Strata{0, 0, 1, 0, 0, {}},
                   site) {}

  /** Whether the thresholds are R(e) of the rank's own words. */
  bool are_own() const { return strata_.count == 1; }

  void fill_own(uint64_t first_value, RandomTile& random) const {
    fill_random(own_, first_value, random);
  }

  void fill(uint64_t first_value, BitsTile& tile) const {
    if (are_own()) return fill_bits(own_, first_value, tile);
#if GQ_VECTOR_BYTES > 0
    if (are_field()) {
      FieldTile field;
      fill_field(first_value, field);
      return fill_thresholds(field, tile);
    }
#endif
    RandomTile own, a = {}, b;
    fill_random(own_, first_value, own);
    fill_shared(first_value, a, b);
    fill_correlated(strata_, tables_, own, a, b, tile);
  }

  /** Whether strata are bytes, of a field. */
  bool are_field() const { return strata_.field_bits >= 1 && strata_.field_bits <= 7; }

#if GQ_VECTOR_BYTES > 0
  void fill_field(uint64_t first_value, FieldTile& tile) const {
    RandomTile a = {}, b;
    fill_random(own_, first_value, tile.own);
    fill_shared(first_value, a, b);
    FieldStrata(tables_, strata_.field_bits).fill(a, b, tile.stratum);
    tile.field_bits = strata_.field_bits;
  }
#endif

 private:
  /** The words that ranks share. */
  void fill_shared(uint64_t first_value, RandomTile& a, RandomTile& b) const {
    if (needs_factor_) fill_random(a_, first_value, a);
    fill_random(b_, first_value, b);
  }

  Thresholds(const RandomStream& own, const Strata& strata, const RandomSite& site)
      : own_(own),
        strata_(strata),
        tables_(strata),
        needs_factor_(strata.rank != 0 && strata.count != 2),
        a_(random_stream(site.key, site.step, site.index, Draw::strata_a, strata.group, 0)),
        b_(random_stream(site.key, site.step, site.index, Draw::strata_b, strata.group, 0)) {}

  TileStream own_;
  Strata strata_;
  StrataTables tables_;
  /** The factor a is 1 for any word where Q = 2, and times the own rank 0 it is 0. */
  bool needs_factor_;
  TileStream a_, b_;
};

// The numbers that round a tile's values, in one of the forms that an encoder reads.

/** As they lie in memory. */
struct StoredUniforms {
  static constexpr bool kNearest = false;
  BitsTile tile;

  void fill(const Thresholds& thresholds, uint64_t first_value) {
    thresholds.fill(first_value, tile);
  }
  uint32_t bits_of(uint32_t e) const { return tile.bits[e]; }
};

/** The middle for all. */
struct NearestUniforms {
  static constexpr bool kNearest = true;

  void fill(const Thresholds&, uint64_t) {}
  uint32_t bits_of(uint32_t) const { return kUniformHalf; }
};

#if GQ_VECTOR_BYTES == 0

using SpreadUniforms = StoredUniforms;
using FieldUniforms = StoredUniforms;

#else

/** The random words of the tile, spread where they are needed. */
struct SpreadUniforms {
  static constexpr bool kNearest = false;
  RandomTile random;

  void fill(const Thresholds& thresholds, uint64_t first_value) {
    thresholds.fill_own(first_value, random);
  }
};

/** Strata and own words, which meet where they are needed. */
struct FieldUniforms {
  static constexpr bool kNearest = false;
  FieldTile tile;

  void fill(const Thresholds& thresholds, uint64_t first_value) {
    thresholds.fill_field(first_value, tile);
  }
};

/** r(e) of the values from e on, as many as a vector has words. */
GQ_INLINE Words uniforms_at(const StoredUniforms& uniforms, uint32_t e) {
  Words bits;
  memcpy(&bits, uniforms.tile.bits + e, sizeof bits);
  return bits & kUniformMask;
}

GQ_INLINE Words uniforms_at(const NearestUniforms&, uint32_t) { return Words{} + kUniformHalf; }

GQ_INLINE Words uniforms_at(const SpreadUniforms& uniforms, uint32_t e) {
  return spread_part(uniforms.random, e / 16 * 16, e % 16 * 4) & kUniformMask;
}

GQ_INLINE Words uniforms_at(const FieldUniforms& uniforms, uint32_t e) {
  return field_part(uniforms.tile, e / 16 * 16, e % 16 * 4);
}

#endif
