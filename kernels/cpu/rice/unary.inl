// Unary codes of a tile by vectors: each half of a cell in a lane of 64 bits, from its last value
// to its first.

#if GQ_VECTOR_BYTES > 0

#if GQ_VECTOR_BYTES >= 32

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

#endif

/** Words that are all ones, or 0, as lanes of 64 bits: the first half of them, or the second. */
GQ_INLINE Lanes64 wide_words(Words words, uint32_t second) {
  using Half = int32_t __attribute__((vector_size(GQ_VECTOR_BYTES / 2)));
  int32_t word[kVectorFloats];
  store_vector(words, word);
  return reinterpret_cast<Lanes64>(
      __builtin_convertvector(vector_at<Half>(word + second * kLanes), Signed64));
}

constexpr uint32_t kHalfCell = kRiceCell / 2;

/** Unary codes of the cells of a tile: 64 bits and up to 32 more. Cells without have no bits. */
struct UnaryTile {
  alignas(64) uint64_t low[kTileCells];
  alignas(64) uint64_t high[kTileCells];
  alignas(64) uint32_t bits[kTileCells];
  bool has_codes;  ///< false, and there are bits alone, if a half of a cell has more than 64

  explicit UnaryTile(const RiceCodeTile& tile) {
    alignas(64) uint8_t column[kRiceTileValues];
    put_columns(tile, column);
    keep_in_memory(column);
    put_lengths(tile, column);
    Lanes64 codes[2 * kUnaryGroups];
    GQ_UNROLL for (Lanes64& some : codes) some = Lanes64{} + 1;
    // From the last value to the first; behind each a one, that of the value next.
    GQ_UNROLL for (uint32_t e = kHalfCell - 1; e > 0; --e) {
      GQ_UNROLL for (uint32_t k = 0; k < 2 * kUnaryGroups; ++k) {
        const Lanes64 length = length_at(column, k % 2 * kHalfCell + e, k / 2);
        codes[k] = lanes_up(codes[k], length) | 1;
      }
    }
    GQ_UNROLL for (uint32_t k = 0; k < 2 * kUnaryGroups; ++k) {
      const Lanes64 length = length_at(column, k % 2 * kHalfCell, k / 2);
      codes[k] = lanes_up(codes[k], length - 1);
    }
    put_codes(tile, codes);
  }

 private:
  static constexpr uint32_t kUnaryGroups = kTileCells / kLanes;

  /** Of the first halves of cells and of the second ones in turn. */
  GQ_INLINE void put_codes(const RiceCodeTile& tile, const Lanes64 (&codes)[2 * kUnaryGroups]) {
    const Words have_codes = reinterpret_cast<Words>(tile.shown != Words{} + kRiceZeros);
    GQ_UNROLL for (uint32_t g = 0; g < kUnaryGroups; ++g) {
      const Lanes64 mask = wide_words(have_codes, g);
      const Lanes64 first = codes[2 * g] & mask, second = codes[2 * g + 1] & mask;
      const Lanes64 length = lanes64_at(first_bits + g * kLanes);
      store_vector(first | lanes_up(second, length), low + g * kLanes);
      store_vector(lanes_down(second, 64 - length), high + g * kLanes);
    }
    keep_in_memory(low);
    keep_in_memory(high);
  }

  /** Lengths of halves of cells, 8 at a time, a byte each: a cell has 96 bits at most. */
  GQ_INLINE void put_lengths(const RiceCodeTile& tile, const uint8_t* column) {
    alignas(8) uint8_t all[kTileCells];
    uint64_t too_long = 0;
    constexpr uint32_t kLengths = kTileCells < 8 ? kTileCells : 8;
    GQ_UNROLL for (uint32_t c = 0; c < kTileCells; c += kLengths) {
      const uint64_t first = half_lengths(column, c, 0), second = half_lengths(column, c, 1);
      const uint64_t both = first + second;
      memcpy(first_bits + c, &first, kLengths);
      memcpy(all + c, &both, kLengths);
      too_long |= (first + 63 * kEachByte) | (second + 63 * kEachByte);
    }
    has_codes = (too_long & 0x80 * kEachByte) == 0;
    const Words bytes = reinterpret_cast<Words>(integers_at(all));
    store_words(tile.shown == Words{} + kRiceZeros ? Words{} : bytes, bits);
  }

#if GQ_VECTOR_BYTES >= 32

  static GQ_INLINE uint64_t half_lengths(const uint8_t* column, uint32_t c, uint32_t half) {
    constexpr uint32_t kVectors = 4;
    const uint32_t first = kVectors * (GQ_VECTOR_BYTES == 64 ? c / 8 : half);
    Bytes sums = {};
    GQ_UNROLL for (uint32_t k = first; k < first + kVectors; ++k) {
      sums += vector_at<Bytes>(column + k * GQ_VECTOR_BYTES);
    }
    const Lanes64 lanes = reinterpret_cast<Lanes64>(sums);
    const uint32_t lane = GQ_VECTOR_BYTES == 64 ? 4 * half : 0;
    return lanes[lane] + lanes[lane + 1] + lanes[lane + 2] + lanes[lane + 3];
  }

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

#else

  /** Those of 4 cells, the first ones. */
  static GQ_INLINE uint64_t half_lengths(const uint8_t* column, uint32_t, uint32_t half) {
    Bytes sums[kUnaryGroups];
    GQ_UNROLL for (uint32_t g = 0; g < kUnaryGroups; ++g) {
      const uint8_t* const lengths = column + (2 * g + half) * 2 * GQ_VECTOR_BYTES;
      sums[g] = vector_at<Bytes>(lengths) + vector_at<Bytes>(lengths + GQ_VECTOR_BYTES);
    }
    const Bytes fours = pair_sums(sums[0], sums[1]), twos = pair_sums(fours, fours);
    return reinterpret_cast<Words>(pair_sums(twos, twos))[0];
  }

  /** Lengths of the unary codes of half a cell. */
  static GQ_INLINE Lanes64 row_of(const RiceCodeTile& tile, uint32_t c, uint32_t half) {
    const uint16_t* const code = tile.code + c * kRiceCell + half * kHalfCell;
    const Bytes lengths =
        bytes_of_halves(
            shifted_down(vector_at<Halves>(code), tile.parameter[c]),
            shifted_down(vector_at<Halves>(code + kVectorHalves), tile.parameter[c])) + 1;
    return reinterpret_cast<Lanes64>(lengths);
  }

  /** Lengths of the unary codes, of 8 values of one cell and of the next. */
  static GQ_INLINE void put_columns(const RiceCodeTile& tile, uint8_t* column) {
    GQ_UNROLL for (uint32_t k = 0; k < 2 * kUnaryGroups; ++k) {
      const uint32_t c = k / 2 * kLanes;
      const Lanes64 a = row_of(tile, c, k % 2), b = row_of(tile, c + 1, k % 2);
      store_vector(even_pairs(a, b), column + 2 * k * GQ_VECTOR_BYTES);
      store_vector(odd_pairs(a, b), column + (2 * k + 1) * GQ_VECTOR_BYTES);
    }
  }

  /** Those of value e, in the lowest bytes of lanes. */
  static GQ_INLINE Lanes64 length_at(const uint8_t* column, uint32_t e, uint32_t g) {
    const uint32_t vector = (2 * g + e / kHalfCell) * 2 + e % kHalfCell / 8;
    return vector_at<Lanes64>(column + vector * GQ_VECTOR_BYTES) >> (8 * (e % 8));
  }

#endif

  alignas(8) uint8_t first_bits[kTileCells];  ///< of the first halves
};

#endif
