// What rounds the values of a tile: their R(e), in one of the forms that an encoder reads.

/** As they lie in memory. */
struct StoredUniforms {
  static constexpr bool kNearest = false;
  BitsTile tile;

  void fill(const Thresholds& thresholds, uint64_t first_value) {
    thresholds.fill(first_value, tile);
  }
  uint32_t bits_of(uint32_t e) const { return tile.bits[e]; }
};

/** The middle for all. */
struct NearestUniforms {
  static constexpr bool kNearest = true;

  void fill(const Thresholds&, uint64_t) {}
  uint32_t bits_of(uint32_t) const { return kUniformHalf; }
};

#if GQ_VECTOR_BYTES == 0

using SpreadUniforms = StoredUniforms;

#else

/** The random words of the tile, spread where they are needed. */
struct SpreadUniforms {
  static constexpr bool kNearest = false;
  RandomTile random;

  void fill(const Thresholds& thresholds, uint64_t first_value) {
    thresholds.fill_own(first_value, random);
  }
};

/** r(e) of the values from e on, as many as a vector has words. */
GQ_INLINE Words uniforms_at(const StoredUniforms& uniforms, uint32_t e) {
  Words bits;
  memcpy(&bits, uniforms.tile.bits + e, sizeof bits);
  return bits & kUniformMask;
}

GQ_INLINE Words uniforms_at(const NearestUniforms&, uint32_t) { return Words{} + kUniformHalf; }

GQ_INLINE Words uniforms_at(const SpreadUniforms& uniforms, uint32_t e) {
  return spread_part(uniforms.random, e / 16 * 16, e % 16 * 4) & kUniformMask;
}

#endif
