// Wide sums of 8-bit linear codes, encoded with 8 bits: sums of bytes, kept in 16 bits.

/** What rounds a re-encode. */
Thresholds encode_thresholds_of(const ReduceManyArgs& args) {
  const RandomSite& site = args.random;
  const RandomStream own = args.coding.rounding_down == RoundingDown::subtractive
                               ? shared_stream_of(site, Draw::subtractive)
                               : stream_of(site, Draw::encode_again);
  return Thresholds(own, strata_of_sum(args.coding, site), site);
}

/** Prefetches operands and results of values first .. end - 1. */
GQ_INLINE void prefetch_sum(const ReduceManyArgs& args, size_t first, size_t end) {
  for (uint32_t k = 0; k < operand_count(args); ++k) {
    prefetch_codes<0>(args.words[k], args.coding.bits, first, end);
  }
  prefetch_codes<1>(args.out_words, args.coding.bits_down, first, end);
}

#if GQ_VECTOR_BYTES > 0

// Over 2^k ranks, without rescale, the scale of the re-encode is a power of two: t = S / 2^k is
// exact, and the code floor(t + u) is an integer sum and a shift, with the top k bits of r(e) for
// u. The codes are the same as by float arithmetic.

// r(e) is 23 bits, and the byte that it begins in has seven of them.
constexpr uint32_t kMeanRanks = 128;

bool is_mean(const ReduceManyArgs& args) {
  const Coding& coding = args.coding;
  const bool bytes = coding.bits == 8 && coding.bits_down == 8 && !coding.rescale;
  const bool power = coding.ranks <= kMeanRanks && (coding.ranks & (coding.ranks - 1)) == 0;
  const bool plain = args.weights == nullptr && !has_strata(args);
  return coding.levels == Levels::linear && bytes && power && plain;
}

/** The top log2 bits of r(e). Bits 22 to 16 of R(e) are the low ones of its third byte, which is
 *  the byte below byte e mod 4 of its word. */
GQ_INLINE Bytes top_bits(const RandomTile& random, uint32_t e, uint32_t log2) {
  Bytes bytes;
  memcpy(&bytes, random.word + e / kWordValues, sizeof bytes);
  const Words below = reinterpret_cast<Words>(shuffled(bytes, kBelow1.part(0)));
  const uint8_t ones = static_cast<uint8_t>((1u << log2) - 1);
  const Bytes mask = Bytes{} + ones;
  return reinterpret_cast<Bytes>(below >> (7 - log2)) & mask;
}

/** Sums of bytes, below 2^16: of the even ones, and of the odd ones, which `both` has 2^8 times. */
struct ByteSums {
  Halves both, odd;

  GQ_INLINE explicit ByteSums(Bytes bytes)
      : both(reinterpret_cast<Halves>(bytes)), odd(reinterpret_cast<Halves>(bytes) >> 8) {}

  GQ_INLINE void add(Bytes bytes) {
    both += reinterpret_cast<Halves>(bytes);
    odd += reinterpret_cast<Halves>(bytes) >> 8;
  }

  GQ_INLINE Halves even() const { return both - (odd << 8); }
};

/** Bytes of an operand from byte e of a tile on; zero beyond its last. */
template <uint32_t kBits, bool kFull>
GQ_INLINE Bytes operand_bytes(const uint8_t* operand, const Tile& tile, uint32_t e) {
  Bytes bytes = {};
  const uint32_t count = bytes_of<kBits>(tile);
  if (kFull || e + sizeof bytes <= count) {
    memcpy(&bytes, operand + e, sizeof bytes);
  } else if (e < count) {
    memcpy(&bytes, operand + e, count - e);
  }
  return bytes;
}

/** No lane exceeds 2 s, even where operands hold one that no code has. */
template <bool kFull>
void mean_tile(const ReduceManyArgs& args, const Tile& tile, const RandomTile& random,
               uint8_t* byte) {
  const uint32_t ranks = args.coding.ranks, log2 = block_log2(ranks);
  const bool nearest = args.coding.rounding == Rounding::nearest;
  const Bytes half = Bytes{} + static_cast<uint8_t>(ranks / 2);
  const Bytes most = Bytes{} + static_cast<uint8_t>(2 * args.coding.steps);
  for (uint32_t e = 0; e < kTileValues; e += GQ_VECTOR_BYTES) {
    ByteSums sums(nearest ? half : top_bits(random, e, log2));
    for (uint32_t rank = 0; rank < ranks; ++rank) {
      sums.add(operand_bytes<8, kFull>(bytes_at<8>(args.words[rank], tile), tile, e));
    }
    const Bytes mean = reinterpret_cast<Bytes>(sums.even() >> log2 | sums.odd >> log2 << 8);
    const Bytes lanes = lesser(mean, most);
    memcpy(byte + e, &lanes, sizeof lanes);
  }
}

