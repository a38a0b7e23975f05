// Bit planes of a block: plane p of w has bit p of each of its 128 lanes, value e at bit e.

#if GQ_VECTOR_BYTES == 64

template <uint32_t kWidth>
GQ_INLINE void pack_width(const uint8_t* lane, uint32_t* words) {
  for (uint32_t half = 0; half < 2; ++half) {
    const __m512i lanes = _mm512_loadu_si512(lane + 64 * half);
    GQ_UNROLL for (uint32_t p = 0; p < kWidth; ++p) {
      const __mmask64 plane =
          _mm512_test_epi8_mask(lanes, _mm512_set1_epi8(static_cast<char>(1u << p)));
      memcpy(words + p * kPlaneWords + 2 * half, &plane, sizeof plane);
    }
  }
}

template <uint32_t kWidth>
GQ_INLINE void unpack_width(const uint32_t* words, uint8_t* lane) {
  for (uint32_t half = 0; half < 2; ++half) {
    __m512i lanes = _mm512_setzero_si512();
    GQ_UNROLL for (uint32_t p = 0; p < kWidth; ++p) {
      __mmask64 plane;
      memcpy(&plane, words + p * kPlaneWords + 2 * half, sizeof plane);
      lanes = _mm512_mask_add_epi8(lanes, plane, lanes,
                                   _mm512_set1_epi8(static_cast<char>(1u << p)));
    }
    _mm512_storeu_si512(lane + 64 * half, lanes);
  }
}

#elif GQ_VECTOR_BYTES == 32

/** The highest plane comes first: its bits lead their bytes, and doubling brings the next one. */
template <uint32_t kWidth>
GQ_INLINE void pack_width(const uint8_t* lane, uint32_t* words) {
  for (uint32_t part = 0; part < kPlaneWords; ++part) {
    __m256i lanes = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(lane + 32 * part));
    lanes = _mm256_slli_epi16(lanes, 8 - kWidth);
    GQ_UNROLL for (uint32_t k = 1; k <= kWidth; ++k) {
      const uint32_t p = kWidth - k;
      words[p * kPlaneWords + part] = static_cast<uint32_t>(_mm256_movemask_epi8(lanes));
      lanes = _mm256_add_epi8(lanes, lanes);
    }
  }
}

/** Each byte of a vector tests its own bit of a plane. */
template <uint32_t kWidth>
GQ_INLINE void unpack_width(const uint32_t* words, uint8_t* lane) {
  const __m256i own_byte = _mm256_setr_epi8(0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1,  //
                                            2, 2, 2, 2, 2, 2, 2, 2, 3, 3, 3, 3, 3, 3, 3, 3);
  const __m256i own_bit = _mm256_set1_epi64x(static_cast<int64_t>(0x8040201008040201));
  for (uint32_t part = 0; part < kPlaneWords; ++part) {
    __m256i lanes = _mm256_setzero_si256();
    GQ_UNROLL for (uint32_t k = 1; k <= kWidth; ++k) {
      const uint32_t p = kWidth - k;
      const int plane = static_cast<int>(words[p * kPlaneWords + part]);
      const __m256i bytes = _mm256_shuffle_epi8(_mm256_set1_epi32(plane), own_byte);
      const __m256i set = _mm256_cmpeq_epi8(_mm256_and_si256(bytes, own_bit), own_bit);  // -1
      lanes = _mm256_sub_epi8(_mm256_add_epi8(lanes, lanes), set);
    }
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(lane + 32 * part), lanes);
  }
}

/** Eight rows of 16 bytes, two in each vector: byte k of row r has bit r of values 8 k to 8 k + 7,
 *  or all bits of value 8 k + r. Rows follow each other (0 and 1 come first), or those 4 apart are
 *  together: 0 and 4, 2 and 6, 1 and 5, 3 and 7. */
struct PlaneRows {
  __m256i two[4];
};

/** Eight rows are matrices of 8 x 8 bits, which this transposes with one call for each bit of the
 *  numbers of rows, that is for each distance. */
GQ_INLINE void exchange_bits(__m256i& a, __m256i& b, int distance, int taken) {
  const __m256i differ = _mm256_and_si256(_mm256_xor_si256(_mm256_srli_epi32(a, distance), b),
                                          _mm256_set1_epi8(static_cast<char>(taken)));
  b = _mm256_xor_si256(b, differ);
  a = _mm256_xor_si256(a, _mm256_slli_epi32(differ, distance));
}

