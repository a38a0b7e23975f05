// Rounding and writing of Rice codes by vectors, a tile at a time.

#if GQ_VECTOR_BYTES >= 32

/** Codes of a tile, and 0 beyond the group's last value; the parameters of its cells, and as they are
 *  shown: that of zeros for cells that have no other codes. */
struct RiceCodeTile {
  alignas(64) uint16_t code[kTileValues];
  alignas(64) uint32_t parameter[kTileCells];
  Words sums;   ///< of the codes of each cell
  Words least;  ///< parameters that may be one or two too large, until they are found
  Words shown;
};

/** Sums of codes of a cell that are halved without their p low bits, as rice_parameter() has them;
 *  and from bit 8 on those of p + 1. */
GQ_INLINE Words halves_sums(const uint16_t* codes, uint32_t parameter) {
  Integers sums = {};
  GQ_UNROLL for (uint32_t k = 0; k < kRiceCell; k += kVectorHalves) {
    const Halves high = shifted_down(vector_at<Halves>(codes + k), parameter);
    const Halves both = halved_up(high) + (halved_up(high >> 1) << 8);
    sums += pair_products(both, Halves{} + static_cast<uint16_t>(1));
  }
  return reinterpret_cast<Words>(sums);
}

/** Halving codes without their p low bits divides them by 2^(p + 1) and changes the sum S of a cell
 *  by less than 16 besides. So it is above 32 for each p with S + 32 > 128 * 2^p, and it is not for
 *  p + 2 of the least p without that. */
GQ_INLINE void guess_parameters(RiceCodeTile& tile) {
  tile.least = exponents_above((tile.sums + (32 + 127)) >> 7);
  store_words(tile.least, tile.parameter);
}

GQ_INLINE void find_parameters(RiceCodeTile& tile) {
  const Words halves = cell_sums(
      [&](uint32_t c) { return halves_sums(tile.code + c * kRiceCell, tile.parameter[c]); });
  const Words one = reinterpret_cast<Words>((halves & 255) > kRiceHalvesMax);
  const Words two = reinterpret_cast<Words>(halves >> 8 > kRiceHalvesMax);
  const Words parameters = tile.least - one - two;
  store_words(parameters, tile.parameter);
  tile.shown = tile.sums == 0 ? Words{} + kRiceZeros : parameters;
}


/** Steps of the largest magnitude for which k and 23 bits behind the point fit in a word, and
 *  reciprocals of steps that are finite if multiplied by 2^23. */
constexpr float kFewSteps = 255, kFewStepsInverse = 0x1p100f;

/** k of the values from e on: floor(value / step + u). If there are few they are rounded as linear
 *  levels are. */
template <bool kFew, typename Uniforms>
GQ_INLINE Integers rice_numbers(Floats value, float inverse, const Uniforms& uniforms, uint32_t e) {
  const Integers uniform = reinterpret_cast<Integers>(uniforms_at(uniforms, e));
  if (kFew) return (nearest_integers(value * (inverse * 0x1p23f)) + uniform) >> kUniformBits;
  const Floats steps = value * inverse;
  const Integers whole = __builtin_convertvector(steps, Integers);
  const Floats rest = steps - __builtin_convertvector(whole, Floats);
  return whole + ((nearest_integers(rest * 0x1p23f) + uniform) >> kUniformBits);
}

/** What saturated_halves(), or bytes_of_halves(), left in turn: the first vector's lanes first. */
template <uint32_t... kLane>
GQ_INLINE Lanes64 lanes_in_order(Lanes64 lanes, std::integer_sequence<uint32_t, kLane...>) {
  constexpr uint32_t kHalf = sizeof...(kLane) / 2;
  return __builtin_shufflevector(lanes, lanes, (kLane % kHalf * 2 + kLane / kHalf)...);
}

GQ_INLINE Halves halves_in_order(Halves halves) {
  return reinterpret_cast<Halves>(lanes_in_order(reinterpret_cast<Lanes64>(halves),
                                                 std::make_integer_sequence<uint32_t, kLanes>()));
}

