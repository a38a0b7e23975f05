// The few vector operations that compilers do not find in plain loops: 32 x 32 bit products,
// shuffles of bytes. GQ_VECTOR_BYTES is the register's size, or 0 where plain loops do
// everything.
#ifndef GQ_KERNELS_CPU_VECTOR_H
#define GQ_KERNELS_CPU_VECTOR_H

#include <stdint.h>
#include <string.h>

#if defined(GQ_PLAIN)
#define GQ_VECTOR_BYTES 0
#elif defined(__AVX512BW__)
#define GQ_VECTOR_BYTES 64
#include <immintrin.h>
#elif defined(__AVX2__)
#define GQ_VECTOR_BYTES 32
#include <immintrin.h>
#elif defined(__aarch64__)
#define GQ_VECTOR_BYTES 16
#include <arm_neon.h>
#else
#define GQ_VECTOR_BYTES 0
#endif

// Whether AVX-512 has permutations of bytes and matrices of bits (VBMI, VBMI2, GFNI), and BMI2.
#if GQ_VECTOR_BYTES == 64 && defined(__AVX512VBMI2__) && defined(__GFNI__)
#define GQ_VBMI 1
#else
#define GQ_VBMI 0
#endif

// Other than 0 only in an emulator that has the complement of GFNI's product (tools/test_avx512).
#ifndef GQ_AFFINE_CONSTANT
#define GQ_AFFINE_CONSTANT 0
#endif

#define GQ_INLINE inline __attribute__((always_inline))

#if GQ_VECTOR_BYTES > 0