/** Of rows that follow each other. */
GQ_INLINE void exchange_far_bits(PlaneRows& rows) {
  GQ_UNROLL for (uint32_t k = 0; k < 2; ++k) {
    exchange_bits(rows.two[k], rows.two[k + 2], 4, 0x0f);
  }
  GQ_UNROLL for (uint32_t k = 0; k < 4; k += 2) {
    exchange_bits(rows.two[k], rows.two[k + 1], 2, 0x33);
  }
}

/** Of rows of which those 4 apart are together. */
GQ_INLINE void exchange_near_bits(PlaneRows& rows) {
  GQ_UNROLL for (uint32_t k = 0; k < 2; ++k) {
    exchange_bits(rows.two[k], rows.two[k + 2], 1, 0x55);
  }
}

/** From one order of rows to the other. */
GQ_INLINE void exchange_rows(PlaneRows& rows) {
  GQ_UNROLL for (uint32_t k = 0; k < 2; ++k) {
    const __m256i a = rows.two[k], b = rows.two[k + 2];
    rows.two[k] = _mm256_permute2x128_si256(a, b, 0x20);
    rows.two[k + 2] = _mm256_permute2x128_si256(a, b, 0x31);
  }
}

/** Writes all eight planes of a block, whatever its width. */
GQ_INLINE void pack_rows(const uint8_t* lane, uint32_t* words) {
  const __m256i halves_apart = _mm256_setr_epi32(0, 2, 4, 6, 1, 3, 5, 7);  // of each eight values
  const __m256i columns = _mm256_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15,  //
                                           0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
  __m256i lanes[4];
  GQ_UNROLL for (uint32_t k = 0; k < 4; ++k) {
    lanes[k] = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(lane + 32 * k));
    lanes[k] = _mm256_shuffle_epi8(_mm256_permutevar8x32_epi32(lanes[k], halves_apart), columns);
  }
  PlaneRows rows;
  GQ_UNROLL for (uint32_t k = 0; k < 2; ++k) {
    const __m256i a = k == 0 ? _mm256_unpacklo_epi32(lanes[0], lanes[1])
                             : _mm256_unpackhi_epi32(lanes[0], lanes[1]);
    const __m256i b = k == 0 ? _mm256_unpacklo_epi32(lanes[2], lanes[3])
                             : _mm256_unpackhi_epi32(lanes[2], lanes[3]);
    rows.two[k] = _mm256_unpacklo_epi64(a, b);
    rows.two[k + 2] = _mm256_unpackhi_epi64(a, b);
  }
  exchange_near_bits(rows);
  exchange_rows(rows);
  exchange_far_bits(rows);
  GQ_UNROLL for (uint32_t k = 0; k < 4; ++k) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(words + 8 * k), rows.two[k]);
  }
}

/** The lanes of a block, 32 in each vector. Of each eight values the first four are in the lower
 *  half, the others in the upper one. */
struct HalvedLanes {
  __m256i of_32[4];
};

/** From eight planes, of which those beyond the width may be anything. */
GQ_INLINE HalvedLanes lanes_of_rows(const uint32_t* words, uint32_t width) {
  PlaneRows rows;
  GQ_UNROLL for (uint32_t k = 0; k < 4; ++k) {
    rows.two[k] = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(words + 8 * k));
  }
  exchange_far_bits(rows);
  exchange_rows(rows);
  exchange_near_bits(rows);
  const __m256i bits = _mm256_set1_epi8(static_cast<char>((1u << width) - 1));
  HalvedLanes lanes;
  GQ_UNROLL for (uint32_t k = 0; k < 2; ++k) {
    const __m256i a = k == 0 ? _mm256_unpacklo_epi8(rows.two[0], rows.two[2])
                             : _mm256_unpackhi_epi8(rows.two[0], rows.two[2]);
    const __m256i b = k == 0 ? _mm256_unpacklo_epi8(rows.two[1], rows.two[3])
                             : _mm256_unpackhi_epi8(rows.two[1], rows.two[3]);
    lanes.of_32[2 * k] = _mm256_and_si256(_mm256_unpacklo_epi16(a, b), bits);
    lanes.of_32[2 * k + 1] = _mm256_and_si256(_mm256_unpackhi_epi16(a, b), bits);
  }
  return lanes;
}

