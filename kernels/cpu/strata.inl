// Thresholds of roundings for a tile: a rank's own words, or those of its strata (correlated); and
// the forms in which encoders read them.

/** What the factors of a tile's groups add to the rank's strata. */
struct OffsetTile {
  alignas(64) uint32_t offset[kTileGroups + 3];  ///< vectors of bytes read four
};

#if GQ_VECTOR_BYTES == 0

void fill_offsets(const Strata& strata, const FactorWords& words, uint64_t first_group,
                  OffsetTile& tile) {
  for (uint32_t group = 0; group < kTileGroups; ++group) {
    tile.offset[group] = stratum_offset(strata, factor_bits(words, first_group + group));
  }
}

void fill_correlated(const Strata& strata, const RandomTile& own, const OffsetTile& offsets,
                     const RandomTile& b, BitsTile& tile) {
  for (uint32_t e = 0; e < kTileValues; ++e) {
    const uint32_t word = e / kWordValues;
    tile.bits[e] = correlated_uniform(strata, value_bits(own.word[word], e),
                                      offsets.offset[e / kGroupValues],
                                      value_bits(b.word[word], e));
  }
}

#else

/** The high halves of the products of words. */
GQ_INLINE Words high_products(Words words, uint32_t factor) {
  const Lanes64 even = low_products(reinterpret_cast<Lanes64>(words), factor) >> 32;
  const Lanes64 odd = low_products(reinterpret_cast<Lanes64>(words) >> 32, factor) >> 32;
  return reinterpret_cast<Words>(even | odd << 32);
}

/** stratum_offset() of many groups. */
GQ_INLINE Words stratum_offsets(const Strata& strata, Words bits_a) {
  const Words a = high_products(bits_a, strata.count - 1) + 1;
  if (strata.field_bits == 0) {
    const Words number = a * strata.rank;
    return number - high_products(number, strata.reciprocal) * strata.count;
  }
  Words product = {};
  for (uint32_t t = 0; t < strata.field_bits; ++t) {
    product ^= strata.image[t] & (0u - ((a >> t) & 1));
  }
  return product;
}

void fill_offsets(const Strata& strata, const FactorWords& words, uint64_t first_group,
                  OffsetTile& tile) {
  constexpr uint32_t kVectorWords = GQ_VECTOR_BYTES / 4;
  Words bits;
  for (uint32_t k = 0; k < kVectorWords; ++k) bits[k] = factor_bits(words, first_group + k);
  for (uint32_t group = 0; group < kTileGroups; group += kVectorWords) {
    const Words offsets = stratum_offsets(strata, bits);
    memcpy(tile.offset + group, &offsets, sizeof offsets);
    bits += words.step * kVectorWords;
  }
  for (uint32_t group = kTileGroups; group < kTileGroups + 3; ++group) tile.offset[group] = 0;
}

/** For vectors of bytes: the lowest byte of a word for each 16 of them. */
constexpr Control bytes_of_groups() {
  Control control = {};
  for (uint32_t k = 0; k < 64; ++k) control.byte[k] = static_cast<uint8_t>(k / 16 * 4);
  return control;
}

constexpr Control kBytesOfGroups = bytes_of_groups();

/** What thresholds of 2^m ranks are made of, m <= 7. */
struct FieldTile {
  RandomTile own;                          ///< for their bits 0 to 15
  alignas(64) uint8_t third[kTileValues];  ///< their bits 16 to 22: strata, and own bits below
};

/** Strata of a tile for Q = 2^m, m <= 7, at the top of bits 0 to 6 of their bytes. The leading bits
 *  of R(e) are those of byte e of a tile's words, and the third byte is the one below. */
void fill_third_bytes(uint32_t field_bits, const OffsetTile& offsets, const RandomTile& b,
                      FieldTile& tile) {
  const uint8_t field = static_cast<uint8_t>((1u << field_bits) - 1);
  const uint8_t below = static_cast<uint8_t>(0x7fu >> field_bits);
  const Bytes ones = Bytes{} + field, own_ones = Bytes{} + below;
  for (uint32_t e = 0; e < kTileValues; e += GQ_VECTOR_BYTES) {
    const Bytes bits_b = reinterpret_cast<Bytes>(words_of(b, e) >> (8 - field_bits)) & ones;
    const Bytes offset =
        shuffled(repeated(offsets.offset + e / kGroupValues), kBytesOfGroups.part(0));
    const Words strata = reinterpret_cast<Words>(bits_b ^ offset) << (7 - field_bits);
    const Bytes own = reinterpret_cast<Bytes>(words_of(tile.own, e));
    const Bytes third =
        reinterpret_cast<Bytes>(strata) | (shuffled(own, kBelow1.part(0)) & own_ones);
    memcpy(tile.third + e, &third, sizeof third);
  }
}

