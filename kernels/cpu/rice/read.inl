// Reading of Rice codes by vectors: first unary codes of a tile, each of which begins where the
// one before it ends, then planes and values.

#if GQ_VECTOR_BYTES >= 32

/** Cells whose unary codes are read before their values are made: few, so that a processor makes
 *  values of some while it waits for the places of the next ones. */
constexpr uint32_t kReadCells = 4;

/** Where unary codes of cells end, in bits from the cell's first one; before the first of them -1.
 *  Any bytes may follow those of a cell: the next cell's are written later. */
struct UnaryEnds {
  static constexpr uint32_t kApart = 64, kFirst = 32;
  alignas(64) int8_t place[kReadCells * kApart + kApart];

  GQ_INLINE int8_t* of(uint32_t cell) { return place + cell * kApart + kFirst; }
};

/** Places of ones in a byte, from the lowest. */
struct OnesOfBytes {
  uint64_t places[256];
};

constexpr OnesOfBytes ones_of_bytes() {
  OnesOfBytes table = {};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t count = 0;
    for (uint32_t bit = 0; bit < 8; ++bit) {
      if (byte >> bit & 1) table.places[byte] |= uint64_t{bit} << (8 * count++);
    }
  }
  return table;
}

constexpr OnesOfBytes kOnesOfBytes = ones_of_bytes();
constexpr uint64_t kEachByte = 0x0101010101010101u;

/** The bits that a cell's unary codes begin with, and those behind the first 64. */
struct UnaryBits {
  uint64_t low;
  uint32_t high;

  GQ_INLINE uint32_t low_ones() const {
    return static_cast<uint32_t>(__builtin_popcountll(low));
  }
  GQ_INLINE bool has_cell() const {
    return low_ones() + static_cast<uint32_t>(__builtin_popcount(high)) >= kRiceCell;
  }
};

static_assert(kRiceCellUnaryBits == 64 + 32);

/** Writes the places of ones, counted from `first`, and further bytes, 8 at most. Each byte's are
 *  written where those below it end, over what is too much of them. */
template <uint32_t kBytes>
GQ_INLINE void put_places(uint64_t ones, uint32_t first, int8_t* ends) {
  uint64_t counts = ones - (ones >> 1 & 0x55 * kEachByte);
  counts = (counts & 0x33 * kEachByte) + (counts >> 2 & 0x33 * kEachByte);
  counts = ((counts + (counts >> 4)) & 0x0f * kEachByte) * kEachByte;  // and of those below
  const uint64_t before = counts << 8;
  GQ_UNROLL for (uint32_t k = 0; k < kBytes; ++k) {
    const uint64_t places =
        kOnesOfBytes.places[ones >> (8 * k) & 255] + (first + 8 * k) * kEachByte;
    memcpy(ends + (before >> (8 * k) & 255), &places, sizeof places);
  }
}

/** Where unary codes end, of a cell that is there; returns the last one's end. */
GQ_INLINE uint32_t put_ends(const UnaryBits& bits, int8_t* ends) {
  put_places<8>(bits.low, 0, ends);
  if (bits.low_ones() < kRiceCell) put_places<4>(bits.high, 64, ends + bits.low_ones());
  return static_cast<uint32_t>(ends[kRiceCell - 1]);
}

/** Goes through the cells of a group, whatever its words are. */
struct RiceCursor {
  const uint32_t* words;
  uint32_t word_count;
  uint32_t plane;      ///< word of the next cell's planes
  uint32_t unary = 0;  ///< bit of its unary codes

  GQ_INLINE uint32_t parameter(uint32_t cell) const {
    return rice_parameter_at(words[1 + cell / kRiceWordParameters], cell);
  }

  /** Word `number` of unary codes; zeros beyond the words. */
  GQ_INLINE uint64_t unary_word(uint32_t number) const {
    if (2 * number + 2 > word_count) return 0;
    return vector_at<uint64_t>(words + word_count - 2 * number - 2);
  }

  GQ_INLINE UnaryBits unary_bits() const {
    const uint32_t number = unary / kRiceUnaryBits, used = unary % kRiceUnaryBits;
    const uint32_t unused = kRiceUnaryBits - 1 - used;
    const uint64_t first = unary_word(number), second = unary_word(number + 1);
    return {first >> used | second << 1 << unused,
            static_cast<uint32_t>(second >> used | unary_word(number + 2) << 1 << unused)};
  }

  GQ_INLINE bool has_planes(uint32_t parameter) const {
    return plane + parameter <= word_count;
  }

  GQ_INLINE void pass_cell(uint32_t parameter, uint32_t last_end) {
    plane += parameter;
    unary += last_end + 1;
  }
};

/** Ends of the cells from `first` on, `count` of them, and where their planes are. Returns how many
 *  cells there are before the words end. */
struct TileEnds {
  UnaryEnds ends;
  uint32_t parameter[kReadCells];
  uint32_t plane[kReadCells];
};

