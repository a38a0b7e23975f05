// The layout of codes in 32-bit words (docs/FORMAT.md, section 1). linear.h and exponential.h
// define the meaning of a lane.
#ifndef GQ_KERNELS_CODEC_WORDS_H
#define GQ_KERNELS_CODEC_WORDS_H

#include "kernels/codec/portable.h"

namespace gq {

/** The lane of value e in its word, for codes of kBits bits. */
template <uint32_t kBits>
GQ_HD uint32_t lane(uint32_t word, uint32_t value) {
  return (word >> (kBits * (value % (32 / kBits)))) & ((1u << kBits) - 1);
}

/** A word that holds one lane and zeros. */
template <uint32_t kBits>
GQ_HD uint32_t placed(uint32_t lane, uint32_t value) {
  return lane << (kBits * (value % (32 / kBits)));
}

/** The leading bytes of four words. */
GQ_HD uint32_t leading_bytes(uint32_t a, uint32_t b, uint32_t c, uint32_t d) {
  return byte_permute(byte_permute(a, b, 0x0073), byte_permute(c, d, 0x0073), 0x5410);
}

/** The eight 4-bit lanes that are the lower halves of bytes, those of values 0, 2, 4, 6 and of
 *  values 1, 3, 5, 7. */
GQ_HD uint32_t joined_lanes(uint32_t even, uint32_t odd) {
  return merged_bits(0x0f0f0f0fu, even, odd << 4);
}

/** Bits 23 to 30 of four words whose bit 31 is 0: of two at a time, because each shift moves two.
 */
GQ_HD uint32_t bytes_at_23(uint32_t a, uint32_t b, uint32_t c, uint32_t d) {
  return byte_permute(byte_permute(a, b, 0x7632) << 1, byte_permute(c, d, 0x7632) << 1, 0x7531);
}

/** A word of lanes, each of which begins at bit 23 of a word; those of 4 bits may have others above
 *  them. */
template <uint32_t kBits>
GQ_HD uint32_t packed_lanes(const uint32_t (&from)[32 / kBits]) {
  if constexpr (kBits == 8) {
    return bytes_at_23(from[0], from[1], from[2], from[3]);
  } else {
    return joined_lanes(bytes_at_23(from[0], from[2], from[4], from[6]),
                        bytes_at_23(from[1], from[3], from[5], from[7]));
  }
}

}  // namespace gq

#endif