namespace gq {
namespace {

using Lanes64 = uint64_t __attribute__((vector_size(GQ_VECTOR_BYTES)));
using Words = uint32_t __attribute__((vector_size(GQ_VECTOR_BYTES)));
using Integers = int32_t __attribute__((vector_size(GQ_VECTOR_BYTES)));
using Floats = float __attribute__((vector_size(GQ_VECTOR_BYTES)));
using Doubles = double __attribute__((vector_size(GQ_VECTOR_BYTES)));
using Halves = uint16_t __attribute__((vector_size(GQ_VECTOR_BYTES)));
using SignedHalves = int16_t __attribute__((vector_size(GQ_VECTOR_BYTES)));
using Bytes = uint8_t __attribute__((vector_size(GQ_VECTOR_BYTES)));

/** The number in all lanes. Adding it to zeros would be an addition, which changes a -0. */
GQ_INLINE Floats in_all_lanes(float number) { return number - Floats{}; }

#if GQ_VECTOR_BYTES == 64

// gcc 12 warns of its own header where an intrinsic without a mask leaves a source undefined.
constexpr __mmask16 kAllLanes = 0xffff;

/** Products of the low halves of 64-bit lanes. */
GQ_INLINE Lanes64 low_products(Lanes64 a, uint32_t b) {
  return reinterpret_cast<Lanes64>(_mm512_maskz_mul_epu32(
      static_cast<__mmask8>(kAllLanes), reinterpret_cast<__m512i>(a), _mm512_set1_epi64(b)));
}

/** Every other lane of a, each followed by its neighbour from b: the even ones, or the odd ones. */
GQ_INLINE Lanes64 even_pairs(Lanes64 a, Lanes64 b) {
  return __builtin_shufflevector(a, b, 0, 8, 2, 10, 4, 12, 6, 14);
}
GQ_INLINE Lanes64 odd_pairs(Lanes64 a, Lanes64 b) {
  return __builtin_shufflevector(a, b, 1, 9, 3, 11, 5, 13, 7, 15);
}

/** Signed bytes as integers, as many as a vector has; bytes without a sign. */
GQ_INLINE Integers integers_at(const uint8_t* bytes) {
  return reinterpret_cast<Integers>(_mm512_maskz_cvtepi8_epi32(
      kAllLanes, _mm_loadu_si128(reinterpret_cast<const __m128i*>(bytes))));
}
GQ_INLINE Integers unsigned_integers_at(const uint8_t* bytes) {
  return reinterpret_cast<Integers>(_mm512_maskz_cvtepu8_epi32(
      kAllLanes, _mm_loadu_si128(reinterpret_cast<const __m128i*>(bytes))));
}

/** The lesser of each pair; b where a is not a number. */
GQ_INLINE Floats lesser(Floats a, Floats b) { return _mm512_maskz_min_ps(kAllLanes, a, b); }

/** The larger of each pair; b where a is not a number. */
GQ_INLINE Floats larger(Floats a, Floats b) { return _mm512_maskz_max_ps(kAllLanes, a, b); }

/** The lesser of each pair's magnitudes. */
GQ_INLINE Floats magnitudes_within(Floats a, Floats b) {
  constexpr int kLesserMagnitude = 2, kNoSign = 8;
  return _mm512_maskz_range_ps(kAllLanes, a, b, kLesserMagnitude | kNoSign);
}

/** Bits of a where `mask` has ones, else of b. */
GQ_INLINE Halves chosen_bits(Halves mask, Halves a, Halves b) {
  constexpr int kFirstChooses = 0xca;
  return reinterpret_cast<Halves>(_mm512_ternarylogic_epi32(
      reinterpret_cast<__m512i>(mask), reinterpret_cast<__m512i>(a),
      reinterpret_cast<__m512i>(b), kFirstChooses));
}

/** a + b, or a - b where `signs` has the sign bit: b times 1 or -1 is exact. */
GQ_INLINE Floats plus_signed(Floats a, Floats b, Words signs) {
  const Words ones = signs ^ 0x3f800000u;
  return _mm512_fmadd_ps(b, reinterpret_cast<__m512>(ones), a);
}

/** The nearest integers, ties to even; -2^31 for those below. */
GQ_INLINE Integers nearest_integers(Floats a) {
  return reinterpret_cast<Integers>(_mm512_maskz_cvtps_epi32(kAllLanes, a));
}

/** Integers -2^15..2^15-1 as signed bytes, in each 128 bits four of a, of b, of c and of d; what
 *  does not fit becomes the end that is nearest. */
GQ_INLINE Bytes saturated_parts(Integers a, Integers b, Integers c, Integers d) {
  const __m512i ab = _mm512_maskz_packs_epi32(~__mmask32{}, reinterpret_cast<__m512i>(a),
                                              reinterpret_cast<__m512i>(b));
  const __m512i cd = _mm512_maskz_packs_epi32(~__mmask32{}, reinterpret_cast<__m512i>(c),
                                              reinterpret_cast<__m512i>(d));
  return reinterpret_cast<Bytes>(_mm512_maskz_packs_epi16(~__mmask64{}, ab, cd));
}

/** The same in order: all of a, then all of b, and so on. */
GQ_INLINE Bytes saturated(Integers a, Integers b, Integers c, Integers d) {
  const Words abcd = reinterpret_cast<Words>(saturated_parts(a, b, c, d));
  return reinterpret_cast<Bytes>(
      __builtin_shufflevector(abcd, abcd, 0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15));
}

/** The larger of each pair of signed bytes. */
GQ_INLINE Bytes larger_signed(Bytes a, Bytes b) {
  return reinterpret_cast<Bytes>(_mm512_maskz_max_epi8(~__mmask64{}, reinterpret_cast<__m512i>(a),
                                                       reinterpret_cast<__m512i>(b)));
}

/** Magnitudes of signed halves of a word. */
GQ_INLINE Halves magnitudes(Halves a) {
  return reinterpret_cast<Halves>(
      _mm512_maskz_abs_epi16(~__mmask32{}, reinterpret_cast<__m512i>(a)));
}

/** The larger of each pair of signed halves of a word. */
GQ_INLINE Halves larger_signed(Halves a, Halves b) {
  return reinterpret_cast<Halves>(_mm512_maskz_max_epi16(
      ~__mmask32{}, reinterpret_cast<__m512i>(a), reinterpret_cast<__m512i>(b)));
}

/** The lesser of each pair of unsigned bytes. */
GQ_INLINE Bytes lesser(Bytes a, Bytes b) {
  return reinterpret_cast<Bytes>(_mm512_maskz_min_epu8(~__mmask64{}, reinterpret_cast<__m512i>(a),
                                                       reinterpret_cast<__m512i>(b)));
}

/** The same 16 bytes in every part of 16. */
GQ_INLINE Bytes repeated(const void* bytes16) {
  return reinterpret_cast<Bytes>(_mm512_maskz_broadcast_i32x4(
      kAllLanes, _mm_loadu_si128(static_cast<const __m128i*>(bytes16))));
}

/** byte k becomes byte control[k] (below 16) of the same 16, or 0 where control[k] is 0x80. */
GQ_INLINE Bytes shuffled(Bytes bytes, Bytes control) {
  return reinterpret_cast<Bytes>(
      _mm512_shuffle_epi8(reinterpret_cast<__m512i>(bytes), reinterpret_cast<__m512i>(control)));
}

#elif GQ_VECTOR_BYTES == 32

GQ_INLINE Lanes64 low_products(Lanes64 a, uint32_t b) {
  return reinterpret_cast<Lanes64>(
      _mm256_mul_epu32(reinterpret_cast<__m256i>(a), _mm256_set1_epi64x(b)));
}

GQ_INLINE Lanes64 even_pairs(Lanes64 a, Lanes64 b) {
  return __builtin_shufflevector(a, b, 0, 4, 2, 6);
}
GQ_INLINE Lanes64 odd_pairs(Lanes64 a, Lanes64 b) {
  return __builtin_shufflevector(a, b, 1, 5, 3, 7);
}

GQ_INLINE Integers integers_at(const uint8_t* bytes) {
  return reinterpret_cast<Integers>(
      _mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(bytes))));
}
GQ_INLINE Integers unsigned_integers_at(const uint8_t* bytes) {
  return reinterpret_cast<Integers>(
      _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(bytes))));
}

