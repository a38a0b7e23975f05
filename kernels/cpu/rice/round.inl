// Rounding to codes by vectors, a tile at a time, and the parameters of their cells.

#if GQ_VECTOR_BYTES > 0

/** Codes of a tile, and 0 beyond the group's last value; the parameters of its cells, and as they
 *  are shown: that of zeros for cells that have no other codes. */
struct RiceCodeTile {
  alignas(64) uint16_t code[kRiceTileValues];
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
    sums = with_halves(sums, both);
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

/** What halves_of(), or bytes_of_halves(), left in turn: the first vector's lanes first. */
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
    const Halves number = halves_in_order(halves_of(a, b));
    // 2 k - 1, or its complement, -2 k, if k - 1 is negative
    const SignedHalves less = reinterpret_cast<SignedHalves>(number) - 1;
    const Halves codes =
        (number + reinterpret_cast<Halves>(less)) ^ reinterpret_cast<Halves>(less >> 15);
    store_vector(codes, code + e);
    sums = with_halves(sums, codes);
  }
  return reinterpret_cast<Words>(sums);
}

/** `first`: which of the uniforms is that of the tile's first value. */
template <bool kFew, typename Uniforms>
void round_tile(const float* value, float inverse, const Uniforms& uniforms, uint32_t first,
                RiceCodeTile& tile) {
  tile.sums = cell_sums([&](uint32_t c) {
    const uint32_t e = c * kRiceCell;
    return round_cell<kFew>(value + e, inverse, uniforms, first + e, tile.code + e);
  });
  guess_parameters(tile);
}

#endif
