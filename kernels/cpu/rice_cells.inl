// Cells of Rice codes by vectors: a tile has as many cells as a vector has words, so that what
// there is one of for each cell, a sum or a parameter, is a vector for the tile.

#if GQ_VECTOR_BYTES >= 32

constexpr uint32_t kTileCells = kTileValues / kRiceCell;
constexpr uint32_t kVectorFloats = GQ_VECTOR_BYTES / 4;
constexpr uint32_t kVectorHalves = GQ_VECTOR_BYTES / 2;
constexpr uint32_t kCellParts = kRiceCell / kVectorHalves;

/** Planes that are made or read of each cell at least, whether it has as many or not. */
constexpr uint32_t kPlanesAtOnce = 4;

static_assert(kTileCells == kVectorFloats);

template <typename Vector, typename Element>
GQ_INLINE Vector vector_at(const Element* from) {
  Vector vector;
  memcpy(&vector, from, sizeof vector);
  return vector;
}

template <typename Vector, typename Element>
GQ_INLINE void store_vector(Vector vector, Element* to) {
  memcpy(to, &vector, sizeof vector);
}

/** Two words of each four, the first or the last two, a's and b's in turn; or, kBlock = 2, next to
 *  each other. */
template <uint32_t kBlock, uint32_t kFirst, uint32_t... kWord>
GQ_INLINE Words unpacked(Words a, Words b, std::integer_sequence<uint32_t, kWord...>) {
  constexpr uint32_t kWords = sizeof...(kWord);
  return __builtin_shufflevector(
      a, b,
      (kWord / 4 * 4 + kFirst +
       (kBlock == 1 ? kWord % 4 / 2 + kWord % 2 * kWords
                    : kWord % 2 + kWord % 4 / 2 * kWords))...);
}

/** Every other 128 bits of a, followed by those of b: the even ones, or the odd ones. */
template <uint32_t kOdd, uint32_t... kWord>
GQ_INLINE Words even_quads(Words a, Words b, std::integer_sequence<uint32_t, kWord...>) {
  return __builtin_shufflevector(a, b, (kWord / 4 * 8 + 4 * kOdd + kWord % 4)...);
}

using WordNumbers = std::make_integer_sequence<uint32_t, kVectorFloats>;

template <uint32_t kBlock>
GQ_INLINE Words unpacked_sum(Words a, Words b) {
  return unpacked<kBlock, 0>(a, b, WordNumbers()) + unpacked<kBlock, 2>(a, b, WordNumbers());
}

GQ_INLINE Words quad_sum(Words a, Words b) {
  return even_quads<0>(a, b, WordNumbers()) + even_quads<1>(a, b, WordNumbers());
}

constexpr uint32_t kQuadCells = 4, kTileQuads = kTileCells / kQuadCells;

/** Sums of four vectors, those of each 128 bits: half of the words remain of each pair of vectors,
 *  until one vector has a word of each. */
GQ_INLINE Words quad_of(const Words (&vector)[kQuadCells]) {
  return unpacked_sum<2>(unpacked_sum<1>(vector[0], vector[1]),
                         unpacked_sum<1>(vector[2], vector[3]));
}

/** Word c is the sum of cell c, from sums of four of them and of each 128 bits. */
GQ_INLINE Words tile_sums(const Words (&quad)[kTileQuads]) {
#if GQ_VECTOR_BYTES == 64
  return quad_sum(quad_sum(quad[0], quad[1]), quad_sum(quad[2], quad[3]));
#else
  return quad_sum(quad[0], quad[1]);
#endif
}

/** The sums of all cells; `sums_of(c)` returns that of cell c, in parts. */
template <typename SumsOf>
GQ_INLINE Words cell_sums(SumsOf sums_of) {
  Words quad[kTileQuads];
  for (uint32_t k = 0; k < kTileQuads; ++k) {
    Words four[kQuadCells];
    GQ_UNROLL for (uint32_t c = 0; c < kQuadCells; ++c) four[c] = sums_of(kQuadCells * k + c);
    quad[k] = quad_of(four);
  }
  return tile_sums(quad);
}

/** Writes a vector whose words are read one by one: compilers would take them out of the vector
 *  instead, with several instructions for each. */
template <uint32_t kCount>
GQ_INLINE void store_words(Words vector, uint32_t (&words)[kCount]) {
  store_vector(vector, words);
  __asm__("" : "+m"(words));
}

/** The sum of the codes of a cell, 16 bits each and below 2^15, in parts. */
GQ_INLINE Words code_sums(const uint16_t* codes, uint32_t parameter) {
  Integers sums = {};
  GQ_UNROLL for (uint32_t k = 0; k < kCellParts; ++k) {
    const Halves part = shifted_down(vector_at<Halves>(codes + k * kVectorHalves), parameter);
    sums += pair_products(part, Halves{} + static_cast<uint16_t>(1));
  }
  return reinterpret_cast<Words>(sums);
}

/** Parameters of the cells of a tile, in words and as they are shown: that of zeros for cells that
 *  have no other codes. */
struct TileParameters {
  Words parameters, shown;
  alignas(64) uint32_t parameter[kTileCells];

  /** Whether cells have codes: all ones, or 0. */
  GQ_INLINE Words have_codes() const {
    return reinterpret_cast<Words>(shown != Words{} + kRiceZeros);
  }
};

/** Of the codes' sum S and the sum of what p low bits leave of them it is known that the latter is
 *  above S / 2^p - 32. So p is the least with S <= 64 * 2^p - 32, if what it leaves is at most 32,
 *  or one more, which always leaves less. */
GQ_INLINE void find_parameters(const uint16_t* codes, Words sums, TileParameters& tile) {
  const Integers above = reinterpret_cast<Integers>(sums + (kRiceHighMax - 1));
  const Words exponent =
      reinterpret_cast<Words>(__builtin_convertvector(above, Floats)) >> 23;
  constexpr uint32_t kNone = 126 + 6;  // the exponent of numbers from 32 on
  const Words least = exponent > kNone ? exponent - kNone : Words{};
  store_words(least, tile.parameter);
  const Words high = cell_sums(
      [&](uint32_t c) { return code_sums(codes + c * kRiceCell, tile.parameter[c]); });
  tile.parameters = least - reinterpret_cast<Words>(high > kRiceHighMax);
  tile.shown = sums == 0 ? Words{} + kRiceZeros : tile.parameters;
  store_words(tile.parameters, tile.parameter);
}

/** Cells of a group, every `stride`-th of which is looked at. */
struct RiceValues {
  const RiceLayout& layout;
  const float* values;
  uint32_t stride;

  uint32_t cell_count() const { return (layout.cells + stride - 1) / stride; }

  /** Cells from `first` on, as many as a tile has, and what lies between them: the values
   *  themselves or, at the group's end, a copy filled up with zeros. */
  const float* tile_at(uint32_t first, ValueTile& local, uint32_t& step) const {
    const uint32_t last = (first + kTileCells - 1) * stride;
    step = stride * kRiceCell;
    if ((last + 1) * kRiceCell <= layout.value_count) return values + first * step;
    memset(&local, 0, sizeof local);
    for (uint32_t c = first; c < cell_count() && c < first + kTileCells; ++c) {
      memcpy(local.value + (c - first) * kRiceCell, values + c * step,
             layout.values_of(c * stride) * sizeof *values);
    }
    step = kRiceCell;
    return local.value;
  }
};

#endif