/** Codes of a cell; returns sums of them, in parts. */
template <bool kFew, typename Uniforms>
GQ_INLINE Words round_cell(const float* value, float inverse, const Uniforms& uniforms,
                           uint32_t first, uint16_t* code) {
  Integers sums = {};
  GQ_UNROLL for (uint32_t e = 0; e < kRiceCell; e += kVectorHalves) {
    const Integers a = rice_numbers<kFew>(vector_at<Floats>(value + e), inverse, uniforms,
                                               first + e);
    const uint32_t after = e + kVectorFloats;
    const Integers b = rice_numbers<kFew>(vector_at<Floats>(value + after), inverse, uniforms,
                                               first + after);
    const Halves number = halves_in_order(saturated_halves(a, b));
    // 2 k - 1, or its complement, -2 k, if k - 1 is negative
    const SignedHalves less = reinterpret_cast<SignedHalves>(number) - 1;
    const Halves codes =
        (number + reinterpret_cast<Halves>(less)) ^ reinterpret_cast<Halves>(less >> 15);
    store_vector(codes, code + e);
    sums += pair_products(codes, Halves{} + static_cast<uint16_t>(1));
  }
  return reinterpret_cast<Words>(sums);
}

template <bool kFew, typename Uniforms>
void round_tile(const float* value, float inverse, const Uniforms& uniforms, RiceCodeTile& tile) {
  tile.sums = cell_sums([&](uint32_t c) {
    const uint32_t e = c * kRiceCell;
    return round_cell<kFew>(value + e, inverse, uniforms, e, tile.code + e);
  });
  guess_parameters(tile);
}

#if GQ_VECTOR_BYTES == 64

/** Bits b of the codes of a cell. Compilers would gather masks in a vector before they store them.
 */
GQ_INLINE void put_plane(__m512i codes, uint32_t b, uint32_t* plane) {
  const __mmask32 mask =
      _mm512_test_epi16_mask(codes, _mm512_set1_epi16(static_cast<int16_t>(1u << b)));
  __asm__("kmovd %1, %0" : "=m"(*plane) : "k"(mask));
}

/** Planes of a cell, at least `count` and four of them. */
GQ_INLINE void put_planes(const uint16_t* code, uint32_t count, uint32_t* planes) {
  const __m512i codes = _mm512_loadu_si512(code);
  GQ_UNROLL for (uint32_t b = 0; b < kPlanesAtOnce; ++b) put_plane(codes, b, planes + b);
  for (uint32_t b = kPlanesAtOnce; b < count; ++b) put_plane(codes, b, planes + b);
}

#else

/** Bits b to b + 7 of the codes of a cell. */
GQ_INLINE __m256i bytes_of_codes(const uint16_t* code, uint32_t b) {
  const Halves low = shifted_down(vector_at<Halves>(code), b) & 255;
  const Halves high = shifted_down(vector_at<Halves>(code + kVectorHalves), b) & 255;
  const Halves bytes = reinterpret_cast<Halves>(bytes_of_halves(low, high));
  return reinterpret_cast<__m256i>(halves_in_order(bytes));
}

/** Planes of a cell, at least `count` and four of them: a bit that leads its byte is its sign. */
GQ_INLINE void put_planes(const uint16_t* code, uint32_t count, uint32_t* planes) {
  const __m256i bytes = bytes_of_codes(code, 0);
  GQ_UNROLL for (uint32_t b = 0; b < kPlanesAtOnce; ++b) {
    const int bits = static_cast<int>(7 - b);
    planes[b] = static_cast<uint32_t>(_mm256_movemask_epi8(_mm256_slli_epi16(bytes, bits)));
  }
  for (uint32_t b = kPlanesAtOnce; b < count; ++b) {
    planes[b] = static_cast<uint32_t>(
        _mm256_movemask_epi8(_mm256_slli_epi16(bytes_of_codes(code, b), 7)));
  }
}

