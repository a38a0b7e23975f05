// The digest of the words of a call and of their scales: a sum, so that pieces may come in any
// order and on any thread (docs/FORMAT.md, section 18).
#ifndef GQ_KERNELS_CHECKSUM_DIGEST_H
#define GQ_KERNELS_CHECKSUM_DIGEST_H

#include <stddef.h>
#include <stdint.h>

namespace gq {

/** The sum of word * key of its place, modulo 2^64. Keys are odd numbers below 2^32: one word that
 *  is changed changes the sum. */
uint64_t digest_of_words(uint64_t first_place, const uint32_t* words, size_t word_count);

/** The same of scales, which are codes of 16 bits; their keys are others. */
uint64_t digest_of_scales(uint64_t first_place, const uint16_t* scales, size_t scale_count);

/** One norm, by the bits of its float32, in the place of a scale; all that are not finite alike. */
uint64_t digest_of_norm(uint64_t place, float norm);

}  // namespace gq

#endif