uint32_t read_ends(RiceCursor& at, uint32_t first, uint32_t count, TileEnds& tile) {
  RiceCursor cursor = at;
  for (uint32_t c = 0; c < count; ++c) {
    const uint32_t parameter = tile.parameter[c] = cursor.parameter(first + c);
    if (parameter > kRiceParameterMax) continue;
    const UnaryBits bits = cursor.unary_bits();
    if (!bits.has_cell() || !cursor.has_planes(parameter)) return c;
    tile.plane[c] = cursor.plane;
    int8_t* const ends = tile.ends.of(c);
    ends[-1] = -1;
    cursor.pass_cell(parameter, put_ends(bits, ends));
  }
  at = cursor;
  return count;
}

#if GQ_VECTOR_BYTES == 64

/** The same with instructions that not every processor with AVX-512 has: the places of ones at
 *  once. */
__attribute__((target("avx512vbmi2,bmi,bmi2,popcnt"))) uint32_t read_ends_vbmi2(
    RiceCursor& at, uint32_t first, uint32_t count, TileEnds& tile) {
  RiceCursor cursor = at;
  alignas(64) uint8_t place[kRiceCellUnaryBits];
  for (uint32_t k = 0; k < sizeof place; ++k) place[k] = static_cast<uint8_t>(k);
  const __m512i places = _mm512_load_si512(place);
  const __m256i high_places = _mm256_load_si256(reinterpret_cast<const __m256i*>(place + 64));
  for (uint32_t c = 0; c < count; ++c) {
    const uint32_t parameter = tile.parameter[c] = cursor.parameter(first + c);
    if (parameter > kRiceParameterMax) continue;
    const UnaryBits bits = cursor.unary_bits();
    if (!bits.has_cell() || !cursor.has_planes(parameter)) return c;
    tile.plane[c] = cursor.plane;
    int8_t* const ends = tile.ends.of(c);
    ends[-1] = -1;
    const uint32_t low_ones = bits.low_ones();
    _mm512_storeu_si512(ends, _mm512_maskz_compress_epi8(bits.low, places));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(ends + low_ones),
                        _mm256_maskz_compress_epi8(bits.high, high_places));
    const bool is_low = low_ones >= kRiceCell;
    const uint64_t ones = is_low ? bits.low : bits.high;
    const uint64_t end = _tzcnt_u64(_pdep_u64(1u << 31 >> (is_low ? 0 : low_ones), ones));
    cursor.pass_cell(parameter, static_cast<uint32_t>(end) + (is_low ? 0 : 64));
  }
  at = cursor;
  return count;
}

using ReadEnds = uint32_t (*)(RiceCursor&, uint32_t, uint32_t, TileEnds&);

ReadEnds fastest_read_ends() {
  const bool has_all = __builtin_cpu_supports("avx512vbmi2") && __builtin_cpu_supports("bmi2") &&
                       __builtin_cpu_supports("bmi") && __builtin_cpu_supports("popcnt");
  return has_all ? read_ends_vbmi2 : read_ends;
}

/** The low 4 bits of the codes of a cell, from as many planes; of part 0, the only one. */
GQ_INLINE Halves four_planes(const uint32_t* plane, uint32_t) {
  __m512i low = _mm512_maskz_set1_epi16(plane[0], 1);
  GQ_UNROLL for (uint32_t b = 1; b < kPlanesAtOnce; ++b) {
    const __m512i bit = _mm512_set1_epi16(static_cast<int16_t>(1u << b));
    low = _mm512_mask_add_epi16(low, plane[b], low, bit);
  }
  return reinterpret_cast<Halves>(low);
}

GQ_INLINE Halves one_plane(uint32_t plane, uint32_t bit, uint32_t) {
  return reinterpret_cast<Halves>(
      _mm512_maskz_set1_epi16(plane, static_cast<int16_t>(1u << bit)));
}

#else

using ReadEnds = uint32_t (*)(RiceCursor&, uint32_t, uint32_t, TileEnds&);

ReadEnds fastest_read_ends() { return read_ends; }

GQ_INLINE Halves one_plane(uint32_t plane, uint32_t bit, uint32_t part) {
  Halves own_bit;
  for (uint32_t k = 0; k < kVectorHalves; ++k) own_bit[k] = static_cast<uint16_t>(1u << k);
  const Halves bits = Halves{} + static_cast<uint16_t>(plane >> (16 * part));
  const Halves is_set = reinterpret_cast<Halves>((bits & own_bit) == own_bit);
  return is_set & static_cast<uint16_t>(1u << bit);
}

GQ_INLINE Halves four_planes(const uint32_t* plane, uint32_t part) {
  Halves low = {};
  GQ_UNROLL for (uint32_t b = 0; b < kPlanesAtOnce; ++b) low |= one_plane(plane[b], b, part);
  return low;
}

#endif

/** With parameters up to this one, codes have 16 bits whatever the words are: 64 << 9. */
constexpr uint32_t kHalvesParameterMax = 9;

