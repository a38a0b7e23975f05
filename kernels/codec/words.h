// How codes lie in 32-bit words (docs/FORMAT.md, section 1). What a lane means is said by linear.h
// and exponential.h.
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

}  // namespace gq

#endif