GQ_INLINE Floats lesser(Floats a, Floats b) { return _mm256_min_ps(a, b); }

GQ_INLINE Floats larger(Floats a, Floats b) { return _mm256_max_ps(a, b); }

GQ_INLINE Floats magnitudes_within(Floats a, Floats b) {
  return lesser(reinterpret_cast<Floats>(reinterpret_cast<Words>(a) & 0x7fffffffu), b);
}

GQ_INLINE Halves chosen_bits(Halves mask, Halves a, Halves b) { return (a & mask) | (b & ~mask); }

GQ_INLINE Floats plus_signed(Floats a, Floats b, Words signs) {
  return a + reinterpret_cast<Floats>(reinterpret_cast<Words>(b) ^ signs);
}

GQ_INLINE Integers nearest_integers(Floats a) {
  return reinterpret_cast<Integers>(_mm256_cvtps_epi32(a));
}

GQ_INLINE Bytes saturated_parts(Integers a, Integers b, Integers c, Integers d) {
  const __m256i ab = _mm256_packs_epi32(reinterpret_cast<__m256i>(a), reinterpret_cast<__m256i>(b));
  const __m256i cd = _mm256_packs_epi32(reinterpret_cast<__m256i>(c), reinterpret_cast<__m256i>(d));
  return reinterpret_cast<Bytes>(_mm256_packs_epi16(ab, cd));
}

GQ_INLINE Bytes saturated(Integers a, Integers b, Integers c, Integers d) {
  const Words abcd = reinterpret_cast<Words>(saturated_parts(a, b, c, d));
  return reinterpret_cast<Bytes>(__builtin_shufflevector(abcd, abcd, 0, 4, 1, 5, 2, 6, 3, 7));
}

GQ_INLINE Bytes larger_signed(Bytes a, Bytes b) {
  return reinterpret_cast<Bytes>(
      _mm256_max_epi8(reinterpret_cast<__m256i>(a), reinterpret_cast<__m256i>(b)));
}

GQ_INLINE Halves magnitudes(Halves a) {
  return reinterpret_cast<Halves>(_mm256_abs_epi16(reinterpret_cast<__m256i>(a)));
}

GQ_INLINE Halves larger_signed(Halves a, Halves b) {
  return reinterpret_cast<Halves>(
      _mm256_max_epi16(reinterpret_cast<__m256i>(a), reinterpret_cast<__m256i>(b)));
}

GQ_INLINE Bytes lesser(Bytes a, Bytes b) {
  return reinterpret_cast<Bytes>(
      _mm256_min_epu8(reinterpret_cast<__m256i>(a), reinterpret_cast<__m256i>(b)));
}

GQ_INLINE Bytes repeated(const void* bytes16) {
  return reinterpret_cast<Bytes>(
      _mm256_broadcastsi128_si256(_mm_loadu_si128(static_cast<const __m128i*>(bytes16))));
}

GQ_INLINE Bytes shuffled(Bytes bytes, Bytes control) {
  return reinterpret_cast<Bytes>(
      _mm256_shuffle_epi8(reinterpret_cast<__m256i>(bytes), reinterpret_cast<__m256i>(control)));
}

#else

GQ_INLINE Lanes64 low_products(Lanes64 a, uint32_t b) {
  return reinterpret_cast<Lanes64>(vmull_n_u32(vmovn_u64(reinterpret_cast<uint64x2_t>(a)), b));
}

GQ_INLINE Lanes64 even_pairs(Lanes64 a, Lanes64 b) { return __builtin_shufflevector(a, b, 0, 2); }
GQ_INLINE Lanes64 odd_pairs(Lanes64 a, Lanes64 b) { return __builtin_shufflevector(a, b, 1, 3); }

