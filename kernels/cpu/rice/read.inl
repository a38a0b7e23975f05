// Reading of Rice codes by vectors: unary codes of some cells first, then their planes and values.
// A code ends with a one, and each cell has 32: so codes of cells that follow each other are read
// together, whatever their lengths are.

#if GQ_VECTOR_BYTES > 0

/** Cells that are read together: few, so that a processor makes values of some while it waits for
 *  the begin of the next ones. */
constexpr uint32_t kReadCells = 8;
/** 64 bits each, as many as their unary codes may need. */
constexpr uint32_t kReadWindows = kReadCells * kRiceCellUnaryBits / 64;

/** Cells that are read together. */
struct TileEnds {
  static constexpr uint32_t kFirst = 32;
  /** Where unary codes end, in bits from the first cell's begin, modulo 256. Before them -1, behind
   *  them any bytes. */
  alignas(64) uint8_t place[kFirst + kReadCells * kRiceCell + 96];
  uint32_t begin[kReadCells];  ///< of a cell, in `place`
  uint32_t parameter[kReadCells];
  uint32_t plane[kReadCells];  ///< its first word
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

/** The number of ones in each byte. */
GQ_INLINE uint64_t counts_of_bytes(uint64_t ones) {
#if GQ_VECTOR_BYTES == 16
  return vget_lane_u64(vreinterpret_u64_u8(vcnt_u8(vcreate_u8(ones))), 0);
#else
  uint64_t counts = ones - (ones >> 1 & 0x55 * kEachByte);
  counts = (counts & 0x33 * kEachByte) + (counts >> 2 & 0x33 * kEachByte);
  return (counts + (counts >> 4)) & 0x0f * kEachByte;
#endif
}

/** Writes the places of ones, counted from `first`, a multiple of 64, and further bytes, 8 at most.
 *  Each byte's are written where those below it end, over what is too much of them. */
GQ_INLINE void put_places(uint64_t ones, uint32_t first, uint8_t* places) {
  const uint64_t counts = counts_of_bytes(ones) * kEachByte;  // and of those below
  const uint64_t before = counts << 8;
  uint64_t begin = (first & 255) * kEachByte, further = 8 * kEachByte;
  __asm__("" : "+r"(further));  // as one constant for all bytes instead of seven
  GQ_UNROLL for (uint32_t k = 0; k < 8; ++k, begin += further) {
    const uint64_t in_byte = kOnesOfBytes.places[ones >> (8 * k) & 255] + begin;
    memcpy(places + (before >> (8 * k) & 255), &in_byte, sizeof in_byte);
  }
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

  /** 64 bits of unary codes, the first or later ones. */
  GQ_INLINE uint64_t window(uint32_t k) const {
    const uint32_t number = unary / kRiceUnaryBits + k, used = unary % kRiceUnaryBits;
    return unary_word(number) >> used |
           unary_word(number + 1) << 1 << (kRiceUnaryBits - 1 - used);
  }

  /** Sets what cells from `first` on have besides unary codes; returns how many codes. */
  GQ_INLINE uint32_t take_head(uint32_t first, uint32_t count, TileEnds& tile) {
    uint32_t codes = 0;
    for (uint32_t c = 0; c < count; ++c) {
      const uint32_t parameter = this->parameter(first + c);
      tile.begin[c] = TileEnds::kFirst + codes;
      tile.parameter[c] = parameter;
      tile.plane[c] = plane;
      const bool has_codes = parameter <= kRiceParameterMax;
      codes += has_codes ? kRiceCell : 0;
      plane += has_codes ? parameter : 0;
    }
    return codes;
  }

  /** Passes unary codes, the last of which ends at bit `end`. False if a cell has more bits than it
   *  may: modulo 256 its length is then too much, or all of them are less than their sum. */
  GQ_INLINE bool pass_codes(uint32_t codes, uint32_t end, const TileEnds& tile) {
    uint32_t sum = 0, longest = 0;
    for (uint32_t e = TileEnds::kFirst; e < TileEnds::kFirst + codes; e += kRiceCell) {
      const uint8_t bits = static_cast<uint8_t>(tile.place[e + kRiceCell - 1] - tile.place[e - 1]);
      sum += bits;
      longest = bits > longest ? bits : longest;
    }
    unary += end + 1;
    return plane <= word_count && longest <= kRiceCellUnaryBits && sum == end + 1;
  }
};

/** Reads unary codes of `count` cells from `first` on, one after the other, whatever the words are;
 *  returns how many cells there are before they end. */
uint32_t read_one_by_one(RiceCursor& cursor, uint32_t first, uint32_t count, TileEnds& tile) {
  const uint32_t begin = cursor.unary;
  uint8_t* place = tile.place + TileEnds::kFirst;
  place[-1] = 0xff;
  for (uint32_t c = 0; c < count; ++c) {
    tile.begin[c] = static_cast<uint32_t>(place - tile.place);
    const uint32_t parameter = tile.parameter[c] = cursor.parameter(first + c);
    tile.plane[c] = cursor.plane;
    if (parameter > kRiceParameterMax) continue;
    cursor.plane += parameter;
    if (cursor.plane > cursor.word_count) return c;
    uint64_t low = cursor.window(0), high = cursor.window(1) & kHighUnary;
    uint32_t end = 0;
    for (uint32_t e = 0; e < kRiceCell; ++e) {
      if ((low | high) == 0) return c;
      uint64_t& ones = low != 0 ? low : high;
      end = (low != 0 ? 0 : kRiceUnaryBits) + static_cast<uint32_t>(__builtin_ctzll(ones));
      ones &= ones - 1;
      *place++ = static_cast<uint8_t>(cursor.unary - begin + end);
    }
    cursor.unary += end + 1;
  }
  return count;
}

#if GQ_VBMI

/** The same, all of them together, the places of 64 bits' ones at once; false, and nothing is
 *  passed, if not all are there. */
bool read_together(RiceCursor& at, uint32_t first, uint32_t count, TileEnds& tile) {
  RiceCursor cursor = at;
  const uint32_t codes = cursor.take_head(first, count, tile);
  uint8_t* const places = tile.place + TileEnds::kFirst;
  places[-1] = 0xff;
  alignas(64) uint8_t number[64];
  for (uint32_t k = 0; k < sizeof number; ++k) number[k] = static_cast<uint8_t>(k);
  __m512i numbers = _mm512_load_si512(number);
  uint32_t found = 0, end = ~0u;
  for (uint32_t k = 0; found < codes; ++k) {
    if (k == kReadWindows) return false;
    const uint64_t ones = cursor.window(k);
    _mm512_storeu_si512(places + found, _mm512_maskz_compress_epi8(ones, numbers));
    numbers = _mm512_add_epi8(numbers, _mm512_set1_epi8(64));
    const uint64_t last = uint64_t{1} << ((codes - 1 - found) % 64);
    end = 64 * k + static_cast<uint32_t>(_tzcnt_u64(_pdep_u64(last, ones)));
    found += static_cast<uint32_t>(__builtin_popcountll(ones));
  }
  if (!cursor.pass_codes(codes, end, tile)) return false;
  at = cursor;
  return true;
}

#else

bool read_together(RiceCursor& at, uint32_t first, uint32_t count, TileEnds& tile) {
  RiceCursor cursor = at;
  const uint32_t codes = cursor.take_head(first, count, tile);
  uint8_t* const places = tile.place + TileEnds::kFirst;
  places[-1] = 0xff;
  uint32_t found = 0, end = ~0u;
  for (uint32_t k = 0; found < codes; ++k) {
    if (k == kReadWindows) return false;
    const uint64_t ones = cursor.window(k);
    put_places(ones, 64 * k, places + found);
    found += static_cast<uint32_t>(__builtin_popcountll(ones));
    end = 64 * k + places[codes - 1] % 64;
  }
  if (!cursor.pass_codes(codes, end, tile)) return false;
  at = cursor;
  return true;
}

#endif

#if GQ_VECTOR_BYTES == 64

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

#elif GQ_VECTOR_BYTES == 32

GQ_INLINE Halves one_plane(uint32_t plane, uint32_t bit, uint32_t part) {
  Halves own_bit;
  for (uint32_t k = 0; k < kVectorHalves; ++k) own_bit[k] = static_cast<uint16_t>(1u << k);
  const uint16_t half = static_cast<uint16_t>(plane >> (16 * part));
  const uint16_t made = static_cast<uint16_t>(1u << bit);
  const Halves bits = Halves{} + half;
  return reinterpret_cast<Halves>((bits & own_bit) == own_bit) & made;
}

GQ_INLINE Halves four_planes(const uint32_t* plane, uint32_t part) {
  Halves low = {};
  GQ_UNROLL for (uint32_t b = 0; b < kPlanesAtOnce; ++b) low |= one_plane(plane[b], b, part);
  return low;
}

#endif

#if GQ_VECTOR_BYTES >= 32

/** With parameters up to this one, codes have 16 bits whatever the words are: 64 << 9. */
constexpr uint32_t kHalvesParameterMax = 9;

/** The planes of a cell, of which there are four at least, the cell's or others. */
struct CellPlanes {
  const uint32_t* plane;
  uint32_t parameter;