GQ_INLINE void unpack_rows(const uint32_t* words, uint32_t width, uint8_t* lane) {
  const HalvedLanes lanes = lanes_of_rows(words, width);
  const __m256i halves_together = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
  GQ_UNROLL for (uint32_t k = 0; k < 4; ++k) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(lane + 32 * k),
                        _mm256_permutevar8x32_epi32(lanes.of_32[k], halves_together));
  }
}

/** The values of a block from eight planes, as decode_lanes() has them. */
GQ_INLINE void decode_rows(const uint32_t* words, uint32_t width, uint32_t top, float step,
                           float* __restrict value) {
  const HalvedLanes lanes = lanes_of_rows(words, width);
  GQ_UNROLL for (int32_t e = 0; e < static_cast<int32_t>(kAdaptiveBlock); e += 8) {
    // Bytes of each half to the lowest bytes of its integers, where the others become 0.
    const int32_t first = e % 32 / 2 - 256;
    const __m256i spread = _mm256_setr_epi32(first, first + 1, first + 2, first + 3,  //
                                             first, first + 1, first + 2, first + 3);
    const __m256i codes = _mm256_shuffle_epi8(lanes.of_32[e / 32], spread);
    const Integers levels = reinterpret_cast<Integers>(codes) - static_cast<int32_t>(top);
    const Floats values = __builtin_convertvector(levels, Floats) * step;
    memcpy(value + e, &values, sizeof values);
  }
}

#else

/** Eight lanes at a time. */
template <uint32_t kWidth>
void pack_width(const uint8_t* lane, uint32_t* words) {
  uint8_t* const bytes = reinterpret_cast<uint8_t*>(words);
  for (uint32_t e = 0; e < kAdaptiveBlock; e += 8) {
    EightBytes lanes;
    memcpy(&lanes, lane + e, sizeof lanes);
    const EightBytes planes = transposed_bits(lanes);
    for (uint32_t p = 0; p < kWidth; ++p) {
      const uint32_t four = p < 4 ? planes.low : planes.high;
      bytes[p * kPlaneWords * 4 + e / 8] = static_cast<uint8_t>(four >> (8 * (p % 4)));
    }
  }
}

template <uint32_t kWidth>
void unpack_width(const uint32_t* words, uint8_t* lane) {
  const uint8_t* const bytes = reinterpret_cast<const uint8_t*>(words);
  for (uint32_t e = 0; e < kAdaptiveBlock; e += 8) {
    EightBytes planes = {};
    for (uint32_t p = 0; p < kWidth; ++p) {
      uint32_t& four = p < 4 ? planes.low : planes.high;
      four |= uint32_t{bytes[p * kPlaneWords * 4 + e / 8]} << (8 * (p % 4));
    }
    const EightBytes lanes = transposed_bits(planes);
    memcpy(lane + e, &lanes, sizeof lanes);
  }
}

#endif

/** Calls `work` with the width as a constant; not for a width of 0. */
template <typename Work>
GQ_INLINE void with_width(uint32_t width, Work work) {
  switch (width) {
    case 2:
      return work(std::integral_constant<uint32_t, 2>());
    case 3:
      return work(std::integral_constant<uint32_t, 3>());
    case 4:
      return work(std::integral_constant<uint32_t, 4>());
    case 5:
      return work(std::integral_constant<uint32_t, 5>());
    case 6:
      return work(std::integral_constant<uint32_t, 6>());
    case 7:
      return work(std::integral_constant<uint32_t, 7>());
    case 8:
      return work(std::integral_constant<uint32_t, 8>());
    default:
      return;
  }
}

inline void pack_planes(const uint8_t* lane, uint32_t width, uint32_t* words) {
  with_width(width, [&](auto bits) { pack_width<decltype(bits)::value>(lane, words); });
}

/** Without a width all lanes are 0. */
void unpack_planes(const uint32_t* words, uint32_t width, uint8_t* lane) {
  if (width == 0) memset(lane, 0, kAdaptiveBlock);
  with_width(width, [&](auto bits) { unpack_width<decltype(bits)::value>(words, lane); });
}