GQ_INLINE Integers integers_at(const uint8_t* bytes) {
  uint32_t four;
  memcpy(&four, bytes, sizeof four);
  const int16x8_t halves = vmovl_s8(vreinterpret_s8_u32(vdup_n_u32(four)));
  return reinterpret_cast<Integers>(vmovl_s16(vget_low_s16(halves)));
}
GQ_INLINE Integers unsigned_integers_at(const uint8_t* bytes) {
  uint32_t four;
  memcpy(&four, bytes, sizeof four);
  const uint16x8_t halves = vmovl_u8(vreinterpret_u8_u32(vdup_n_u32(four)));
  return reinterpret_cast<Integers>(vmovl_u16(vget_low_u16(halves)));
}

GQ_INLINE Floats lesser(Floats a, Floats b) {
  const float32x4_t x = reinterpret_cast<float32x4_t>(a), y = reinterpret_cast<float32x4_t>(b);
  return reinterpret_cast<Floats>(vbslq_f32(vcltq_f32(x, y), x, y));
}

GQ_INLINE Floats larger(Floats a, Floats b) {
  const float32x4_t x = reinterpret_cast<float32x4_t>(a), y = reinterpret_cast<float32x4_t>(b);
  return reinterpret_cast<Floats>(vbslq_f32(vcgtq_f32(x, y), x, y));
}

GQ_INLINE Floats magnitudes_within(Floats a, Floats b) {
  return lesser(reinterpret_cast<Floats>(vabsq_f32(reinterpret_cast<float32x4_t>(a))), b);
}

GQ_INLINE Halves chosen_bits(Halves mask, Halves a, Halves b) {
  return reinterpret_cast<Halves>(
      vbslq_u16(reinterpret_cast<uint16x8_t>(mask), reinterpret_cast<uint16x8_t>(a),
                reinterpret_cast<uint16x8_t>(b)));
}

GQ_INLINE Floats plus_signed(Floats a, Floats b, Words signs) {
  return a + reinterpret_cast<Floats>(reinterpret_cast<Words>(b) ^ signs);
}

GQ_INLINE Integers nearest_integers(Floats a) {
  return reinterpret_cast<Integers>(vcvtnq_s32_f32(reinterpret_cast<float32x4_t>(a)));
}

GQ_INLINE Bytes saturated_parts(Integers a, Integers b, Integers c, Integers d) {
  const int16x8_t ab = vcombine_s16(vqmovn_s32(reinterpret_cast<int32x4_t>(a)),
                                    vqmovn_s32(reinterpret_cast<int32x4_t>(b)));
  const int16x8_t cd = vcombine_s16(vqmovn_s32(reinterpret_cast<int32x4_t>(c)),
                                    vqmovn_s32(reinterpret_cast<int32x4_t>(d)));
  return reinterpret_cast<Bytes>(vcombine_s8(vqmovn_s16(ab), vqmovn_s16(cd)));
}

GQ_INLINE Bytes saturated(Integers a, Integers b, Integers c, Integers d) {
  return saturated_parts(a, b, c, d);
}

GQ_INLINE Bytes larger_signed(Bytes a, Bytes b) {
  return reinterpret_cast<Bytes>(
      vmaxq_s8(reinterpret_cast<int8x16_t>(a), reinterpret_cast<int8x16_t>(b)));
}

GQ_INLINE Halves magnitudes(Halves a) {
  return reinterpret_cast<Halves>(vabsq_s16(reinterpret_cast<int16x8_t>(a)));
}

GQ_INLINE Halves larger_signed(Halves a, Halves b) {
  return reinterpret_cast<Halves>(
      vmaxq_s16(reinterpret_cast<int16x8_t>(a), reinterpret_cast<int16x8_t>(b)));
}

GQ_INLINE Bytes lesser(Bytes a, Bytes b) {
  return reinterpret_cast<Bytes>(
      vminq_u8(reinterpret_cast<uint8x16_t>(a), reinterpret_cast<uint8x16_t>(b)));
}

GQ_INLINE Bytes repeated(const void* bytes16) {
  return reinterpret_cast<Bytes>(vld1q_u8(static_cast<const uint8_t*>(bytes16)));
}

GQ_INLINE Bytes shuffled(Bytes bytes, Bytes control) {
  return reinterpret_cast<Bytes>(
      vqtbl1q_u8(reinterpret_cast<uint8x16_t>(bytes), reinterpret_cast<uint8x16_t>(control)));
}

#endif

}  // namespace
}  // namespace gq

#endif
#endif