  /** The low bits of the codes of some values. */
  GQ_INLINE Halves low_bits(uint32_t part) const {
    const uint16_t own_bits = static_cast<uint16_t>((1u << parameter) - 1);
    Halves low = four_planes(plane, part) & own_bits;
    for (uint32_t b = kPlanesAtOnce; b < parameter; ++b) low |= one_plane(plane[b], b, part);
    return low;
  }
};

#else

/** With parameters up to this one, low bits are bytes. */
constexpr uint32_t kHalvesParameterMax = 8;

/** All ones for those of 16 values, in the first half of a cell or the second, whose bits are set
 *  in plane `number` of four. */
GQ_INLINE uint8x16_t set_bytes(Bytes planes, uint32_t number, uint32_t half) {
  const Bytes own_bits = reinterpret_cast<Bytes>(Lanes64{} + 0x8040201008040201);
  const Bytes own_bytes = reinterpret_cast<Bytes>(Lanes64{0, kEachByte});
  const Bytes bytes = shuffled(planes, own_bytes + static_cast<uint8_t>(4 * number + 2 * half));
  return vtstq_u8(reinterpret_cast<uint8x16_t>(bytes), reinterpret_cast<uint8x16_t>(own_bits));
}

/** The planes of a cell, of which there are four at least, the cell's or others. */
struct CellPlanes {
  uint8x16_t bits[2];  ///< low bits of the codes of 16 values

