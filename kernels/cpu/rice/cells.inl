// Cells of Rice codes by vectors: a tile has as many cells as a vector has words, so that what
// there is one of for each cell, a sum or a parameter, is a vector for the tile.

#if GQ_VECTOR_BYTES > 0

constexpr uint32_t kVectorFloats = GQ_VECTOR_BYTES / 4;
constexpr uint32_t kVectorHalves = GQ_VECTOR_BYTES / 2;
constexpr uint32_t kCellParts = kRiceCell / kVectorHalves;

/** A tile of Rice codes: with NEON half of those of other stages. */
constexpr uint32_t kTileCells = kVectorFloats;
constexpr uint32_t kRiceTileValues = kTileCells * kRiceCell;

/** Planes that are made or read of each cell at least, whether it has as many or not. */
constexpr uint32_t kPlanesAtOnce = 4;

static_assert(kTileValues % kRiceTileValues == 0);

constexpr uint64_t kEachByte = 0x0101010101010101u;

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

using WordNumbers = std::make_integer_sequence<uint32_t, kVectorFloats>;

constexpr uint32_t kQuadCells = 4, kTileQuads = kTileCells / kQuadCells;

#if GQ_VECTOR_BYTES >= 32

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

template <uint32_t kBlock>
GQ_INLINE Words unpacked_sum(Words a, Words b) {
  return unpacked<kBlock, 0>(a, b, WordNumbers()) + unpacked<kBlock, 2>(a, b, WordNumbers());
}

GQ_INLINE Words quad_sum(Words a, Words b) {
  return even_quads<0>(a, b, WordNumbers()) + even_quads<1>(a, b, WordNumbers());
}

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

#else

GQ_INLINE Words quad_of(const Words (&vector)[kQuadCells]) {
  return pair_sums(pair_sums(vector[0], vector[1]), pair_sums(vector[2], vector[3]));
}

GQ_INLINE Words tile_sums(const Words (&quad)[kTileQuads]) { return quad[0]; }

#endif

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

/** For an array that is written by vectors and read in smaller parts: compilers would take these
 *  out of the vectors instead, with several instructions for each. */
template <typename Element, size_t kCount>
GQ_INLINE void keep_in_memory(Element (&array)[kCount]) {
  __asm__("" : "+m"(array));
}

GQ_INLINE void store_words(Words vector, uint32_t (&words)[kTileCells]) {
  store_vector(vector, words);
  keep_in_memory(words);
}

/** The least e with number <= 2^e, of numbers up to 2^24; 0 for 0. */
GQ_INLINE Words exponents_above(Words numbers) {
  const Integers less = reinterpret_cast<Integers>(numbers) - 1;
  const Words bits = reinterpret_cast<Words>(__builtin_convertvector(less, Floats)) >> 23;
  return less > 0 ? bits - 126 : Words{};
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
