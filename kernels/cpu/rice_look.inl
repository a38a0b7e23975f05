// What codes of a step may need, by vectors: RiceLook of all cells.

#if GQ_VECTOR_BYTES >= 32

/** RiceNeighbours of a tile. Inside of a cell they lie in an order of their own. */
struct NeighbourTile {
  alignas(64) uint16_t near[kTileValues];
  alignas(64) uint16_t far[kTileValues];
  alignas(64) uint16_t chance[kTileValues];  ///< of the far one, in 1 / 256, rounded up
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

/** Neighbours of a cell at `at` of a tile; returns sums of the far ones. In terms of 2 m + s, m
 *  whole steps and s = 1 for negative values, the near code is one less, if that is not below 0,
 *  and the far code one more. */
GQ_INLINE Words put_neighbours(const float* value, float inverse, uint32_t at,
                               NeighbourTile& tile) {
  Integers sums = {};
  GQ_UNROLL for (uint32_t k = 0; k < kRiceCell; k += kVectorHalves) {
    const Words first = vector_at<Words>(value + k);
    const Words second = vector_at<Words>(value + k + kVectorFloats);
    const WholeSteps a(first, inverse), b(second, inverse);
    const Halves whole = saturated_halves(a.whole, b.whole);
    const Halves chance = low_halves(a.parts, b.parts) - (whole << 8);
    const Halves negative = saturated_halves(reinterpret_cast<Integers>(first),
                                             reinterpret_cast<Integers>(second)) >> 15;
    const Halves middle = whole + whole + negative;
    const Halves near = less_one(middle);
    const Halves far = chance != 0 ? middle + 1 : near;
    store_vector(near, tile.near + at + k);
    store_vector(far, tile.far + at + k);
    store_vector(chance, tile.chance + at + k);
    sums += pair_products(far, Halves{} + static_cast<uint16_t>(1));
  }
  return reinterpret_cast<Words>(sums);
}

/** A look under way: sums that are added up in the end. */
struct LookSums {
  Halves near = {};  ///< at most 32 for each cell
  Integers expected = {}, squares = {};
  Words plane_bits = {}, cells = {};

  GQ_INLINE void add_cell(const NeighbourTile& tile, uint32_t at, uint32_t parameter) {
    GQ_UNROLL for (uint32_t k = at; k < at + kRiceCell; k += kVectorHalves) {
      const Halves low = shifted_down(vector_at<Halves>(tile.near + k), parameter);
      const Halves more = shifted_down(vector_at<Halves>(tile.far + k), parameter) - low;
      near += low;
      expected += pair_products(vector_at<Halves>(tile.chance + k), more);
      squares += pair_products(more, more);
    }
  }

  RiceLook look() const {
    uint16_t lows[kVectorHalves];
    store_vector(near, lows);
    RiceLook look;
    for (const uint16_t low : lows) look.near_bits += low;
    for (uint32_t c = 0; c < kTileCells; ++c) {
      look.values += kRiceCell * cells[c];
      look.near_bits += kRiceCell * (cells[c] + plane_bits[c]);
      look.expected_256 += static_cast<uint32_t>(expected[c]);
      look.squares += static_cast<uint32_t>(squares[c]);
    }
    return look;
  }
};

void look_at_tile(const float* value, uint32_t step, float inverse, LookSums& sums) {
  NeighbourTile tile;
  const Words far = cell_sums([&](uint32_t c) {
    return put_neighbours(value + c * step, inverse, c * kRiceCell, tile);
  });
  TileParameters parameters;
  find_parameters(tile.far, far, parameters);
  sums.plane_bits += parameters.parameters;
  sums.cells -= parameters.have_codes();
  for (uint32_t c = 0; c < kTileCells; ++c) {
    sums.add_cell(tile, c * kRiceCell, parameters.parameter[c]);
  }
}

/** Of values that are all finite. */
RiceLook look_at_values(const RiceValues& values, float inverse) {
  LookSums sums;
  for (uint32_t first = 0; first < values.cell_count(); first += kTileCells) {
    ValueTile local;
    uint32_t step;
    const float* const value = values.tile_at(first, local, step);
    look_at_tile(value, step, inverse, sums);
  }
  return sums.look();
}

#endif