#endif

/** Bytes of 8 rows a turn nearer to columns: those of rows i and i + 4 in turn. */
template <uint32_t kFirst, uint32_t... kByte>
GQ_INLINE Bytes bytes_in_turn(Bytes a, Bytes b, std::integer_sequence<uint32_t, kByte...>) {
  constexpr uint32_t kBytes = sizeof...(kByte);
  return __builtin_shufflevector(
      a, b, (kByte / 16 * 16 + kFirst + kByte % 16 / 2 + kByte % 2 * kBytes)...);
}

GQ_INLINE void transpose_once(Bytes (&row)[8]) {
  using ByteNumbers = std::make_integer_sequence<uint32_t, GQ_VECTOR_BYTES>;
  Bytes next[8];
  GQ_UNROLL for (uint32_t k = 0; k < 4; ++k) {
    next[2 * k] = bytes_in_turn<0>(row[k], row[k + 4], ByteNumbers());
    next[2 * k + 1] = bytes_in_turn<8>(row[k], row[k + 4], ByteNumbers());
  }
  GQ_UNROLL for (uint32_t k = 0; k < 8; ++k) row[k] = next[k];
}

/** Words that are all ones, or 0, as lanes of 64 bits: the first half of them, or the second. */
GQ_INLINE Lanes64 wide_words(Words words, uint32_t second) {
  using Half = int32_t __attribute__((vector_size(GQ_VECTOR_BYTES / 2)));
  int32_t word[kVectorFloats];
  store_vector(words, word);
  return reinterpret_cast<Lanes64>(
      __builtin_convertvector(vector_at<Half>(word + second * kLanes), Signed64));
}

constexpr uint32_t kHalfCell = kRiceCell / 2;

/** Unary codes of the halves of the cells of a tile; 0 of cells without, and less than one for each
 *  value if they are longer than 64 bits. */
struct UnaryTile {
  alignas(64) uint64_t code[2][kTileCells];

  explicit UnaryTile(const RiceCodeTile& tile) {
    constexpr uint32_t kGroups = kTileCells / kLanes;
    alignas(64) uint8_t column[kTileValues];
    put_columns(tile, column);
    keep_in_memory(column);
    Lanes64 codes[2 * kGroups];
    GQ_UNROLL for (Lanes64& some : codes) some = Lanes64{} + 1;
    // From the last value to the first; behind each a one, that of the value next.
    GQ_UNROLL for (uint32_t e = kHalfCell - 1; e > 0; --e) {
      GQ_UNROLL for (uint32_t k = 0; k < 2 * kGroups; ++k) {
        codes[k] = (codes[k] << length_at(column, k % 2 * kHalfCell + e, k / 2)) | 1;
      }
    }
    const Words have_codes = reinterpret_cast<Words>(tile.shown != Words{} + kRiceZeros);
    GQ_UNROLL for (uint32_t k = 0; k < 2 * kGroups; ++k) {
      const Lanes64 made = codes[k] << (length_at(column, k % 2 * kHalfCell, k / 2) - 1);
      store_vector(made & wide_words(have_codes, k / 2), code[k % 2] + k / 2 * kLanes);
    }
    keep_in_memory(code);
  }

 private:
  /** Lengths of the unary codes, those of value e of 8 cells next to each other. */
  static GQ_INLINE void put_columns(const RiceCodeTile& tile, uint8_t* column) {
    Bytes row[8];
    GQ_UNROLL for (uint32_t c = 0; c < 8; ++c) {
      // Of one cell and of the one 8 further, or of both halves of one.
      constexpr uint32_t kNext = GQ_VECTOR_BYTES == 64 ? 8 : 0;
      const uint16_t* const first = tile.code + c * kRiceCell;
      const uint16_t* const second = first + (kNext > 0 ? kNext * kRiceCell : kVectorHalves);
      row[c] = bytes_of_halves(
                   shifted_down(vector_at<Halves>(first), tile.parameter[c]),
                   shifted_down(vector_at<Halves>(second), tile.parameter[c + kNext])) + 1;
    }
    transpose_once(row);
    transpose_once(row);
    transpose_once(row);
    GQ_UNROLL for (uint32_t k = 0; k < 8; ++k) store_vector(row[k], column + k * GQ_VECTOR_BYTES);
  }

