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

// Loops of a few iterations whose variables must become registers.
#if defined(__CUDA_ARCH__) || defined(__clang__)
#define GQ_UNROLL _Pragma("unroll")
#elif defined(__CUDACC__)
#define GQ_UNROLL  // nvcc's host pass knows neither spelling
#else
#define GQ_UNROLL _Pragma("GCC unroll 16")
#endif

namespace gq {

// A number below 256. On a CPU a vector register holds as many of them as it has bytes; a device
// computes in 32 bits, and every smaller type costs it instructions.
#if defined(__CUDA_ARCH__)
using Byte = uint32_t;
#else
using Byte = uint8_t;
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

/** The pattern of a number that is not negative, or of NaN, which then is larger than all of them:
 * on a device its sign is clear. */
GQ_HD uint32_t unsigned_pattern(float value) {
#if defined(__CUDA_ARCH__)
  return float_bits(value);
#else
  return float_bits(value) & 0x7fffffffu;
#endif
}

/** `value` between -bound and bound; bound if it is a product that is NaN. */
GQ_HD float within(float value, float bound) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 860
  float nearest;  // One instruction: the smaller magnitude, with both signs. NaN has none here.
  asm("min.xorsign.abs.f32 %0, %1, %2;" : "=f"(nearest) : "f"(value), "f"(bound));
  return nearest;
#else
  return at_least(at_most(value, bound), -bound);
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

/** The number of the highest bit that is set; -1, all ones, for 0. */
GQ_HD uint32_t highest_bit(uint32_t word) {
#if defined(__CUDA_ARCH__)
  uint32_t number;  // What __clz makes of it costs a subtraction.
  asm("bfind.u32 %0, %1;" : "=r"(number) : "r"(word));
  return number;
#else
  return 31 - leading_zeros(word);
#endif
}

/** Four of eight bytes. The digits of `choice`, four bits each from the lowest, choose one byte
 *  after the other: 0..3 of `low`, 4..7 of `high`; 8 more, and all its bits are that byte's sign.
 */
GQ_HD uint32_t byte_permute(uint32_t low, uint32_t high, uint32_t choice) {
#if defined(__CUDA_ARCH__)
  uint32_t chosen;
  asm("prmt.b32 %0, %1, %2, %3;" : "=r"(chosen) : "r"(low), "r"(high), "r"(choice));
  return chosen;
#else
  const uint64_t bytes = static_cast<uint64_t>(high) << 32 | low;
  uint32_t chosen = 0;
  for (uint32_t k = 0; k < 4; ++k) {
    const uint32_t digit = (choice >> (4 * k)) & 15;
    const uint32_t byte = static_cast<uint32_t>(bytes >> (8 * (digit & 7))) & 255;
    chosen |= (digit < 8 ? byte : 255 * (byte >> 7)) << (8 * k);
  }
  return chosen;
#endif
}

/** Bits of `a` where the mask has ones, of `b` where it has none. */
GQ_HD uint32_t merged_bits(uint32_t mask, uint32_t a, uint32_t b) {
#if defined(__CUDA_ARCH__)
  uint32_t merged;  // One instruction, where nvcc 13.0 makes two of a constant mask.
  asm("lop3.b32 %0, %1, %2, %3, 0xca;" : "=r"(merged) : "r"(mask), "r"(a), "r"(b));
  return merged;
#else
  return (a & mask) | (b & ~mask);
#endif
}

/** Bits that two or three of the words have. */
GQ_HD uint32_t majority_bits(uint32_t a, uint32_t b, uint32_t c) {
#if defined(__CUDA_ARCH__)
  uint32_t majority;  // One instruction, whatever c was made by.
  asm("lop3.b32 %0, %1, %2, %3, 0xe8;" : "=r"(majority) : "r"(a), "r"(b), "r"(c));
  return majority;
#else
  return (a & b) | ((a ^ b) & c);
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
