// What stages of Rice codes need of vectors besides kernels/cpu/vector.h.

#if GQ_VECTOR_BYTES >= 32

using Signed64 = int64_t __attribute__((vector_size(GQ_VECTOR_BYTES)));
using SignedHalves = int16_t __attribute__((vector_size(GQ_VECTOR_BYTES)));

// As many elements as a vector has of the next larger type.
using HalfBytes = uint8_t __attribute__((vector_size(GQ_VECTOR_BYTES / 2)));
using HalfSignedHalves = int16_t __attribute__((vector_size(GQ_VECTOR_BYTES / 2)));

using CellBytes = uint8_t __attribute__((vector_size(GQ_VECTOR_BYTES / 4)));

#endif

#if GQ_VECTOR_BYTES == 64

/** All halves of a word shifted by the same number of bits. */
GQ_INLINE Halves shifted_down(Halves a, uint32_t bits) {
  return reinterpret_cast<Halves>(_mm512_maskz_srl_epi16(
      ~__mmask32{}, reinterpret_cast<__m512i>(a), _mm_cvtsi32_si128(static_cast<int>(bits))));
}
GQ_INLINE Halves shifted_up(Halves a, uint32_t bits) {
  return reinterpret_cast<Halves>(_mm512_maskz_sll_epi16(
      ~__mmask32{}, reinterpret_cast<__m512i>(a), _mm_cvtsi32_si128(static_cast<int>(bits))));
}

/** Products of signed halves of a word, added up in pairs. */
GQ_INLINE Integers pair_products(Halves a, Halves b) {
  return reinterpret_cast<Integers>(_mm512_maskz_madd_epi16(
      kAllLanes, reinterpret_cast<__m512i>(a), reinterpret_cast<__m512i>(b)));
}

/** Integers -2^15..2^15-1 as halves, in each 128 bits four of a and four of b; what does not fit
 *  becomes the end that is nearest. */
GQ_INLINE Halves saturated_halves(Integers a, Integers b) {
  return reinterpret_cast<Halves>(_mm512_maskz_packs_epi32(
      ~__mmask32{}, reinterpret_cast<__m512i>(a), reinterpret_cast<__m512i>(b)));
}

template <uint32_t... kHalf>
GQ_INLINE Halves even_halves(Halves a, Halves b, std::integer_sequence<uint32_t, kHalf...>) {
  constexpr uint32_t kHalves = sizeof...(kHalf);
  return __builtin_shufflevector(
      a, b, (kHalf / 8 * 8 + kHalf % 4 * 2 + kHalf / 4 % 2 * kHalves)...);
}

/** The low halves of integers, in the order of saturated_halves. */
GQ_INLINE Halves low_halves(Integers a, Integers b) {
  return even_halves(reinterpret_cast<Halves>(a), reinterpret_cast<Halves>(b),
                     std::make_integer_sequence<uint32_t, GQ_VECTOR_BYTES / 2>());
}

/** Halves below 2^8 as bytes, in each 128 bits eight of a and eight of b. */
GQ_INLINE Bytes bytes_of_halves(Halves a, Halves b) {
  return reinterpret_cast<Bytes>(_mm512_maskz_packus_epi16(
      ~__mmask64{}, reinterpret_cast<__m512i>(a), reinterpret_cast<__m512i>(b)));
}

/** Half of each number, rounded up. */
GQ_INLINE Halves halved_up(Halves a) {
  return reinterpret_cast<Halves>(_mm512_maskz_avg_epu16(
      ~__mmask32{}, reinterpret_cast<__m512i>(a), _mm512_setzero_si512()));
}

/** One less, or 0. */
GQ_INLINE Halves less_one(Halves a) {
  return reinterpret_cast<Halves>(_mm512_maskz_subs_epu16(
      ~__mmask32{}, reinterpret_cast<__m512i>(a), _mm512_set1_epi16(1)));
}

/** The least integers that are not below. */
GQ_INLINE Integers integers_above(Floats a) {
  return reinterpret_cast<Integers>(_mm512_maskz_cvt_roundps_epi32(
      kAllLanes, a, _MM_FROUND_TO_POS_INF | _MM_FROUND_NO_EXC));
}

/** Each lane shifted by as many bits as the other vector says; 0 from 64 on. */
GQ_INLINE Lanes64 lanes_up(Lanes64 a, Lanes64 bits) {
  return reinterpret_cast<Lanes64>(
      _mm512_maskz_sllv_epi64(static_cast<__mmask8>(kAllLanes), reinterpret_cast<__m512i>(a),
                              reinterpret_cast<__m512i>(bits)));
}
GQ_INLINE Lanes64 lanes_down(Lanes64 a, Lanes64 bits) {
  return reinterpret_cast<Lanes64>(
      _mm512_maskz_srlv_epi64(static_cast<__mmask8>(kAllLanes), reinterpret_cast<__m512i>(a),
                              reinterpret_cast<__m512i>(bits)));
}

