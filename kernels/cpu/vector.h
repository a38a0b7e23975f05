// The few vector operations that compilers do not find in plain loops: 32 x 32 bit products,
// shuffles of octets. GQ_VECTOR_OCTETS is the register's size, or 0 where plain loops do
// everything.
#ifndef GQ_KERNELS_CPU_VECTOR_H
#define GQ_KERNELS_CPU_VECTOR_H

#include <stdint.h>

#if defined(GQ_PLAIN)
#define GQ_VECTOR_OCTETS 0
#elif defined(__AVX512BW__)
#define GQ_VECTOR_OCTETS 64
#include <immintrin.h>
#elif defined(__AVX2__)
#define GQ_VECTOR_OCTETS 32
#include <immintrin.h>
#elif defined(__aarch64__)
#define GQ_VECTOR_OCTETS 16
#include <arm_neon.h>
#else
#define GQ_VECTOR_OCTETS 0
#endif

#if GQ_VECTOR_OCTETS > 0

namespace gq {
namespace {

using Lanes64 = uint64_t __attribute__((vector_size(GQ_VECTOR_OCTETS)));
using Words = uint32_t __attribute__((vector_size(GQ_VECTOR_OCTETS)));
using Floats = float __attribute__((vector_size(GQ_VECTOR_OCTETS)));
using Doubles = double __attribute__((vector_size(GQ_VECTOR_OCTETS)));
using Octets = uint8_t __attribute__((vector_size(GQ_VECTOR_OCTETS)));

#define GQ_INLINE inline __attribute__((always_inline))

#if GQ_VECTOR_OCTETS == 64

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

/** The same 16 octets in every part of 16. */
GQ_INLINE Octets repeated(const void* octets16) {
  return reinterpret_cast<Octets>(_mm512_maskz_broadcast_i32x4(
      kAllLanes, _mm_loadu_si128(static_cast<const __m128i*>(octets16))));
}

/** octet k becomes octet control[k] (below 16) of the same 16. */
GQ_INLINE Octets shuffled(Octets octets, Octets control) {
  return reinterpret_cast<Octets>(
      _mm512_shuffle_epi8(reinterpret_cast<__m512i>(octets), reinterpret_cast<__m512i>(control)));
}

#elif GQ_VECTOR_OCTETS == 32

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

GQ_INLINE Octets repeated(const void* octets16) {
  return reinterpret_cast<Octets>(
      _mm256_broadcastsi128_si256(_mm_loadu_si128(static_cast<const __m128i*>(octets16))));
}

GQ_INLINE Octets shuffled(Octets octets, Octets control) {
  return reinterpret_cast<Octets>(
      _mm256_shuffle_epi8(reinterpret_cast<__m256i>(octets), reinterpret_cast<__m256i>(control)));
}

#else

GQ_INLINE Lanes64 low_products(Lanes64 a, uint32_t b) {
  return reinterpret_cast<Lanes64>(vmull_n_u32(vmovn_u64(reinterpret_cast<uint64x2_t>(a)), b));
}

GQ_INLINE Lanes64 even_pairs(Lanes64 a, Lanes64 b) { return __builtin_shufflevector(a, b, 0, 2); }
GQ_INLINE Lanes64 odd_pairs(Lanes64 a, Lanes64 b) { return __builtin_shufflevector(a, b, 1, 3); }

GQ_INLINE Octets repeated(const void* octets16) {
  return reinterpret_cast<Octets>(vld1q_u8(static_cast<const uint8_t*>(octets16)));
}

GQ_INLINE Octets shuffled(Octets octets, Octets control) {
  return reinterpret_cast<Octets>(
      vqtbl1q_u8(reinterpret_cast<uint8x16_t>(octets), reinterpret_cast<uint8x16_t>(control)));
}

#endif

}  // namespace
}  // namespace gq

#endif
#endif
