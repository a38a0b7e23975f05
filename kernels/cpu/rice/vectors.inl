// What stages of Rice codes need of vectors besides kernels/cpu/vector.h.

#if GQ_VECTOR_BYTES > 0

using Signed64 = int64_t __attribute__((vector_size(GQ_VECTOR_BYTES)));
using SignedHalves = int16_t __attribute__((vector_size(GQ_VECTOR_BYTES)));

// As many elements as a vector has of the next larger type.
using HalfBytes = uint8_t __attribute__((vector_size(GQ_VECTOR_BYTES / 2)));
using HalfSignedHalves = int16_t __attribute__((vector_size(GQ_VECTOR_BYTES / 2)));

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

/** Adds products of signed halves of a word, each to one of the sums. */
GQ_INLINE Integers with_products(Integers sums, Halves a, Halves b) {
  return sums + reinterpret_cast<Integers>(_mm512_maskz_madd_epi16(
                    kAllLanes, reinterpret_cast<__m512i>(a), reinterpret_cast<__m512i>(b)));
}

/** Adds signed halves of a word, each to one of the sums. */
GQ_INLINE Integers with_halves(Integers sums, Halves a) {
  return with_products(sums, a, Halves{} + static_cast<uint16_t>(1));
}

/** Integers -2^15..2^15-1 as halves, in each 128 bits four of a and four of b. */
GQ_INLINE Halves halves_of(Integers a, Integers b) {
  return reinterpret_cast<Halves>(_mm512_maskz_packs_epi32(
      ~__mmask32{}, reinterpret_cast<__m512i>(a), reinterpret_cast<__m512i>(b)));
}

/** 1 for any integers that are negative, else 0, in that order. */
GQ_INLINE Halves signs_of(Integers a, Integers b) { return halves_of(a, b) >> 15; }

template <uint32_t... kHalf>
GQ_INLINE Halves even_halves(Halves a, Halves b, std::integer_sequence<uint32_t, kHalf...>) {
  constexpr uint32_t kHalves = sizeof...(kHalf);
  return __builtin_shufflevector(
      a, b, (kHalf / 8 * 8 + kHalf % 4 * 2 + kHalf / 4 % 2 * kHalves)...);
}

/** The low halves of any integers, in that order. */
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

/** Each lane shifted by as many bits as the lowest byte of the other vector's lane says, which is
 *  below 128; 0 from 64 on. NEON alone ignores the bytes above. */
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

GQ_INLINE Integers with_products(Integers sums, Halves a, Halves b) {
  return sums + reinterpret_cast<Integers>(_mm256_madd_epi16(reinterpret_cast<__m256i>(a),
                                                             reinterpret_cast<__m256i>(b)));
}

GQ_INLINE Integers with_halves(Integers sums, Halves a) {
  return with_products(sums, a, Halves{} + static_cast<uint16_t>(1));
}

GQ_INLINE Halves halves_of(Integers a, Integers b) {
  return reinterpret_cast<Halves>(
      _mm256_packs_epi32(reinterpret_cast<__m256i>(a), reinterpret_cast<__m256i>(b)));
}

GQ_INLINE Halves signs_of(Integers a, Integers b) { return halves_of(a, b) >> 15; }

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

#elif GQ_VECTOR_BYTES == 16

GQ_INLINE Halves shifted_up(Halves a, uint32_t bits) {
  return reinterpret_cast<Halves>(vshlq_u16(reinterpret_cast<uint16x8_t>(a),
                                            vdupq_n_s16(static_cast<int16_t>(bits))));
}
GQ_INLINE Halves shifted_down(Halves a, uint32_t bits) { return shifted_up(a, 0u - bits); }

GQ_INLINE Integers with_products(Integers sums, Halves a, Halves b) {
  const int16x8_t x = reinterpret_cast<int16x8_t>(a), y = reinterpret_cast<int16x8_t>(b);
  const int32x4_t low =
      vmlal_s16(reinterpret_cast<int32x4_t>(sums), vget_low_s16(x), vget_low_s16(y));
  return reinterpret_cast<Integers>(vmlal_high_s16(low, x, y));
}

GQ_INLINE Integers with_halves(Integers sums, Halves a) {
  return reinterpret_cast<Integers>(
      vpadalq_s16(reinterpret_cast<int32x4_t>(sums), reinterpret_cast<int16x8_t>(a)));
}

GQ_INLINE Halves low_halves(Integers a, Integers b) {
  return reinterpret_cast<Halves>(
      vuzp1q_u16(reinterpret_cast<uint16x8_t>(a), reinterpret_cast<uint16x8_t>(b)));
}

GQ_INLINE Halves halves_of(Integers a, Integers b) { return low_halves(a, b); }

GQ_INLINE Halves signs_of(Integers a, Integers b) {
  const uint16x8_t high =
      vuzp2q_u16(reinterpret_cast<uint16x8_t>(a), reinterpret_cast<uint16x8_t>(b));
  return reinterpret_cast<Halves>(high) >> 15;
}

GQ_INLINE Bytes bytes_of_halves(Halves a, Halves b) {
  return reinterpret_cast<Bytes>(
      vuzp1q_u8(reinterpret_cast<uint8x16_t>(a), reinterpret_cast<uint8x16_t>(b)));
}

GQ_INLINE Halves halved_up(Halves a) {
  return reinterpret_cast<Halves>(vrshrq_n_u16(reinterpret_cast<uint16x8_t>(a), 1));
}

GQ_INLINE Halves less_one(Halves a) {
  return reinterpret_cast<Halves>(vqsubq_u16(reinterpret_cast<uint16x8_t>(a), vdupq_n_u16(1)));
}

GQ_INLINE Integers integers_above(Floats a) {
  return reinterpret_cast<Integers>(vcvtpq_s32_f32(reinterpret_cast<float32x4_t>(a)));
}

GQ_INLINE Lanes64 lanes_up(Lanes64 a, Lanes64 bits) {
  return reinterpret_cast<Lanes64>(
      vshlq_u64(reinterpret_cast<uint64x2_t>(a), reinterpret_cast<int64x2_t>(bits)));
}
GQ_INLINE Lanes64 lanes_down(Lanes64 a, Lanes64 bits) { return lanes_up(a, -bits); }

GQ_INLINE Lanes64 lanes64_at(const uint8_t* bytes) { return Lanes64{bytes[0], bytes[1]}; }

GQ_INLINE Halves wide_bytes(HalfBytes bytes) {
  return reinterpret_cast<Halves>(vmovl_u8(reinterpret_cast<uint8x8_t>(bytes)));
}

GQ_INLINE Integers wide_halves(HalfSignedHalves halves) {
  return reinterpret_cast<Integers>(vmovl_s16(reinterpret_cast<int16x4_t>(halves)));
}

/** Sums of pairs of neighbours: a's, then b's. */
GQ_INLINE Bytes pair_sums(Bytes a, Bytes b) {
  return reinterpret_cast<Bytes>(
      vpaddq_u8(reinterpret_cast<uint8x16_t>(a), reinterpret_cast<uint8x16_t>(b)));
}
GQ_INLINE Words pair_sums(Words a, Words b) {
  return reinterpret_cast<Words>(
      vpaddq_u32(reinterpret_cast<uint32x4_t>(a), reinterpret_cast<uint32x4_t>(b)));
}

#endif