void reduce_many_mean(const ReduceManyArgs& args) {
  const Thresholds thresholds = encode_thresholds_of(args);
  for_each_tile(args.range, [&](const Tile& tile) {
    RandomTile random;
    thresholds.fill_own(args.range.first_value + tile.offset, random);
    write_codes<8>({args.out_words, args.nontemporal}, tile, [&](uint8_t* byte) {
      if (is_full(tile)) return mean_tile<true>(args, tile, random, byte);
      mean_tile<false>(args, tile, random, byte);
    });
  });
}

/** The sums of a tile less n s: for each vector of bytes those of its even bytes, then of its odd
 *  ones. */
struct HalfTile {
  alignas(64) int16_t value[kTileValues];
};

template <bool kFull>
void add_bytes(const ReduceManyArgs& args, const Tile& tile, HalfTile& sums) {
  const uint32_t ranks = args.coding.ranks;
  const uint16_t offset = static_cast<uint16_t>(ranks * args.coding.steps);
  for (uint32_t e = 0; e < kTileValues; e += GQ_VECTOR_BYTES) {
    ByteSums sum(Bytes{});
    for (uint32_t rank = 0; rank < ranks; ++rank) {
      sum.add(operand_bytes<8, kFull>(bytes_at<8>(args.words[rank], tile), tile, e));
    }
    const Halves even = sum.even() - offset, odd = sum.odd - offset;
    memcpy(sums.value + e, &even, sizeof even);
    memcpy(sums.value + e + GQ_VECTOR_BYTES / 2, &odd, sizeof odd);
  }
}

void add_tile_of_bytes(const ReduceManyArgs& args, const Tile& tile, HalfTile& sums) {
  if (is_full(tile)) return add_bytes<true>(args, tile, sums);
  add_bytes<false>(args, tile, sums);
}

void clear_from(uint32_t first, HalfTile& sums) {
  for (uint32_t e = first; e < kTileValues; ++e) {
    const uint32_t within = e % GQ_VECTOR_BYTES;
    sums.value[e - within + within % 2 * (GQ_VECTOR_BYTES / 2) + within / 2] = 0;
  }
}

/** Numbers of a and of b in turn: in each 128 bits from the lower halves of both, or the upper. */
template <bool kUpper, typename Vector, uint32_t... kPlace>
GQ_INLINE Vector interleaved(Vector a, Vector b, std::integer_sequence<uint32_t, kPlace...>) {
  constexpr uint32_t kAll = sizeof...(kPlace), kPart = kAll * 16 / GQ_VECTOR_BYTES;
  constexpr uint32_t kFirst = kUpper ? kPart / 2 : 0;
  return __builtin_shufflevector(
      a, b,
      (kPlace % 2 * kAll + kPlace / kPart * kPart + kPlace % kPart / 2 + kFirst)...);
}

/** The larger of every two numbers, those of a and of b in turn, kBytes at a time. */
template <typename Vector, uint32_t kBytes>
GQ_INLINE Halves larger_of_two(Halves a, Halves b) {
  const auto places = std::make_integer_sequence<uint32_t, GQ_VECTOR_BYTES / kBytes>();
  const Vector first = reinterpret_cast<Vector>(a), second = reinterpret_cast<Vector>(b);
  return larger_signed(reinterpret_cast<Halves>(interleaved<false>(first, second, places)),
                       reinterpret_cast<Halves>(interleaved<true>(first, second, places)));
}

/** The larger magnitudes of the sums of a vector of bytes. */
GQ_INLINE Halves larger_magnitudes(const int16_t* sums) {
  Halves even, odd;
  memcpy(&even, sums, sizeof even);
  memcpy(&odd, sums + GQ_VECTOR_BYTES / 2, sizeof odd);
  return larger_signed(magnitudes(even), magnitudes(odd));
}

// Of a tile's sums: eight vectors become one for their peaks.
constexpr uint32_t kPeakVectors = 8;
constexpr uint32_t kPeakValues = kTileValues / kPeakVectors;
constexpr uint32_t kPeakSegments = kPeakValues / kSegmentValues;
constexpr uint32_t kPeakParts = GQ_VECTOR_BYTES / 16 / kPeakSegments;  // of 128 bits, per segment

static_assert(kPeakSegments * kPeakParts * 16 == GQ_VECTOR_BYTES && kPeakParts <= 2);

/** Where part kPart of each segment is. */
template <uint32_t kPart, uint32_t... kSegment>
GQ_INLINE auto parts_of_segments(Halves all, std::integer_sequence<uint32_t, kSegment...>) {
  return __builtin_shufflevector(
      all, all,
      ((kSegment % kPeakSegments * kPeakParts + kPart) * 8 + kSegment / kPeakSegments)...);
}

