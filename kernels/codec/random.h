// The random words: Philox4x32-10 and the counter that names every word of an allreduce
// (docs/FORMAT.md, section 2). Nothing is drawn from a state.
#ifndef GQ_KERNELS_CODEC_RANDOM_H
#define GQ_KERNELS_CODEC_RANDOM_H

#include "kernels/codec/portable.h"

namespace gq {

/** What a word decides. */
enum class Draw : uint32_t {
  quantize = 0,
  strata_a = 1,
  strata_b = 2,
  reduce = 3,
  encode_again = 4,
  subtractive = 5,
  signs = 6,
  output = 7
};

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

/** A word of a counter in the low half of 64 bits; the high half is what a product left there. */
struct ScalarLanes {
  using Lane = uint64_t;
  static GQ_HD Lane low_product(Lane word, uint32_t factor) {
#if defined(__CUDA_ARCH__)
    uint64_t product;  // One instruction, where nvcc 13.0 makes two of the line below.
    asm("mul.wide.u32 %0, %1, %2;" : "=l"(product) : "r"(static_cast<uint32_t>(word)), "r"(factor));
    return product;
#else
    return (word & 0xffffffffu) * factor;
#endif
  }
};

/** The two keys of each round. */
struct ScalarKeys {
  uint32_t k0, k1;

  GQ_HD uint64_t first(uint32_t round) const { return k0 + round * 0x9E3779B9u; }
  GQ_HD uint64_t second(uint32_t round) const { return k1 + round * 0xBB67AE85u; }
};

inline constexpr uint32_t kPhiloxRounds = 10;

inline constexpr uint32_t kPhiloxLeft = 0xD2511F53u, kPhiloxRight = 0xCD9E8D57u;

/** Philox4x32-10 (Salmon, Moraes, Dror, Shaw: Parallel random numbers, SC 2011) on kCount counters
 *  at once, each of them a lane or, depending on Lanes, a vector of lanes; kDone rounds are done.
 */
template <typename Lanes, uint32_t kCount, uint32_t kDone = 0, typename Keys>
GQ_HD void philox_rounds(typename Lanes::Lane (&word)[4][kCount], const Keys& keys) {
  GQ_UNROLL for (uint32_t round = kDone; round < kPhiloxRounds; ++round) {
    GQ_UNROLL for (uint32_t k = 0; k < kCount; ++k) {
      const typename Lanes::Lane left = Lanes::low_product(word[0][k], kPhiloxLeft);
      const typename Lanes::Lane right = Lanes::low_product(word[2][k], kPhiloxRight);
      // A product comes late: what can be done before is.
      word[0][k] = (word[1][k] ^ keys.first(round)) ^ (right >> 32);
      word[1][k] = right;
      word[2][k] = (word[3][k] ^ keys.second(round)) ^ (left >> 32);
      word[3][k] = left;
    }
  }
}

template <typename Keys>
GQ_HD PhiloxBlock philox(const PhiloxBlock& counter, const Keys& keys) {
  const uint32_t* c = counter.word;
  uint64_t word[4][1] = {{c[0]}, {c[1]}, {c[2]}, {c[3]}};
  philox_rounds<ScalarLanes, 1>(word, keys);
  return PhiloxBlock{{static_cast<uint32_t>(word[0][0]), static_cast<uint32_t>(word[1][0]),
                      static_cast<uint32_t>(word[2][0]), static_cast<uint32_t>(word[3][0])}};
}

GQ_HD PhiloxBlock philox(const PhiloxBlock& counter, uint32_t k0, uint32_t k1) {
  return philox(counter, ScalarKeys{k0, k1});
}

/** Everything of a counter and its key that does not change with the value. */
struct RandomStream {
  uint32_t k0, k1;
  uint32_t c1;  ///< without the group's high bits
  uint32_t c2, c3;
  /** On a device, if not null: where the training step, which is c2, and behind it the index, which
   *  c1 is without then, are when the stream reaches the kernel. */
  const uint32_t* step_at = nullptr;
};

GQ_HD uint32_t read_volatile(const uint32_t* number) {
#if defined(__CUDA_ARCH__)
  return __ldg(number);  // No kernel that reads it writes it.
#else
  return *number;
#endif
}
GQ_HD uint32_t c1_of(const RandomStream& stream) {
  if (stream.step_at == nullptr) return stream.c1;
  return stream.c1 + (read_volatile(stream.step_at + 1) << 16);
}
GQ_HD uint32_t c2_of(const RandomStream& stream) {
  return stream.step_at == nullptr ? stream.c2 : read_volatile(stream.step_at);
}

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

/** What the first round makes of c1 and c2, which all groups of a stream share. */
struct StreamStart {
  uint32_t first;  ///< without the group's high bits
  uint32_t second;
};

template <typename Keys>
GQ_HD StreamStart start_of(const RandomStream& stream, const Keys& keys) {
  const uint64_t product = ScalarLanes::low_product(c2_of(stream), kPhiloxRight);
  return StreamStart{
      c1_of(stream) ^ static_cast<uint32_t>(keys.first(0)) ^ static_cast<uint32_t>(product >> 32),
      static_cast<uint32_t>(product)};
}

/** The four words of group e div 16; `keys` are the stream's, however they are stored. */
template <typename Keys>
GQ_HD PhiloxBlock random_group(const RandomStream& stream, const StreamStart& start, uint64_t group,
                               const Keys& keys) {
  const uint64_t product = ScalarLanes::low_product(static_cast<uint32_t>(group), kPhiloxLeft);
  uint64_t word[4][1] = {{start.first ^ (group >> 32)},
                         {start.second},
                         {(stream.c3 ^ keys.second(0)) ^ (product >> 32)},
                         {product}};
  philox_rounds<ScalarLanes, 1, 1>(word, keys);
  return PhiloxBlock{{static_cast<uint32_t>(word[0][0]), static_cast<uint32_t>(word[1][0]),
                      static_cast<uint32_t>(word[2][0]), static_cast<uint32_t>(word[3][0])}};
}

template <typename Keys>
GQ_HD PhiloxBlock random_group(const RandomStream& stream, uint64_t group, const Keys& keys) {
  return random_group(stream, start_of(stream, keys), group, keys);
}

GQ_HD PhiloxBlock random_group(const RandomStream& stream, uint64_t group) {
  return random_group(stream, group, ScalarKeys{stream.k0, stream.k1});
}

/** R(e): the 32 bits of value e, from the word that it shares with three neighbours. Its leading
 *  byte is byte e mod 4 of the word, so that the four leading bytes are disjoint. */
GQ_HD uint32_t value_bits(uint32_t word, uint32_t value) {
  return rotate_right(word, 8 * ((value + 1) % kWordValues));
}

/** r(e): the uniform number of a rounding, or the middle where rounding is to nearest. */
template <bool kNearest>
GQ_HD uint32_t uniform_of(uint32_t bits) {
  return kNearest ? kUniformHalf : bits & kUniformMask;
}

/** The same, mirrored for a negative value (`negative` is all ones then), so that in terms of
 *  magnitudes it still moves a result upwards in the signed sense. */
template <bool kNearest>
GQ_HD uint32_t mirrored_uniform_of(uint32_t bits, uint32_t negative) {
  return kNearest ? kUniformHalf : (bits ^ negative) & kUniformMask;
}

}  // namespace gq

#endif
