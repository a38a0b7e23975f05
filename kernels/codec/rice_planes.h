// The length of a group of Rice codes (rice.h): planes, units of 128 bits, as the mean bits of a
// call allow, and never fewer than codes of any values fit in (docs/FORMAT.md, "Rice codes").
#ifndef GQ_KERNELS_CODEC_RICE_PLANES_H
#define GQ_KERNELS_CODEC_RICE_PLANES_H

#include <stdint.h>

#include "kernels/codec/portable.h"

namespace gq {

/** Values that share a parameter. */
inline constexpr uint32_t kRiceCell = 32;

inline constexpr uint32_t kRiceParameterBits = 4;
inline constexpr uint32_t kRiceWordParameters = 32 / kRiceParameterBits;

/** Unary codes lie in words of so many bits. */
inline constexpr uint32_t kRiceUnaryBits = 64;

inline constexpr uint32_t kRicePlaneBits = 128;

GQ_HD constexpr uint32_t rice_cells(uint32_t value_count) {
  return (value_count + kRiceCell - 1) / kRiceCell;
}

/** The word where planes begin. */
GQ_HD constexpr uint32_t rice_head_words(uint32_t cells) {
  return 1 + (cells + kRiceWordParameters - 1) / kRiceWordParameters;
}

// The margin: codes of a group exceed their expected length by more than it with a chance of at
// most 2^-32. A code's length is one of two that differ by d, and which of them, or a longer one,
// is decided by the leading byte of its threshold. If these are independent, the chance of more
// than M bits is at most exp(-2 M^2 / D), D the sum of d^2 (Hoeffding), and 16 ln 2 < 12. If those
// of one random word depend on each other, it is at most exp(-M^2 / (2 D)) by Hoelder's inequality
// over the four values of a word, and 64 ln 2 < 45.
inline constexpr uint32_t kRiceMarginOfBytes = 12, kRiceMargin = 45;

/** The least number whose square is at least v. */
GQ_HD constexpr uint32_t root_rounded_up(uint32_t v) {
  uint32_t root = 0;  // the largest whose square is below v
  for (uint32_t bit = 1u << 15; bit > 0; bit >>= 1) {
    const uint32_t larger = root + bit;
    if (larger * larger < v) root = larger;
  }
  return v == 0 ? 0 : root + 1;
}

/** The fewest planes that have room for codes of any values with some step: with one that is 256
 *  times as large as all values a cell has 32 bits, and each value two more with a chance of 2^-8.
 */
GQ_HD constexpr uint32_t rice_planes_least(uint32_t value_count) {
  const uint32_t cells = rice_cells(value_count);
  const uint32_t bits = 32 * rice_head_words(cells) + 32 * cells + (value_count + 127) / 128 +
                        root_rounded_up(4 * kRiceMargin * value_count) + kRiceUnaryBits - 1;
  return (bits + kRicePlaneBits - 1) / kRicePlaneBits;
}

/** Planes of each of group_count groups, of at most group_values values, that share block_count
 *  blocks. Sums get 0.8 bits more than codes of ranks: together they have 2 mean_bits + 0.375. */
GQ_HD constexpr uint32_t rice_planes(uint32_t mean_half_bits, uint64_t block_count,
                                     uint64_t group_count, uint32_t group_values, bool is_sum) {
  const uint32_t block_bits = is_sum ? 64 * mean_half_bits + 75 : 64 * mean_half_bits - 27;
  const uint64_t planes = block_bits * block_count / kRicePlaneBits / group_count;
  const uint32_t least = rice_planes_least(group_values);
  return planes > least ? static_cast<uint32_t>(planes) : least;
}

}  // namespace gq

#endif
