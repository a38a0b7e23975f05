// What codes of a step may need, by vectors: RiceLook of all cells.

#if GQ_VECTOR_BYTES > 0

/** What values of a tile are in steps. Inside of a cell they lie in an order of their own. */
struct StepTile {
  alignas(64) uint16_t middle[kRiceTileValues];  ///< 2 m + s: m whole steps, s = 1 if negative
  alignas(64) uint16_t chance[kRiceTileValues];  ///< of one more, in 1 / 256, rounded up
  alignas(64) uint32_t parameter[kTileCells];
};

/** Whole steps of magnitudes, and steps in 1 / 256, rounded up. */
struct WholeSteps {
  Integers whole, parts;

  GQ_INLINE WholeSteps(Words value, float inverse) {
    const Floats steps = reinterpret_cast<Floats>(value & kMagnitudeMask) * inverse;
    whole = __builtin_convertvector(steps, Integers);
    parts = integers_above(steps * 256);
  }
};

/** A cell at `at` of a tile; returns sums of its values' parts. */
GQ_INLINE Words put_steps(const float* value, float inverse, uint32_t at, StepTile& tile) {
  Integers sums = {};
  GQ_UNROLL for (uint32_t k = 0; k < kRiceCell; k += kVectorHalves) {
    const Words first = vector_at<Words>(value + k);
    const Words second = vector_at<Words>(value + k + kVectorFloats);
    const WholeSteps a(first, inverse), b(second, inverse);
    const Halves whole = halves_of(a.whole, b.whole);
    const Halves negative =
        signs_of(reinterpret_cast<Integers>(first), reinterpret_cast<Integers>(second));
    store_vector(whole + whole + negative, tile.middle + at + k);
    store_vector(low_halves(a.parts, b.parts) - (whole << 8), tile.chance + at + k);
    sums += a.parts + b.parts;
  }
  return reinterpret_cast<Words>(sums);
}

/** A look under way: sums that are added up in the end. */
struct LookSums {
  Integers lows = {}, expected = {}, squares = {};
  Words plane_bits = {}, cells = {};

  /** The near code is one less than the middle, if that is not below 0, the far one is one more. */
  GQ_INLINE void add_cell(const StepTile& tile, uint32_t at, uint32_t parameter,
                          Halves& tile_lows) {
    GQ_UNROLL for (uint32_t k = at; k < at + kRiceCell; k += kVectorHalves) {
      const Halves middle = vector_at<Halves>(tile.middle + k);
      const Halves chance = vector_at<Halves>(tile.chance + k);
      const Halves near = less_one(middle);
      const Halves far = chance != 0 ? middle + 1 : near;
      const Halves low = shifted_down(near, parameter);
      const Halves more = shifted_down(far, parameter) - low;
      tile_lows += low;
      expected = with_products(expected, chance, more);
      squares = with_products(squares, more, more);
    }
  }

  /** Near codes without their low bits sum up to at most 64 for each cell: 16 bits hold a tile's.
   */
  void add_tile(const StepTile& tile) {
    Halves tile_lows = {};
    for (uint32_t c = 0; c < kTileCells; ++c) {
      add_cell(tile, c * kRiceCell, tile.parameter[c], tile_lows);
    }
    lows = with_halves(lows, tile_lows);
  }

  RiceLook look() const {
    RiceLook look;
    for (uint32_t c = 0; c < kTileCells; ++c) {
      look.values += kRiceCell * cells[c];
      look.near_bits += kRiceCell * (cells[c] + plane_bits[c]) + static_cast<uint32_t>(lows[c]);
      look.expected_256 += static_cast<uint32_t>(expected[c]);
      look.squares += static_cast<uint32_t>(squares[c]);
    }
    return look;
  }
};

void put_tile(const float* value, uint32_t step, float inverse, StepTile& tile, LookSums& sums) {
  const Words parts = cell_sums([&](uint32_t c) {
    return put_steps(value + c * step, inverse, c * kRiceCell, tile);
  });
  // As rice_look_parameter() finds them.
  const Words parameters = exponents_above((parts + 8191) >> 13);
  store_words(parameters, tile.parameter);
  sums.plane_bits += parameters;
  sums.cells -= reinterpret_cast<Words>(parts != 0);
}

/** Of values that are all finite. A tile's parameters come late: meanwhile the processor has the
 *  next tile's steps to find. */
RiceLook look_at_values(const RiceValues& values, float inverse) {
  LookSums sums;
  StepTile tiles[2];
  const uint32_t count = (values.cell_count() + kTileCells - 1) / kTileCells;
  for (uint32_t t = 0; t <= count; ++t) {
    if (t < count) {
      ValueTile local;
      uint32_t step;
      const float* const value = values.tile_at(t * kTileCells, local, step);
      put_tile(value, step, inverse, tiles[t % 2], sums);
    }
    if (t > 0) sums.add_tile(tiles[(t - 1) % 2]);
  }
  return sums.look();
}

#endif