  /** Those of value e of the g-th cells, as many as a vector has lanes. */
  static GQ_INLINE Lanes64 length_at(const uint8_t* column, uint32_t e, uint32_t g) {
    const uint32_t vector = GQ_VECTOR_BYTES == 64 ? 4 * g + e % 8 / 2 : e / 16 * 4 + e % 8 / 2;
    const uint32_t part = GQ_VECTOR_BYTES == 64 ? e / 8 : e / 8 % 2;
    const uint32_t cell = GQ_VECTOR_BYTES == 64 ? 0 : 4 * g;
    return lanes64_at(column + vector * GQ_VECTOR_BYTES + part * 16 + e % 2 * 8 + cell);
  }
};

/** Writes a group's words: a tile of planes from the front, one of unary codes from the end. */
class RiceTileWriter {
 public:
  RiceTileWriter(const RiceLayout& layout, uint32_t step, uint32_t* words)
      : layout_(layout), words_(words), plane_(layout.head_words),
        unary_word_(words + layout.word_count - 2) {
    words[0] = step;
  }

  /** The tile with cell `first`. False, and nothing is written, if there is no room. */
  bool write(uint32_t first, const RiceCodeTile& tile) {
    const UnaryTile unary(tile);
    const uint32_t left = layout_.cells - first, count = left < kTileCells ? left : kTileCells;
    CellBits bits[kTileCells];
    for (uint32_t c = 0; c < kTileCells; ++c) {
      bits[c] = bits_of(tile.code + c * kRiceCell, tile.parameter[c], unary, c);
      bits_ += kRiceCell * tile.parameter[c] + bits[c].first + bits[c].second;
    }
    if (bits_ > layout_.room) return false;
    put_shown(tile.shown, count, words_ + 1 + first / kRiceWordParameters);
    write_planes(tile, count);
    for (uint32_t c = 0; c < kTileCells; ++c) {
      if (bits[c].in_words) {
        append(unary.code[0][c], bits[c].first);
        append(unary.code[1][c], bits[c].second);
      } else {
        append_codes(tile.code + c * kRiceCell, tile.parameter[c]);
      }
    }
    return true;
  }

  void end() {
    if (unary_ % kRiceUnaryBits != 0) memcpy(unary_word_, &open_, sizeof open_);
    const uint32_t unary = (unary_ + kRiceUnaryBits - 1) / kRiceUnaryBits * 2;
    memset(words_ + plane_, 0, (layout_.word_count - plane_ - unary) * sizeof *words_);
  }

 private:
  /** Bits of unary codes, which end with a one. */
  static uint32_t length_of(uint64_t code) {
    return code == 0 ? 0 : kRiceUnaryBits - static_cast<uint32_t>(__builtin_clzll(code));
  }

  /** Bits of the unary codes of both halves of a cell; `first` are all if not both are in words. */
  struct CellBits {
    uint32_t first, second;
    bool in_words;
  };

  static CellBits bits_of(const uint16_t* code, uint32_t parameter, const UnaryTile& unary,
                          uint32_t c) {
    const uint64_t first = unary.code[0][c], second = unary.code[1][c];
    const int ones = __builtin_popcountll(first) + __builtin_popcountll(second);
    if (ones != static_cast<int>(kRiceCell) && ones != 0) {
      return {unary_bits(code, parameter), 0, false};
    }
    return {length_of(first), length_of(second), true};
  }

  static uint32_t unary_bits(const uint16_t* code, uint32_t parameter) {
    uint32_t bits = kRiceCell;
    for (uint32_t e = 0; e < kRiceCell; ++e) bits += code[e] >> parameter;
    return bits;
  }

