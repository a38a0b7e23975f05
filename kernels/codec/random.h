// The random words: Philox4x32-10 and the counter that names every word of an allreduce
// (docs/FORMAT.md, section 2). Nothing is drawn from a state.
#ifndef GQ_KERNELS_CODEC_RANDOM_H
#define GQ_KERNELS_CODEC_RANDOM_H

#include "kernels/codec/portable.h"

namespace gq {

/** What a word decides. The other numbers are reserved. */
enum class Draw : uint32_t { quantize = 0, reduce = 3, encode_again = 4, output = 7 };

/** One Philox counter serves this many consecutive values, one of its words four of them. */
inline constexpr uint32_t kGroupValues = 16;
inline constexpr uint32_t kWordValues = 4;

/** Rounding looks at 23 bits: as many as a float32 has behind its point. */
inline constexpr uint32_t kUniformBits = 23;
inline constexpr uint32_t kUniformMask = (1u << kUniformBits) - 1;
inline constexpr uint32_t kUniformHalf = 1u << (kUniformBits - 1);

struct PhiloxBlock {
  uint32_t word[4];
};

/** Philox4x32-10 (Salmon, Moraes, Dror, Shaw: Parallel random numbers, SC 2011). */
GQ_HD PhiloxBlock philox(PhiloxBlock counter, uint32_t k0, uint32_t k1) {
  uint32_t c0 = counter.word[0], c1 = counter.word[1], c2 = counter.word[2], c3 = counter.word[3];
#if defined(__CUDA_ARCH__)
#pragma unroll
#endif
  for (uint32_t round = 0; round < 10; ++round) {
    const uint64_t left = static_cast<uint64_t>(c0) * 0xD2511F53u;
    const uint64_t right = static_cast<uint64_t>(c2) * 0xCD9E8D57u;
    c0 = static_cast<uint32_t>(right >> 32) ^ c1 ^ k0;
    c1 = static_cast<uint32_t>(right);
    c2 = static_cast<uint32_t>(left >> 32) ^ c3 ^ k1;
    c3 = static_cast<uint32_t>(left);
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return PhiloxBlock{{c0, c1, c2, c3}};
}

/** Everything of a counter and its key that does not change with the value. */
struct RandomStream {
  uint32_t k0, k1;
  uint32_t c1;  ///< without the group's high bits
  uint32_t c2, c3;
};

/** The key of a call: groups of one program (stream ids) draw from different sequences. */
GQ_HD constexpr uint64_t random_key(uint64_t seed, uint32_t stream_id) {
  return seed ^ (stream_id * 0x9E3779B97F4A7C15ull);
}

/** rank < 2^20, index < 2^16. Draws shared by all ranks pass rank 0 and hop 0. */
GQ_HD RandomStream random_stream(uint64_t key, uint32_t step, uint32_t index, Draw draw,
                                 uint32_t rank, uint32_t hop) {
  return RandomStream{static_cast<uint32_t>(key), static_cast<uint32_t>(key >> 32),
                      static_cast<uint32_t>(draw) << 8 | index << 16, step,
                      rank | (hop & 0xfffu) << 20};
}

/** The four words of group e div 16. */
GQ_HD PhiloxBlock random_group(const RandomStream& stream, uint64_t group) {
  return philox(PhiloxBlock{{static_cast<uint32_t>(group),
                             static_cast<uint32_t>(group >> 32) | stream.c1, stream.c2, stream.c3}},
                stream.k0, stream.k1);
}

/** R(e): the 32 bits of value e, from the word that it shares with three neighbours. Its leading
 *  octet is octet e mod 4 of the word, so that the four leading octets are disjoint. */
GQ_HD uint32_t value_bits(uint32_t word, uint32_t value) {
  return rotate_right(word, 8 * ((value + 1) % kWordValues));
}

/** R(e) of one value by itself. */
GQ_HD uint32_t random_bits(const RandomStream& stream, uint64_t value) {
  const PhiloxBlock block = random_group(stream, value / kGroupValues);
  return value_bits(block.word[(value / kWordValues) % 4], static_cast<uint32_t>(value % 4));
}

}  // namespace gq

#endif
