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

void pack_planes(const uint8_t* lane, uint32_t width, uint32_t* words) {
  with_width(width, [&](auto bits) { pack_width<decltype(bits)::value>(lane, words); });
}

/** Without a width all lanes are 0. */
void unpack_planes(const uint32_t* words, uint32_t width, uint8_t* lane) {
  if (width == 0) memset(lane, 0, kAdaptiveBlock);
  with_width(width, [&](auto bits) { unpack_width<decltype(bits)::value>(words, lane); });
}