/** For any m. */
struct FieldThresholds {
  uint32_t field_bits;

  GQ_INLINE Words operator()(Words own, uint32_t offset, Words bits_b) const {
    const Words stratum = offset ^ bits_b >> (32 - field_bits);
    return stratum << (kUniformBits - field_bits) | (own & (kUniformMask >> field_bits));
  }
};

/** Q is a prime: k 2^23 + v, divided by Q, is (t 2^23 + v) / Q modulo 2^23 for t = a j mod Q + b,
 *  which is k modulo Q and below 2 Q. Each product of the words lies in the high half of a lane and
 *  v in the low half: as a mantissa they are t 2^23 + v in units of 2^-9.
 *
 *  With 2^43 and what else keeps the number below 2^44, a float64 holds the dividend exactly and
 *  the quotient but for 2^-8 / Q. The distance of a quotient from where its rounding changes is
 *  1 / (2 Q) at least: the nearest integer of (x - (Q - 1) / 2) / Q is x / Q rounded down, for odd
 *  Q. What was added is K Q, and K is taken away with the rounding. */
class PrimeThresholds {
 public:
  explicit PrimeThresholds(uint32_t count) : count_(count), reciprocal_(1.0 / count) {
    const uint64_t unit = uint64_t{1} << 43, half = (count - 1) / 2;
    const uint64_t multiple = (unit + half + count - 1) / count;  // K
    const uint64_t added = multiple * count - half - unit;
    constexpr uint64_t kUnitExponent = uint64_t{1023 + 43} << 52;
    constant_ = kUnitExponent + (added << 9);
    nearest_ = 0x1.8p52 - static_cast<double>(multiple);
  }

  GQ_INLINE Words operator()(Words own, uint32_t offset, Words bits_b) const {
    const Lanes64 uniform = reinterpret_cast<Lanes64>(own << 9);
    const Lanes64 b = reinterpret_cast<Lanes64>(bits_b);
    const uint64_t added = constant_ + (uint64_t{offset} << 32);
    const Lanes64 even = quotients(uniform, b, added);
    const Lanes64 odd = quotients(uniform >> 32, b >> 32, added);
    return reinterpret_cast<Words>(joined(even, odd)) & kUniformMask;
  }

 private:
  /** In the low halves, modulo 2^32. */
  GQ_INLINE Lanes64 quotients(Lanes64 uniform, Lanes64 bits_b, uint64_t added) const {
    const Lanes64 dividend = halves(uniform, low_products(bits_b, count_)) + added;
    const Doubles quotient = reinterpret_cast<Doubles>(dividend) * reciprocal_ + nearest_;
    return reinterpret_cast<Lanes64>(quotient);
  }