/** The first half of signed halves of a word, or the second. */
template <uint32_t kFirst, uint32_t... kHalf>
GQ_INLINE HalfSignedHalves few_halves(Halves a, std::integer_sequence<uint32_t, kHalf...>) {
  const SignedHalves all = reinterpret_cast<SignedHalves>(a);
  return __builtin_shufflevector(all, all, (kFirst + kHalf)...);
}

/** k of some values of a cell, from where their unary codes end and from planes, of which there are
 *  four at least, the cell's or others. */
GQ_INLINE Halves read_numbers(const int8_t* ends, const uint32_t* plane, uint32_t parameter,
                              uint32_t part) {
  const HalfBytes high = vector_at<HalfBytes>(ends) - vector_at<HalfBytes>(ends - 1) - 1;
  const uint16_t low_bits = static_cast<uint16_t>((1u << parameter) - 1);
  Halves low = four_planes(plane, part) & low_bits;
  for (uint32_t b = kPlanesAtOnce; b < parameter; ++b) low |= one_plane(plane[b], b, part);
  const Halves code = shifted_up(wide_bytes(high), parameter) | low;
  const Halves even = (code & 1) - 1;  // all ones
  return (((code + 1) >> 1) ^ even) - even;
}

template <bool kAdd>
GQ_INLINE void put_values(HalfSignedHalves numbers, float step, float* value) {
  const Floats made = __builtin_convertvector(wide_halves(numbers), Floats) * step;
  store_vector(kAdd ? vector_at<Floats>(value) + made : made, value);
}

/** Decodes the cells of a group. */
template <bool kAdd>
class RiceTileDecoder {
 public:
  RiceTileDecoder(const RiceLayout& layout, const DecodeRiceArgs& args)
      : layout_(layout),
        words_(args.words),
        values_(args.values),
        step_(norm_from_code(static_cast<uint16_t>(args.words[0]))) {}

  void run() {
    const ReadEnds read = fastest_read_ends();
    RiceCursor cursor{words_, layout_.word_count, layout_.head_words};
    TileEnds tile;
    for (uint32_t first = 0; first < layout_.cells; first += kReadCells) {
      const uint32_t left = layout_.cells - first, count = left < kReadCells ? left : kReadCells;
      const uint32_t readable = read(cursor, first, count, tile);
      for (uint32_t c = 0; c < readable; ++c) put_cell(first + c, c, tile);
      if (readable < count) {
        const uint32_t e = (first + readable) * kRiceCell;
        return poison_values(layout_.value_count - e, values_ + e);
      }
    }
  }

 private:
  GQ_INLINE void put_cell(uint32_t cell, uint32_t c, TileEnds& tile) const {
    const uint32_t parameter = tile.parameter[c], count = layout_.values_of(cell);
    float* const value = values_ + cell * kRiceCell;
    if (parameter > kRiceParameterMax) {
      put_without_codes(parameter, count, value);
      return;
    }
    const uint32_t* const plane = words_ + tile.plane[c];
    const bool has_planes = tile.plane[c] + kPlanesAtOnce <= layout_.word_count;
    if (count == kRiceCell && has_planes && parameter <= kHalvesParameterMax) {
      put_codes(tile.ends.of(c), plane, parameter, value);
    } else {
      put_plainly(tile.ends.of(c), plane, parameter, count, value);
    }
  }

  GQ_INLINE void put_codes(const int8_t* ends, const uint32_t* plane, uint32_t parameter,
                           float* value) const {
    GQ_UNROLL for (uint32_t part = 0; part < kCellParts; ++part) {
      const uint32_t e = part * kVectorHalves;
      const Halves numbers = read_numbers(ends + e, plane, parameter, part);
      put_values<kAdd>(few_halves<0>(numbers, WordNumbers()), step_, value + e);
      put_values<kAdd>(few_halves<kVectorFloats>(numbers, WordNumbers()), step_,
                       value + e + kVectorFloats);
    }
  }

  void put_without_codes(uint32_t parameter, uint32_t count, float* value) const {
    if (parameter == kRicePoisoned) return poison_values(count, value);
    if (!kAdd) memset(value, 0, count * sizeof *value);
  }

  /** What is rare: a cell with fewer values, planes at the end of the words, large codes. */
  void put_plainly(const int8_t* ends, const uint32_t* plane, uint32_t parameter, uint32_t count,
                   float* value) const {
    for (uint32_t e = 0; e < count; ++e, ++ends) {
      const int32_t high = *ends - *(ends - 1) - 1;
      uint32_t code = static_cast<uint32_t>(high) << parameter;
      for (uint32_t b = 0; b < parameter; ++b) code |= (plane[b] >> e & 1) << b;
      const float made = rice_value(code, step_);
      value[e] = kAdd ? value[e] + made : made;
    }
  }

  const RiceLayout& layout_;
  const uint32_t* words_;
  float* values_;
  float step_;
};

#endif