/** Bytes as lanes of 64 bits, as many as a vector has. */
GQ_INLINE Lanes64 lanes64_at(const uint8_t* bytes) {
  return reinterpret_cast<Lanes64>(_mm512_maskz_cvtepu8_epi64(
      static_cast<__mmask8>(kAllLanes), _mm_loadl_epi64(reinterpret_cast<const __m128i*>(bytes))));
}

/** Bytes as halves of a word, as many as a vector has. */
GQ_INLINE Halves wide_bytes(HalfBytes bytes) {
  return reinterpret_cast<Halves>(
      _mm512_maskz_cvtepu8_epi16(~__mmask32{}, reinterpret_cast<__m256i>(bytes)));
}

/** Signed halves of a word as integers, as many as a vector has. */
GQ_INLINE Integers wide_halves(HalfSignedHalves halves) {
  return reinterpret_cast<Integers>(
      _mm512_maskz_cvtepi16_epi32(kAllLanes, reinterpret_cast<__m256i>(halves)));
}

#elif GQ_VECTOR_BYTES == 32

GQ_INLINE Halves shifted_down(Halves a, uint32_t bits) {
  return reinterpret_cast<Halves>(_mm256_srl_epi16(reinterpret_cast<__m256i>(a),
                                                   _mm_cvtsi32_si128(static_cast<int>(bits))));
}
GQ_INLINE Halves shifted_up(Halves a, uint32_t bits) {
  return reinterpret_cast<Halves>(_mm256_sll_epi16(reinterpret_cast<__m256i>(a),
                                                   _mm_cvtsi32_si128(static_cast<int>(bits))));
}

GQ_INLINE Integers pair_products(Halves a, Halves b) {
  return reinterpret_cast<Integers>(
      _mm256_madd_epi16(reinterpret_cast<__m256i>(a), reinterpret_cast<__m256i>(b)));
}

GQ_INLINE Halves saturated_halves(Integers a, Integers b) {
  return reinterpret_cast<Halves>(
      _mm256_packs_epi32(reinterpret_cast<__m256i>(a), reinterpret_cast<__m256i>(b)));
}

GQ_INLINE Halves low_halves(Integers a, Integers b) {
  return reinterpret_cast<Halves>(_mm256_packus_epi32(reinterpret_cast<__m256i>(a & 0xffff),
                                                      reinterpret_cast<__m256i>(b & 0xffff)));
}

GQ_INLINE Bytes bytes_of_halves(Halves a, Halves b) {
  return reinterpret_cast<Bytes>(
      _mm256_packus_epi16(reinterpret_cast<__m256i>(a), reinterpret_cast<__m256i>(b)));
}

GQ_INLINE Halves halved_up(Halves a) {
  return reinterpret_cast<Halves>(
      _mm256_avg_epu16(reinterpret_cast<__m256i>(a), _mm256_setzero_si256()));
}

GQ_INLINE Halves less_one(Halves a) {
  return reinterpret_cast<Halves>(
      _mm256_subs_epu16(reinterpret_cast<__m256i>(a), _mm256_set1_epi16(1)));
}

GQ_INLINE Integers integers_above(Floats a) {
  return reinterpret_cast<Integers>(_mm256_cvttps_epi32(_mm256_ceil_ps(a)));
}

GQ_INLINE Lanes64 lanes_up(Lanes64 a, Lanes64 bits) {
  return reinterpret_cast<Lanes64>(
      _mm256_sllv_epi64(reinterpret_cast<__m256i>(a), reinterpret_cast<__m256i>(bits)));
}
GQ_INLINE Lanes64 lanes_down(Lanes64 a, Lanes64 bits) {
  return reinterpret_cast<Lanes64>(
      _mm256_srlv_epi64(reinterpret_cast<__m256i>(a), reinterpret_cast<__m256i>(bits)));
}

GQ_INLINE Lanes64 lanes64_at(const uint8_t* bytes) {
  int32_t four;
  memcpy(&four, bytes, sizeof four);
  return reinterpret_cast<Lanes64>(_mm256_cvtepu8_epi64(_mm_cvtsi32_si128(four)));
}

GQ_INLINE Halves wide_bytes(HalfBytes bytes) {
  return reinterpret_cast<Halves>(_mm256_cvtepu8_epi16(reinterpret_cast<__m128i>(bytes)));
}

GQ_INLINE Integers wide_halves(HalfSignedHalves halves) {
  return reinterpret_cast<Integers>(_mm256_cvtepi16_epi32(reinterpret_cast<__m128i>(halves)));
}

#endif