/** In vectors to the end: gcc makes jumps of a loop over segments, which no processor foresees. */
GQ_INLINE void store_peaks(Halves all, PeakTile& peaks) {
  using SegmentWords = int32_t __attribute__((vector_size(4 * kTileSegments)));
  using SegmentFloats = float __attribute__((vector_size(4 * kTileSegments)));
  const auto segments = std::make_integer_sequence<uint32_t, kTileSegments>();
  const auto first = parts_of_segments<0>(all, segments);
  const auto last = parts_of_segments<kPeakParts - 1>(all, segments);
  const SegmentWords largest = __builtin_convertvector(first > last ? first : last, SegmentWords);
  const SegmentFloats magnitudes = __builtin_convertvector(largest, SegmentFloats);
  memcpy(peaks.magnitude, &magnitudes, sizeof magnitudes);
}

/** Eight vectors, of a segment or two each, become one: number k of each 128 bits is the largest of
 *  those bits in vector k. */
void find_peaks(const int16_t* sums, PeakTile& peaks) {
  Halves most[kPeakVectors];
  GQ_UNROLL for (uint32_t v = 0; v < kPeakVectors; ++v) {
    most[v] = larger_magnitudes(sums + v * kPeakValues);
    if constexpr (kPeakValues > GQ_VECTOR_BYTES) {
      const Halves rest = larger_magnitudes(sums + v * kPeakValues + GQ_VECTOR_BYTES);
      most[v] = larger_signed(most[v], rest);
    }
  }
  GQ_UNROLL for (uint32_t v = 0; v < 4; ++v) {
    most[v] = larger_of_two<Halves, 2>(most[2 * v], most[2 * v + 1]);
  }
  const Halves lower = larger_of_two<Words, 4>(most[0], most[1]);
  const Halves upper = larger_of_two<Words, 4>(most[2], most[3]);
  store_peaks(larger_of_two<Lanes64, 8>(lower, upper), peaks);
}

/** For words of 16 bytes: byte k of word w comes from byte w of word k. */
constexpr Control columns_control() {
  Control control = {};
  for (uint32_t k = 0; k < 64; ++k) {
    control.byte[k] = static_cast<uint8_t>(k % 4 * 4 + k % 16 / 4);
  }
  return control;
}

constexpr Control kColumns = columns_control();

GQ_INLINE void uniform_columns(const SpreadUniforms& uniforms, uint32_t e, Words (&uniform)[4]) {
  spread_columns(words_of(uniforms.random, e), uniform);
  GQ_UNROLL for (uint32_t k = 0; k < 4; ++k) uniform[k] &= kUniformMask;
}

GQ_INLINE void uniform_columns(const FieldUniforms& uniforms, uint32_t e, Words (&uniform)[4]) {
  const FieldTile& tile = uniforms.tile;
  spread_columns(words_of(tile.own, e), uniform);
  Words third;
  memcpy(&third, tile.third + e, sizeof third);
  GQ_UNROLL for (uint32_t k = 0; k < 4; ++k) {
    uniform[k] &= 0xffffu;
    uniform[k] |= (third >> (8 * k) & 0xffu) << 16;
  }
}

/** Words kFirst, kFirst + 2, .. of a and then of b. */
template <uint32_t kFirst, uint32_t... kPlace>
GQ_INLINE Words every_second(Words a, Words b, std::integer_sequence<uint32_t, kPlace...>) {
  return __builtin_shufflevector(a, b, (2 * kPlace + kFirst)...);
}

GQ_INLINE void uniform_columns(const StoredUniforms& uniforms, uint32_t e, Words (&uniform)[4]) {
  constexpr uint32_t kVectorWords = GQ_VECTOR_BYTES / 4;
  const auto places = std::make_integer_sequence<uint32_t, kVectorWords>();
  Words row[4], half[4];  // halves: even words of the rows, and odd ones
  GQ_UNROLL for (uint32_t k = 0; k < 4; ++k) row[k] = uniforms_at(uniforms, e + k * kVectorWords);
  GQ_UNROLL for (uint32_t k = 0; k < 4; k += 2) {
    half[k / 2] = every_second<0>(row[k], row[k + 1], places);
    half[2 + k / 2] = every_second<1>(row[k], row[k + 1], places);
  }
  GQ_UNROLL for (uint32_t k = 0; k < 2; ++k) {
    uniform[k] = every_second<0>(half[2 * k], half[2 * k + 1], places);
    uniform[2 + k] = every_second<1>(half[2 * k], half[2 * k + 1], places);
  }
}

GQ_INLINE void uniform_columns(const NearestUniforms&, uint32_t, Words (&uniform)[4]) {
  GQ_UNROLL for (uint32_t k = 0; k < 4; ++k) uniform[k] = Words{} + kUniformHalf;
}