  uint32_t count_;     ///< Q
  uint64_t constant_;  ///< what is added to the dividend, as bits
  double reciprocal_, nearest_;
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

/** kSpread of bytes 0 and 1. */
constexpr Control lower_bytes() {
  Control control = kSpread;
  for (uint32_t k = 0; k < 64; ++k) {
    if (k % 4 >= 2) control.byte[k] = kNoByte;
  }
  return control;
}

constexpr Control kLowerBytes = lower_bytes();

/** R(e) of the values from e on, as many as a vector holds. */
GQ_INLINE Words spread_part(const RandomTile& random, uint32_t e, uint32_t part) {
  return reinterpret_cast<Words>(
      shuffled(repeated(random.word + e / kWordValues), kSpread.part(part)));
}

#if GQ_VBMI

/** For values 16 k to 16 k + 15 of 64: the bytes of each threshold, of own words or, from 64 on, of
 *  third bytes. */
constexpr Control threshold_bytes(uint32_t k) {
  Control control = {};
  for (uint32_t b = 0; b < 64; ++b) {
    const uint32_t e = 16 * k + b / 4;
    control.byte[b] = static_cast<uint8_t>(b % 4 == 2 ? 64 + e : 16 * k + kSpread.byte[b]);
  }
  return control;
}

constexpr Control kThresholdBytes[4] = {threshold_bytes(0), threshold_bytes(1), threshold_bytes(2),
                                        threshold_bytes(3)};

/** Thresholds of the values from e on, as many as a vector holds. */
GQ_INLINE Words field_part(const FieldTile& tile, uint32_t e, uint32_t) {
  const __m512i own = _mm512_load_si512(tile.own.word + e / 64 * 16);
  const __m512i third = _mm512_load_si512(tile.third + e / 64 * 64);
  constexpr __mmask64 kLowerThree = 0x7777777777777777;
  return reinterpret_cast<Words>(_mm512_maskz_permutex2var_epi8(
      kLowerThree, own, _mm512_load_si512(&kThresholdBytes[e / 16 % 4]), third));
}

#else

/** Thresholds of the values from e + part / 4 on, as many as a vector holds. */
GQ_INLINE Words field_part(const FieldTile& tile, uint32_t e, uint32_t part) {
  const Bytes own = repeated(tile.own.word + e / kWordValues), third = repeated(tile.third + e);
  return reinterpret_cast<Words>(shuffled(own, kLowerBytes.part(part)) |
                                 shuffled(third, kThirdBytes.part(part)));
}

#endif

void fill_thresholds(const FieldTile& field, BitsTile& tile) {
  for (uint32_t e = 0; e < kTileValues; e += 16) {
    GQ_UNROLL for (uint32_t k = 0; k < 64; k += GQ_VECTOR_BYTES) {
      const Words bits = field_part(field, e, k);
      memcpy(tile.bits + e + k / 4, &bits, sizeof bits);
    }
  }
}

template <typename ThresholdOf>
void fill_thresholds(ThresholdOf threshold, const RandomTile& own, const OffsetTile& offsets,
                     const RandomTile& b, BitsTile& tile) {
  for (uint32_t e = 0; e < kTileValues; e += 16) {
    const uint32_t offset = offsets.offset[e / kGroupValues];
    GQ_UNROLL for (uint32_t k = 0; k < 64; k += GQ_VECTOR_BYTES) {
      const Words bits = threshold(spread_part(own, e, k), offset, spread_part(b, e, k));
      memcpy(tile.bits + e + k / 4, &bits, sizeof bits);
    }
  }
}

/** Those whose strata are no bytes of a field. */
void fill_correlated(const Strata& strata, const RandomTile& own, const OffsetTile& offsets,
                     const RandomTile& b, BitsTile& tile) {
  if (strata.field_bits == 0) {
    fill_thresholds(PrimeThresholds{strata.count}, own, offsets, b, tile);
  } else {
    fill_thresholds(FieldThresholds{strata.field_bits}, own, offsets, b, tile);
  }
}

#endif

/** Where the thresholds of a stage's roundings come from. */
class Thresholds {
 public:
  /** R(e) of these words, or a number of such a stratum made of them. */
  Thresholds(const RandomStream& own, const Strata& strata, const RandomSite& site)
      : own_(own),
        strata_(strata),
        factors_(factors_of(site, strata)),
        b_(shared_stream_of(site, Draw::strata_b, strata)) {}

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
    RandomTile own, b;
    OffsetTile offsets;
    fill_random(own_, first_value, own);
    fill_shared(first_value, offsets, b);
    fill_correlated(strata_, own, offsets, b, tile);
  }

  /** Whether strata are bytes, of a field. */
  bool are_field() const { return strata_.field_bits >= 1 && strata_.field_bits <= 7; }

#if GQ_VECTOR_BYTES > 0
  void fill_field(uint64_t first_value, FieldTile& tile) const {
    RandomTile b;
    OffsetTile offsets;
    fill_random(own_, first_value, tile.own);
    fill_shared(first_value, offsets, b);
    fill_third_bytes(strata_.field_bits, offsets, b, tile);
  }
#endif

 private:
  /** What ranks share. */
  void fill_shared(uint64_t first_value, OffsetTile& offsets, RandomTile& b) const {
    fill_offsets(strata_, factors_, first_value / kGroupValues, offsets);
    fill_random(b_, first_value, b);
  }

  static FactorWords factors_of(const RandomSite& site, const Strata& strata) {
    if (strata.count == 1) return {};
    return factor_words(random_group(shared_stream_of(site, Draw::strata_a, strata), 0));
  }

  /** Words that are the same on all ranks that share strata. */
  static RandomStream shared_stream_of(const RandomSite& site, Draw draw, const Strata& strata) {
    return random_stream(site.key, site.step, site.index, draw, strata.group, strata.hop);
  }

  TileStream own_;
  Strata strata_;
  FactorWords factors_;
  TileStream b_;
};

Thresholds quantize_thresholds(const Coding& coding, const RandomSite& site) {
  return Thresholds(stream_of(site, Draw::quantize), strata_of_quantize(coding, site), site);
}

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
