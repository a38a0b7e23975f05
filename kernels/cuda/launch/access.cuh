// Memory as threads read and write it: 16 or 8 bytes at once where alignment allows, else element
// by element, and never beyond the end.
#ifndef GQ_KERNELS_CUDA_LAUNCH_ACCESS_CUH
#define GQ_KERNELS_CUDA_LAUNCH_ACCESS_CUH

#include "kernels/codec/formats.h"
#include "kernels/codec/random.h"
#include "kernels/cuda/launch/block.cuh"

namespace gq::cuda {

/** A thread takes the values of one random counter. */
inline constexpr uint32_t kThreadValues = kGroupValues;

/** A number that a thread keeps in registers as it is. What is added to it in a loop then costs one
 *  instruction, where a compiler that sees through it adds up its terms in every iteration. */
GQ_DEVICE uint64_t kept(uint64_t number) {
  asm volatile("" : "+l"(number));
  return number;
}

/** The same of a place in global memory. */
template <typename Word>
GQ_DEVICE Word* kept(Word* place) {
  asm volatile("" : "+l"(place));
  __builtin_assume(__isGlobal(place));
  return place;
}

/** kWords words that move at once. */
template <uint32_t kWords>
struct alignas(4 * kWords) Vector {
  uint32_t word[kWords];
};

GQ_HD bool is_aligned(const void* place, uint32_t size_bytes) {
  return reinterpret_cast<uintptr_t>(place) % size_bytes == 0;
}

template <uint32_t kWords>
GQ_DEVICE Vector<kWords> load_vector(const void* place) {
  return *static_cast<const Vector<kWords>*>(place);
}
template <uint32_t kWords>
GQ_DEVICE void store_vector(void* place, const Vector<kWords>& stored) {
  *static_cast<Vector<kWords>*>(place) = stored;
}

/** To shared memory, by one instruction: of plain stores a compiler makes four where it likes. */
GQ_DEVICE void store_shared_vector(void* place, const Vector<4>& stored) {
  const uint32_t* const word = stored.word;
  asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"(
                   static_cast<uint32_t>(__cvta_generic_to_shared(place))),
               "r"(word[0]), "r"(word[1]), "r"(word[2]), "r"(word[3])
               : "memory");
}

/** How many of a thread's values are below `total`, from `offset` on. */
GQ_DEVICE uint32_t count_here(uint64_t offset, uint64_t total) {
  if (offset >= total) return 0;
  return total - offset < kThreadValues ? static_cast<uint32_t>(total - offset) : kThreadValues;
}

/** A thread's values in an iteration. */
struct Place {
  uint64_t offset;       ///< of the first one in the buffers
  uint32_t value_count;  ///< of a caller's values, at most kThreadValues
  uint32_t code_count;   ///< with those that a rotation was filled up with
  uint64_t base;         ///< all threads' part of the offset
  uint32_t within;       ///< the thread's own
  bool warp_is_full;     ///< each lane of the warp has all its values
};

/** Of the first value of the warp of a thread whose first one is at `offset`. */
GQ_DEVICE uint64_t first_of_warp(uint64_t offset) {
  return offset - threadIdx.x % kWarpThreads * kThreadValues;
}
GQ_DEVICE bool is_full_warp(uint64_t offset, uint64_t total) {
  const uint64_t first = first_of_warp(offset);
  return first < total && total - first >= kWarpThreads * kThreadValues;
}

/** Words of a thread's codes. */
template <uint32_t kBits>
inline constexpr uint32_t kThreadWords = kThreadValues* kBits / 32;

/** Words of codes, and whether a thread may take its own at once. */
template <typename Word>
struct WordBuffer {
  Word* words;
  bool vectors;
};

template <uint32_t kBits, typename Word>
GQ_HD WordBuffer<Word> word_buffer(Word* words) {
  return {words, is_aligned(words, kThreadWords<kBits> < 4 ? 8 : 16)};
}

/** Words that `count` codes of a thread need, and zeros. */
template <uint32_t kBits, typename Word>
GQ_DEVICE void load_words(const WordBuffer<Word>& source, uint64_t offset, uint32_t count,
                          uint32_t (&word)[kThreadWords<kBits>]) {
  constexpr uint32_t kWords = kThreadWords<kBits>, kAtOnce = kWords < 4 ? kWords : 4;
  const uint32_t* from = source.words + offset / codes_per_word(kBits);
  if (source.vectors && count == kThreadValues) {
    GQ_UNROLL for (uint32_t w = 0; w < kWords; w += kAtOnce) {
      const Vector<kAtOnce> vector = load_vector<kAtOnce>(from + w);
      GQ_UNROLL for (uint32_t k = 0; k < kAtOnce; ++k) word[w + k] = vector.word[k];
    }
    return;
  }
  const uint32_t word_count = (count + codes_per_word(kBits) - 1) / codes_per_word(kBits);
  GQ_UNROLL for (uint32_t w = 0; w < kWords; ++w) word[w] = w < word_count ? from[w] : 0;
}

/** Writes `count` codes, lanes beyond the last one cleared. */
template <uint32_t kBits>
GQ_DEVICE void store_words(const WordBuffer<uint32_t>& target, uint64_t offset, uint32_t count,
                           const uint32_t (&word)[kThreadWords<kBits>]) {
  constexpr uint32_t kWords = kThreadWords<kBits>, kAtOnce = kWords < 4 ? kWords : 4;
  uint32_t* to = target.words + offset / codes_per_word(kBits);
  if (target.vectors && count == kThreadValues) {
    GQ_UNROLL for (uint32_t w = 0; w < kWords; w += kAtOnce) {
      Vector<kAtOnce> vector;
      GQ_UNROLL for (uint32_t k = 0; k < kAtOnce; ++k) vector.word[k] = word[w + k];
      store_vector(to + w, vector);
    }
    return;
  }
  GQ_UNROLL for (uint32_t w = 0; w < kWords; ++w) {
    const uint32_t first_bit = 32 * w, used_bits = kBits * count;
    if (used_bits <= first_bit) break;
    const uint32_t here = used_bits - first_bit;
    to[w] = here < 32 ? word[w] & ((1u << here) - 1) : word[w];
  }
}

}  // namespace gq::cuda

#endif