/** The factors of the values from e on, a word for four that follow each other. */
template <uint32_t... kWord>
GQ_INLINE Floats factors_at(const SegmentScales& scales, uint32_t e,
                            std::integer_sequence<uint32_t, kWord...>) {
  const float* const factor = scales.scales.factor;
  const Floats first = in_all_lanes(factor[scales.index(e)]);
  if constexpr (GQ_VECTOR_BYTES <= kSegmentValues) return first;
  constexpr uint32_t kAll = sizeof...(kWord);
  const Floats second = in_all_lanes(factor[scales.index(e + GQ_VECTOR_BYTES / 2)]);
  return __builtin_shufflevector(first, second, (kWord < kAll / 2 ? kWord : kAll + kWord)...);
}

/** Signed halves of words: the lower ones, of which 2^15 more are the mantissas of numbers from
 *  2^23 on. */
GQ_INLINE Floats floats_of_lower(Halves sums) {
  const Words number = (reinterpret_cast<Words>(sums) & 0xffffu) ^ 0x4b008000u;
  return reinterpret_cast<Floats>(number) - (0x1p23f + 0x1p15f);
}

/** And the upper ones. */
GQ_INLINE Floats floats_of_upper(Halves sums) {
  return __builtin_convertvector(reinterpret_cast<Integers>(sums) >> 16, Floats);
}

/** Encodes such sums with 8 bits. Values are in columns: each word of a vector has one of the four
 *  whose codes share a word. */
struct ByteSumEncoder {
  static constexpr uint32_t kBits = 8;
  static constexpr uint32_t kSteps = 127;
  using OwnUniforms = SpreadUniforms;
  using RankUniforms = FieldUniforms;

  /** Norms of sums are 0 or of the size of integers of 16 bits: both factors in one are exact. */
  Scale scale_for_norm(float norm) const {
    const Scale scale = linear_scale(norm, kSteps);
    return Scale{1, scale.power * scale.factor, scale.target};
  }

  template <typename Uniforms>
  void encode(const int16_t* sums, const OneScale& scale, const Uniforms& uniforms,
              uint8_t* lane) const {
    const Floats factors = in_all_lanes(scale.scale.factor);
    encode_columns(sums, [&](uint32_t) { return factors; }, uniforms, lane);
  }

  template <typename Uniforms>
  void encode(const int16_t* sums, const SegmentScales& scales, const Uniforms& uniforms,
              uint8_t* lane) const {
    const auto words = std::make_integer_sequence<uint32_t, GQ_VECTOR_BYTES / 4>();
    const auto factors_of = [&](uint32_t e) { return factors_at(scales, e, words); };
    encode_columns(sums, factors_of, uniforms, lane);
  }

 private:
  /** A sum beyond the target, by a rounding or by a lane that no code has, is so by about a level
   *  at most, and bytes cut it: the target is the largest of them. */
  template <typename FactorsOf, typename Uniforms>
  static void encode_columns(const int16_t* __restrict sums, FactorsOf factors_of,
                             const Uniforms& uniforms, uint8_t* __restrict lane) {
    const Bytes offset = Bytes{} + static_cast<uint8_t>(kSteps);
    for (uint32_t e = 0; e < kTileValues; e += GQ_VECTOR_BYTES) {
      Halves even, odd;
      memcpy(&even, sums + e, sizeof even);
      memcpy(&odd, sums + e + GQ_VECTOR_BYTES / 2, sizeof odd);
      const Floats numbers[4] = {floats_of_lower(even), floats_of_lower(odd),
                                 floats_of_upper(even), floats_of_upper(odd)};
      const Floats factors = factors_of(e);
      Words uniform[4];
      uniform_columns(uniforms, e, uniform);
      Integers code[4];
      GQ_UNROLL for (uint32_t k = 0; k < 4; ++k) {
        const Integers scaled = nearest_integers(numbers[k] * factors);
        code[k] = (scaled + reinterpret_cast<Integers>(uniform[k])) >> kUniformBits;
      }
      const Bytes parts = saturated_parts(code[0], code[1], code[2], code[3]);
      const Bytes lanes = larger_signed(shuffled(parts, kColumns.part(0)), -offset) + offset;
      memcpy(lane + e, &lanes, sizeof lanes);
    }
  }
};

/** Whether rescaled sums are such bytes. None exceeds 16 bits then, even where operands hold a lane
 *  that no code has. */
bool is_rescaled_bytes(const ReduceManyArgs& args) {
  const Coding& coding = args.coding;
  const bool bytes = coding.bits == 8 && coding.bits_down == 8 && args.weights == nullptr;
  const bool levels = coding.steps == ByteSumEncoder::kSteps && coding.steps_down == coding.steps;
  const bool linear = coding.levels == Levels::linear && bytes && levels;
  return linear && coding.rescale && coding.ranks <= 255;
}

#endif
