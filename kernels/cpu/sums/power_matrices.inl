// Wide sums of 8-bit exponential codes with GFNI and VBMI: two matrices of bits make the upper half
// of a float32 of each lane, and codes are taken out of patterns wherever their bits begin.

#if GQ_VBMI

/** Columns of values as in powers.inl, but every second value of eight: of each 16 lanes those from
 *  this one on. */
constexpr uint32_t kMatrixColumn[4] = {0, 8, 1, 9};

/** A matrix of bits as GFNI takes it: bit from[k] of a byte becomes bit k; of 8, no bit does. */
constexpr uint64_t byte_matrix(const uint8_t (&from)[8]) {
  uint64_t rows = 0;
  for (uint32_t k = 0; k < 8; ++k) {
    const uint64_t row = (1u << from[k]) & 0xffu;
    rows |= row << (8 * (7 - k));
  }
  return rows;
}

/** Both bytes of a power's upper half: a sign, a bit 0, the code, zeros. */
constexpr uint64_t kPowerHigh = byte_matrix({1, 2, 3, 4, 5, 6, 8, 7});
constexpr uint64_t kPowerLow = byte_matrix({8, 8, 8, 8, 8, 8, 8, 0});

/** Makes R(e) of the values of a column of their words, as spread_columns() does. */
constexpr Control matrix_column_bits(uint32_t column) {
  Control control = {};
  for (uint32_t k = 0; k < 64; ++k) {
    const uint32_t e = kMatrixColumn[column] + 2 * (k % 16 / 4);
    control.byte[k] = kSpread.byte[4 * e + k % 4];
  }
  return control;
}

constexpr Control kMatrixColumnBits[4] = {matrix_column_bits(0), matrix_column_bits(1),
                                          matrix_column_bits(2), matrix_column_bits(3)};

/** Where eight bits begin in the 64 that four halves of words have: each half's twice. */
constexpr Control bits_of_halves(uint32_t first_bit) {
  Control control = {};
  for (uint32_t k = 0; k < 64; ++k) {
    control.byte[k] = static_cast<uint8_t>(16 * (k % 8 / 2) + first_bit);
  }
  return control;
}

constexpr Control kExponentBits = bits_of_halves(7), kSignBits = bits_of_halves(8);

/** The upper halves of the words of a and b, in each 128 bits first those of a. */
struct UpperHalves {
  alignas(64) uint16_t half[32];
};

constexpr UpperHalves upper_halves_of_two() {
  UpperHalves indices = {};
  for (uint32_t k = 0; k < 32; ++k) {
    const uint32_t word = k / 8 * 4 + k % 4;
    indices.half[k] = static_cast<uint16_t>((k % 8 < 4 ? 0 : 32) + 2 * word + 1);
  }
  return indices;
}

constexpr UpperHalves kUpperHalves = upper_halves_of_two();

/** Adds an operand's powers, as add_columns() does. */
template <bool kFirst>
GQ_INLINE void add_matrix_columns(const uint8_t* lanes, Floats (&sum)[4]) {
  const __m512i lane = _mm512_loadu_si512(lanes);
  const __m512i high = _mm512_gf2p8affine_epi64_epi8(
      lane, _mm512_set1_epi64(static_cast<int64_t>(kPowerHigh)), GQ_AFFINE_CONSTANT);
  const __m512i low = _mm512_gf2p8affine_epi64_epi8(
      lane, _mm512_set1_epi64(static_cast<int64_t>(kPowerLow)), GQ_AFFINE_CONSTANT);
  const Words first = reinterpret_cast<Words>(_mm512_maskz_unpacklo_epi8(~__mmask64{}, low, high));
  const Words second = reinterpret_cast<Words>(_mm512_maskz_unpackhi_epi8(~__mmask64{}, low, high));
  add_numbers<kFirst>({first << 16, second << 16, first & 0xffff0000u, second & 0xffff0000u}, sum);
}

/** power_patterns() with the sums' signs, of sums that the target does not bound. */
template <bool kNearest>
GQ_INLINE Words signed_patterns(Floats sums, const PowerScale& scale, Words bits) {
  constexpr int kLargerMagnitude = 3;  // and the first one's sign
  const Floats scaled = sums * scale.factor;
  const Floats smallest = in_all_lanes(power_of_two(kSmallestLevelExponent));
  const Floats addend = _mm512_maskz_range_ps(kAllLanes, scaled, smallest, kLargerMagnitude);
  return rounded_patterns<kNearest>(scaled + addend, sums, bits);
}

/** Eight bits from each half's `control` on, of `even` and of `odd` in turn. */
GQ_INLINE __m512i bits_in_turn(const Control& control, __m512i even, __m512i odd) {
  const __m512i first = _mm512_load_si512(&control);
  constexpr __mmask64 kOdd = 0xaaaaaaaaaaaaaaaa;
  return _mm512_mask_multishift_epi64_epi8(
      _mm512_maskz_multishift_epi64_epi8(~__mmask64{}, first, even), kOdd, first, odd);
}

/** The lanes of patterns in columns. */
GQ_INLINE __m512i lanes_of_patterns(const Words (&pattern)[4]) {
  const __m512i upper = _mm512_load_si512(&kUpperHalves);
  const __m512i even =
      _mm512_permutex2var_epi16(reinterpret_cast<__m512i>(pattern[0]), upper,
                                reinterpret_cast<__m512i>(pattern[1]));
  const __m512i odd =
      _mm512_permutex2var_epi16(reinterpret_cast<__m512i>(pattern[2]), upper,
                                reinterpret_cast<__m512i>(pattern[3]));
  const Bytes codes = reinterpret_cast<Bytes>(bits_in_turn(kExponentBits, even, odd)) -
                      static_cast<uint8_t>(kSmallestLevelField);
  const Bytes signs = reinterpret_cast<Bytes>(bits_in_turn(kSignBits, even, odd)) & 0x80;
  const __m512i code = reinterpret_cast<__m512i>(codes);
  return _mm512_mask_add_epi8(code, _mm512_test_epi8_mask(code, code), code,
                              reinterpret_cast<__m512i>(signs));
}

/** add_power_bytes() of a full tile. */
template <bool kNearest>
void add_powers_by_matrices(const ReduceManyArgs& args, const PowerScale& scale, const Tile& tile,
                            const RandomTile& random, uint8_t* byte) {
  for (uint32_t e = 0; e < kTileValues; e += GQ_VECTOR_BYTES) {
    Floats sum[4];
    add_matrix_columns<true>(bytes_at<8>(args.words[0], tile) + e, sum);
    for (uint32_t rank = 1; rank < args.coding.ranks; ++rank) {
      add_matrix_columns<false>(bytes_at<8>(args.words[rank], tile) + e, sum);
    }
    const Bytes random_bytes = reinterpret_cast<Bytes>(words_of(random, e));
    Words pattern[4];
    GQ_UNROLL for (uint32_t k = 0; k < 4; ++k) {
      const Bytes bits = shuffled(random_bytes, kMatrixColumnBits[k].part(0));
      pattern[k] = signed_patterns<kNearest>(sum[k], scale, reinterpret_cast<Words>(bits));
    }
    _mm512_storeu_si512(byte + e, lanes_of_patterns(pattern));
  }
}

#endif
