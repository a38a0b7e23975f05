// What lets one definition serve host compilers and nvcc: qualifiers, bit casts, wide products.
#ifndef GQ_KERNELS_CODEC_PORTABLE_H
#define GQ_KERNELS_CODEC_PORTABLE_H

#include <stdint.h>
#include <string.h>

// Codec functions are always inlined: a plain inline copy, compiled for one instruction set, would
// be a weak symbol that the linker may hand to every caller on every machine.
#if defined(__CUDACC__)
#define GQ_HD __host__ __device__ __forceinline__
#else
#define GQ_HD inline __attribute__((always_inline))
#endif

// Loops of a few turns whose variables must become registers.
#if defined(__CUDA_ARCH__) || defined(__clang__)
#define GQ_UNROLL _Pragma("unroll")
#elif defined(__CUDACC__)
#define GQ_UNROLL  // nvcc's host pass knows neither spelling
#else
#define GQ_UNROLL _Pragma("GCC unroll 16")
#endif

namespace gq {

// A number below 256. On a CPU a vector register holds as many of them as it has octets; a device
// computes in 32 bits, and every smaller type costs it instructions.
#if defined(__CUDA_ARCH__) || defined(GQ_WIDE_OCTETS)
using Octet = uint32_t;
#else
using Octet = uint8_t;
#endif

GQ_HD uint32_t float_bits(float value) {
#if defined(__CUDA_ARCH__)
  return __float_as_uint(value);
#else
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
#endif
}

GQ_HD float float_from_bits(uint32_t bits) {
#if defined(__CUDA_ARCH__)
  return __uint_as_float(bits);
#else
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
#endif
}

/** High half of a 32 x 32 bit product. */
GQ_HD uint32_t mulhi(uint32_t a, uint32_t b) {
  return static_cast<uint32_t>((static_cast<uint64_t>(a) * b) >> 32);
}

/** The smaller number, `bound` if `value` is NaN; of two zeros either. */
GQ_HD float at_most(float value, float bound) {
#if defined(__CUDA_ARCH__)
  return fminf(value, bound);
#else
  return value < bound ? value : bound;
#endif
}

GQ_HD float at_least(float value, float bound) {
#if defined(__CUDA_ARCH__)
  return fmaxf(value, bound);
#else
  return value > bound ? value : bound;
#endif
}

/** Number of zero bits above the highest one; 32 for 0. */
GQ_HD uint32_t leading_zeros(uint32_t word) {
#if defined(__CUDA_ARCH__)
  return static_cast<uint32_t>(__clz(static_cast<int>(word)));
#else
  return word == 0 ? 32 : static_cast<uint32_t>(__builtin_clz(word));
#endif
}

/** The nearest integer, ties to even, of a number that fits. */
GQ_HD int32_t nearest_integer(float value) {
#if defined(__CUDA_ARCH__)
  return __float2int_rn(value);
#elif defined(__SSE2__) && defined(__GNUC__) && !defined(__clang__)
  return __builtin_irintf(value);  // one instruction, where rint and a conversion are two
#else
  return static_cast<int32_t>(__builtin_rintf(value));
#endif
}

/** Rotates right by `amount` bits, 0..31. */
GQ_HD uint32_t rotate_right(uint32_t word, uint32_t amount) {
  return (word >> amount) | (word << ((32 - amount) & 31));
}

}  // namespace gq

#endif