  GQ_INLINE CellPlanes(const uint32_t* plane, uint32_t parameter) {
    const Bytes four = vector_at<Bytes>(plane);
    const uint32_t few = parameter < kPlanesAtOnce ? parameter : kPlanesAtOnce;
    GQ_UNROLL for (uint32_t half = 0; half < 2; ++half) {
      uint8x16_t low = set_bytes(four, 0, half);
      low = vsliq_n_u8(low, set_bytes(four, 1, half), 1);
      low = vsliq_n_u8(low, set_bytes(four, 2, half), 2);
      low = vsliq_n_u8(low, set_bytes(four, 3, half), 3);
      low = vandq_u8(low, vdupq_n_u8(static_cast<uint8_t>((1u << few) - 1)));
      for (uint32_t b = kPlanesAtOnce; b < parameter; ++b) {
        const Bytes one = reinterpret_cast<Bytes>(Words{} + plane[b]);
        const uint8x16_t bit = vdupq_n_u8(static_cast<uint8_t>(1u << b));
        low = vorrq_u8(low, vandq_u8(set_bytes(one, 0, half), bit));
      }
      bits[half] = low;
    }
  }

  /** Those of some values. */
  GQ_INLINE Halves low_bits(uint32_t part) const {
    const uint8x16_t both = bits[part / 2];
    return reinterpret_cast<Halves>(part % 2 == 0 ? vmovl_u8(vget_low_u8(both))
                                                  : vmovl_high_u8(both));
  }
};

#endif

/** The first half of signed halves of a word, or the second. */
template <uint32_t kFirst, uint32_t... kHalf>
GQ_INLINE HalfSignedHalves few_halves(Halves a, std::integer_sequence<uint32_t, kHalf...>) {
  const SignedHalves all = reinterpret_cast<SignedHalves>(a);
  return __builtin_shufflevector(all, all, (kFirst + kHalf)...);
}

/** k of some values of a cell, from where their unary codes end and from the codes' low bits. */
GQ_INLINE Halves read_numbers(const uint8_t* ends, uint32_t parameter, Halves low) {
  const HalfBytes high = vector_at<HalfBytes>(ends) - vector_at<HalfBytes>(ends - 1) - 1;
  const Halves code = shifted_up(wide_bytes(high), parameter) | low;
  const Halves even = (code & 1) - 1;  // all ones
  return (halved_up(code) ^ even) - even;
}

// What is stored of a value that has been decoded, or of a vector of them.

struct AsDecoded {
  static constexpr bool kAdds = false;
  template <typename Values>
  GQ_INLINE Values operator()(Values decoded, const float*) const {
    return decoded;
  }
};

struct AddedTo {
  static constexpr bool kAdds = true;
  template <typename Values>
  GQ_INLINE Values operator()(Values decoded, const float* place) const {
    return vector_at<Values>(place) + decoded;
  }
};

struct DividedBy {
  static constexpr bool kAdds = false;
  float divisor;
  template <typename Values>
  GQ_INLINE Values operator()(Values decoded, const float*) const {
    return decoded / divisor;
  }
};

/** Decodes the cells of a group. */
template <typename Stored>
class RiceTileDecoder {
 public:
  RiceTileDecoder(const RiceLayout& layout, const DecodeRiceArgs& args, float step,
                  const Stored& stored)
      : layout_(layout), args_(args), words_(args.words), step_(step), stored_(stored) {}

