// Writing of Rice codes by vectors, a tile at a time.

#if GQ_VECTOR_BYTES > 0

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

#elif GQ_VECTOR_BYTES == 32

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

#else

/** Bits b of 16 codes, each where the byte of a plane has it: sums of 8 of them are such bytes. */
GQ_INLINE Bytes placed_bits(Bytes codes, uint32_t b) {
  const Lanes64 own_bits = Lanes64{} + 0x8040201008040201;
  const uint8x16_t bit = vdupq_n_u8(static_cast<uint8_t>(1u << b));
  return reinterpret_cast<Bytes>(vtstq_u8(reinterpret_cast<uint8x16_t>(codes), bit)) &
         reinterpret_cast<Bytes>(own_bits);
}

/** Planes of a cell, at least `count` and four of them, four at a time. */
GQ_INLINE void put_planes(const uint16_t* code, uint32_t count, uint32_t* planes) {
  uint32_t first = 0;
  do {
    Bytes codes[2], sums[kPlanesAtOnce];
    GQ_UNROLL for (uint32_t k = 0; k < 2; ++k) {
      const Halves low = vector_at<Halves>(code + 2 * k * kVectorHalves);
      const Halves high = vector_at<Halves>(code + (2 * k + 1) * kVectorHalves);
      codes[k] = bytes_of_halves(shifted_down(low, first), shifted_down(high, first));
    }
    GQ_UNROLL for (uint32_t b = 0; b < kPlanesAtOnce; ++b) {
      sums[b] = pair_sums(placed_bits(codes[0], b), placed_bits(codes[1], b));
    }
    store_vector(pair_sums(pair_sums(sums[0], sums[1]), pair_sums(sums[2], sums[3])),
                 planes + first);
    first += kPlanesAtOnce;
  } while (first < count);
}

#endif

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
    uint32_t planes = 0, unary_bits = 0;
    for (const uint32_t parameter : tile.parameter) planes += parameter;
    for (const uint32_t bits : unary.bits) unary_bits += bits;
    bits_ += kRiceCell * planes + unary_bits;
    if (bits_ > layout_.room) return false;
    const uint32_t left = layout_.cells - first, count = left < kTileCells ? left : kTileCells;
    put_shown(tile.shown, first, count, words_ + 1 + first / kRiceWordParameters);
    const uint32_t needed = planes + 2 * (unary_bits / kRiceUnaryBits) + kWordsBeyond;
    if (unary.has_codes && words_ + plane_ + needed <= unary_word_) {
      put_tile_planes(tile, words_ + plane_);
      plane_ += planes;
      append_cells(unary);
    } else {
      write_carefully(tile, unary, planes);
    }
    return true;
  }

  void end() {
    if (unary_ % kRiceUnaryBits != 0) memcpy(unary_word_, &open_, sizeof open_);
    const uint32_t unary = (unary_ + kRiceUnaryBits - 1) / kRiceUnaryBits * 2;
    memset(words_ + plane_, 0, (layout_.word_count - plane_ - unary) * sizeof *words_);
  }

 private:
  /** What is written beyond a tile's own words at most: planes that a cell does not have, and two
   *  words of unary codes. */
  static constexpr uint32_t kWordsBeyond = kRiceParameterMax + 4;

  /** Eight to a word. A small tile has half of one, the first or the second. */
  static void put_shown(Words shown, uint32_t first, uint32_t count, uint32_t* words) {
    constexpr bool kIsSmall = kTileCells < kRiceWordParameters;
    constexpr uint32_t kTogether = kIsSmall ? kTileCells : kRiceWordParameters;
    const uint32_t before = kIsSmall ? first % kRiceWordParameters : 0;
    Words shifts;
    for (uint32_t c = 0; c < kTileCells; ++c) {
      shifts[c] = kRiceParameterBits * (before + c % kTogether);
    }
    alignas(64) uint32_t part[kTileCells];
    store_words(shown << shifts, part);
    for (uint32_t c = 0; c < kTileCells; ++c) part[c] = c < count ? part[c] : 0;
    for (uint32_t k = 0; k < count; k += kTogether, ++words) {
      if (before == 0) *words = 0;
      for (uint32_t c = 0; c < kTogether; ++c) *words |= part[k + c];
    }
  }

  /** Planes of all cells, one after the other, and some words beyond. */
  static void put_tile_planes(const RiceCodeTile& tile, uint32_t* planes) {
    for (uint32_t c = 0; c < kTileCells; planes += tile.parameter[c], ++c) {
      put_planes(tile.code + c * kRiceCell, tile.parameter[c], planes);
    }
  }

  void append_cells(const UnaryTile& unary) {
    uint64_t open = open_;
    uint32_t used = unary_ % kRiceUnaryBits;
    uint32_t* word = unary_word_;
    GQ_UNROLL for (uint32_t c = 0; c < kTileCells; ++c) {
      const uint64_t low = unary.low[c], high = unary.high[c];
      const uint32_t free = kRiceUnaryBits - 1 - used, end = used + unary.bits[c];
      const uint64_t first = open | low << used;
      const uint64_t second = low >> 1 >> free | high << used;
      const uint64_t third = high >> 1 >> free;
      memcpy(word, &first, sizeof first);
      memcpy(word - 2, &second, sizeof second);
      open = end < kRiceUnaryBits ? first : end < 2 * kRiceUnaryBits ? second : third;
      word -= end / kRiceUnaryBits * 2;
      used = end % kRiceUnaryBits;
      unary_ += unary.bits[c];
    }
    open_ = open;
    unary_word_ = word;
  }

  /** Writes no word that the tile does not have. */
  void write_carefully(const RiceCodeTile& tile, const UnaryTile& unary, uint32_t plane_count) {
    uint32_t planes[kTileCells * kRiceParameterMax + kPlanesAtOnce];
    put_tile_planes(tile, planes);
    memcpy(words_ + plane_, planes, plane_count * sizeof *planes);
    plane_ += plane_count;
    for (uint32_t c = 0; c < kTileCells; ++c) {
      if (unary.bits[c] > 0) append_codes(tile.code + c * kRiceCell, tile.parameter[c]);
    }
  }

  void append_codes(const uint16_t* code, uint32_t parameter) {
    for (uint32_t e = 0; e < kRiceCell; ++e) {
      append(0, code[e] >> parameter);
      append(1, 1);
    }
  }

  void append(uint64_t code, uint32_t bits) {
    const uint32_t used = unary_ % kRiceUnaryBits;
    open_ |= code << used;
    unary_ += bits;
    if (used + bits < kRiceUnaryBits) return;
    memcpy(unary_word_, &open_, sizeof open_);
    unary_word_ -= 2;
    open_ = code >> 1 >> (kRiceUnaryBits - 1 - used);
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
  Uniforms uniforms;
  for (uint32_t t = 0; t < count + kTilesUnderWay - 1; ++t) {
    if (t < count) {
      const uint32_t e = t * kRiceTileValues;
      prefetch_ahead(args.ahead, e, kRiceTileValues);
      if (e % kTileValues == 0) {
        uniforms.fill(thresholds, args.first_value + e / kGranuleValues * args.stride_values +
                                      e % kGranuleValues);
      }
      ValueTile local;
      uint32_t apart;
      const float* const value = values.tile_at(t * kTileCells, local, apart);
      round_tile<kFew>(value, inverse, uniforms, e % kTileValues, tiles[t % kTilesUnderWay]);
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