  /** Eight to a word. */
  static void put_shown(Words shown, uint32_t count, uint32_t* words) {
    Words shifts;
    for (uint32_t c = 0; c < kTileCells; ++c) {
      shifts[c] = kRiceParameterBits * (c % kRiceWordParameters);
    }
    alignas(64) uint32_t part[kTileCells];
    store_words(shown << shifts, part);
    for (uint32_t c = 0; c < kTileCells; ++c) part[c] = c < count ? part[c] : 0;
    for (uint32_t k = 0; k < count; k += kRiceWordParameters, ++words) {
      *words = 0;
      for (uint32_t c = 0; c < kRiceWordParameters; ++c) *words |= part[k + c];
    }
  }

  void write_planes(const RiceCodeTile& tile, uint32_t count) {
    uint32_t planes[kTileCells * kRiceParameterMax + kPlanesAtOnce];
    uint32_t* next = planes;
    for (uint32_t c = 0; c < count; next += tile.parameter[c], ++c) {
      put_planes(tile.code + c * kRiceCell, tile.parameter[c], next);
    }
    const uint32_t plane_count = static_cast<uint32_t>(next - planes);
    memcpy(words_ + plane_, planes, plane_count * sizeof *planes);
    plane_ += plane_count;
  }

  void append(uint64_t code, uint32_t bits) {
    const uint32_t used = unary_ % kRiceUnaryBits;
    open_ |= code << used;
    memcpy(unary_word_, &open_, sizeof open_);
    unary_ += bits;
    const bool is_full = used + bits >= kRiceUnaryBits;
    const uint64_t rest = code >> 1 >> (kRiceUnaryBits - 1 - used);
    open_ = is_full ? rest : open_;
    unary_word_ -= is_full ? 2 : 0;
  }

  void append_codes(const uint16_t* code, uint32_t parameter) {
    for (uint32_t e = 0; e < kRiceCell; ++e) {
      append(0, code[e] >> parameter);
      append(1, 1);
    }
  }

  const RiceLayout& layout_;
  uint32_t* words_;
  uint32_t plane_;        ///< word of the next plane
  uint32_t* unary_word_;  ///< of the open one
  uint64_t open_ = 0;
  uint32_t unary_ = 0;    ///< bits of unary codes so far
  uint32_t bits_ = 0;     ///< all bits of codes so far
};

/** Each part of the work on a tile ends with what takes long to come: meanwhile the processor has
 *  another part of the tiles before and behind it to do. */
constexpr uint32_t kTilesUnderWay = 3;

template <bool kFew, typename Uniforms>
bool write_rice_tiles(const EncodeRiceArgs& args, const RiceLayout& layout, uint32_t step,
                      const Thresholds& thresholds) {
  RiceTileWriter writer(layout, step, args.words);
  const RiceValues values{layout, args.values, 1};
  const float inverse = 1 / norm_from_code(static_cast<uint16_t>(step));
  RiceCodeTile tiles[kTilesUnderWay];
  const uint32_t count = (layout.cells + kTileCells - 1) / kTileCells;
  for (uint32_t t = 0; t < count + kTilesUnderWay - 1; ++t) {
    if (t < count) {
      const uint32_t e = t * kTileValues;
      Uniforms uniforms;
      uniforms.fill(thresholds, args.first_value + e / kGranuleValues * args.stride_values +
                                    e % kGranuleValues);
      ValueTile local;
      uint32_t apart;
      const float* const value = values.tile_at(t * kTileCells, local, apart);
      round_tile<kFew>(value, inverse, uniforms, tiles[t % kTilesUnderWay]);
    }
    if (t >= 1 && t - 1 < count) find_parameters(tiles[(t - 1) % kTilesUnderWay]);
    if (t >= 2 && !writer.write((t - 2) * kTileCells, tiles[(t - 2) % kTilesUnderWay])) {
      return false;
    }
  }
  writer.end();
  return true;
}

#endif