  void run() {
    RiceCursor cursor{words_, layout_.word_count, layout_.head_words};
    TileEnds tile;
    for (uint32_t first = 0; first < layout_.cells; first += kReadCells) {
      const uint32_t left = layout_.cells - first, count = left < kReadCells ? left : kReadCells;
      prefetch_ahead(args_.ahead, first * kRiceCell, kReadCells * kRiceCell);
      const bool together = read_together(cursor, first, count, tile);
      const uint32_t readable = together ? count : read_one_by_one(cursor, first, count, tile);
      for (uint32_t c = 0; c < readable; ++c) put_cell(first + c, c, tile);
      if (readable < count) return poison_from(args_, layout_, first + readable);
    }
  }

 private:
  GQ_INLINE void put_cell(uint32_t cell, uint32_t c, const TileEnds& tile) const {
    const uint32_t parameter = tile.parameter[c], count = layout_.values_of(cell);
    float* const value = values_of_cell(args_, cell);
    if (parameter > kRiceParameterMax) {
      put_without_codes(parameter, count, value);
      return;
    }
    const uint8_t* const ends = tile.place + tile.begin[c];
    const uint32_t* const plane = words_ + tile.plane[c];
    const bool has_planes = tile.plane[c] + kPlanesAtOnce <= layout_.word_count;
    if (count == kRiceCell && has_planes && parameter <= kHalvesParameterMax) {
      put_codes(ends, plane, parameter, value);
    } else {
      put_plainly(ends, plane, parameter, count, value);
    }
  }

  GQ_INLINE void put_codes(const uint8_t* ends, const uint32_t* plane, uint32_t parameter,
                           float* value) const {
    const CellPlanes planes{plane, parameter};
    GQ_UNROLL for (uint32_t part = 0; part < kCellParts; ++part) {
      const uint32_t e = part * kVectorHalves;
      const Halves numbers = read_numbers(ends + e, parameter, planes.low_bits(part));
      put_values(few_halves<0>(numbers, WordNumbers()), value + e);
      put_values(few_halves<kVectorFloats>(numbers, WordNumbers()), value + e + kVectorFloats);
    }
  }

  GQ_INLINE void put_values(HalfSignedHalves numbers, float* value) const {
    const Floats decoded = __builtin_convertvector(wide_halves(numbers), Floats) * step_;
    store_vector(stored_(decoded, value), value);
  }

  void put_without_codes(uint32_t parameter, uint32_t count, float* value) const {
    if (parameter == kRicePoisoned) return poison_values(count, value);
    if (!Stored::kAdds) memset(value, 0, count * sizeof *value);
  }

  /** What is rare: a cell with fewer values, planes at the end of the words, large codes. */
  void put_plainly(const uint8_t* ends, const uint32_t* plane, uint32_t parameter, uint32_t count,
                   float* value) const {
    for (uint32_t e = 0; e < count; ++e, ++ends) {
      const uint8_t high = static_cast<uint8_t>(*ends - *(ends - 1) - 1);
      uint32_t code = uint32_t{high} << parameter;
      for (uint32_t b = 0; b < parameter; ++b) code |= (plane[b] >> e & 1) << b;
      value[e] = stored_(rice_value(code, step_), value + e);
    }
  }

  const RiceLayout& layout_;
  const DecodeRiceArgs& args_;
  const uint32_t* words_;
  float step_;
  Stored stored_;
};

#endif
