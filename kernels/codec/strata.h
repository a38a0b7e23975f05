// Correlated rounding: the stratum of [0, 2^23) that a rank's threshold comes from
// (docs/FORMAT.md, section 5). Strata of a group of ranks are permuted for each value by a random
// affine map, j -> a j + b, of a field with at least as many elements as the group has ranks; b is
// each value's own, a that of 16 values. Nodes of a hierarchy round their sums likewise, with nodes
// in place of ranks and words of their own.
#ifndef GQ_KERNELS_CODEC_STRATA_H
#define GQ_KERNELS_CODEC_STRATA_H

#include "kernels/codec/random.h"

namespace gq {

/** Ranks that share strata; those beyond form groups of their own. */
inline constexpr uint32_t kStrataRanks = 1024;
inline constexpr uint32_t kFieldBitsMax = 10;

/** The strata of one rank's group, and the rank's place in it. */
struct Strata {
  uint32_t group, hop;            ///< number of the group, and a hop: c3 of the shared draws
  uint32_t rank;                  ///< j, in the group
  uint32_t count;                 ///< Q
  uint32_t field_bits;            ///< m if Q = 2^m; 0 if Q is a prime
  uint32_t reciprocal;            ///< 2^32 / Q rounded up, if Q is a prime
  uint16_t image[kFieldBitsMax];  ///< j * x^t in GF(2^m): multiplying by j is linear over GF(2)
};

/** What x^m is in GF(2^m) besides itself: irreducible polynomials over GF(2). */
GQ_HD uint32_t field_modulus(uint32_t field_bits) {
  constexpr uint16_t kModulus[kFieldBitsMax + 1] = {0,    0x3,  0x7,   0xb,   0x13, 0x25,
                                                    0x43, 0x83, 0x11b, 0x211, 0x409};
  return kModulus[field_bits];
}

GQ_HD bool is_prime(uint32_t number) {
  for (uint32_t divisor = 2; divisor * divisor <= number; ++divisor) {
    if (number % divisor == 0) return false;
  }
  return number > 1;
}

/** Ranks that share strata with this one, itself among them. */
GQ_HD constexpr uint32_t ranks_with_strata(uint32_t rank, uint32_t ranks) {
  const uint32_t left = ranks - rank / kStrataRanks * kStrataRanks;
  return left < kStrataRanks ? left : kStrataRanks;
}

/** For rank `rank` of `ranks`. */
GQ_HD Strata strata_of(uint32_t rank, uint32_t ranks, uint32_t hop = 0) {
  Strata strata = {};
  strata.group = rank / kStrataRanks;
  strata.hop = hop;
  strata.rank = rank % kStrataRanks;
  strata.count = ranks_with_strata(rank, ranks);
  if ((strata.count & (strata.count - 1)) == 0) {
    while (strata.count >> strata.field_bits != 1) ++strata.field_bits;
    uint32_t image = strata.rank;
    for (uint32_t t = 0; t < strata.field_bits; ++t) {
      strata.image[t] = static_cast<uint16_t>(image);
      image <<= 1;
      if (image & strata.count) image ^= field_modulus(strata.field_bits);
    }
  } else {
    while (!is_prime(strata.count)) ++strata.count;
    strata.reciprocal = static_cast<uint32_t>((uint64_t{1} << 32) / strata.count) + 1;
  }
  return strata;
}

/** One stratum, all of [0, 2^23). */
GQ_HD Strata whole_stratum() { return strata_of(0, 1); }

/** a times the own rank in GF(2^m). Most groups have fields of few bits. */
GQ_HD uint32_t field_product(const Strata& strata, uint32_t a) {
  uint32_t product = 0;
  const auto add = [&](uint32_t t) { product ^= strata.image[t] & (0u - ((a >> t) & 1)); };
  GQ_UNROLL for (uint32_t t = 0; t < kFieldBitsMax / 2; ++t) add(t);
  if (strata.field_bits <= kFieldBitsMax / 2) return product;
  GQ_UNROLL for (uint32_t t = kFieldBitsMax / 2; t < kFieldBitsMax; ++t) add(t);
  return product;
}

/** number / Q for numbers below 2^12 Q: with e = reciprocal * Q - 2^32 the result is right while
 *  number * e < 2^32, and e is at most Q <= 1021, or 341 for Q = 1031. */
GQ_HD uint32_t strata_quotient(const Strata& strata, uint32_t number) {
  return mulhi(number, strata.reciprocal);
}

/** The two words that a group of ranks shares for its factors. */
struct FactorWords {
  uint32_t first, step;
};

/** Of their stream: words 0 and 1 of its first counter. */
GQ_HD FactorWords factor_words(const PhiloxBlock& first_counter) {
  return {first_counter.word[0], first_counter.word[1]};
}

/** What the factor a of 16 values is made of; `group` is that of their random words. */
GQ_HD uint32_t factor_bits(const FactorWords& words, uint64_t group) {
  return words.first + words.step * static_cast<uint32_t>(group);
}

/** The own rank times the factor: how far the own stratum is from that of rank 0. */
GQ_HD uint32_t stratum_offset(const Strata& strata, uint32_t bits_a) {
  const uint32_t a = 1 + mulhi(bits_a, strata.count - 1);
  if (strata.field_bits > 0) return field_product(strata, a);
  const uint32_t number = a * strata.rank;
  return number - strata_quotient(strata, number) * strata.count;
}

/** The own stratum k; bits_b is R(e) of the draw that the group shares. */
GQ_HD uint32_t stratum_of(const Strata& strata, uint32_t offset, uint32_t bits_b) {
  if (strata.field_bits > 0) return offset ^ bits_b >> (32 - strata.field_bits);
  const uint32_t sum = offset + mulhi(bits_b, strata.count);
  return sum < strata.count ? sum : sum - strata.count;
}

/** A number of stratum k of Q, uniform there as v is below 2^23, the low bits of `own_bits`: those
 *  of v below k, or (k * 2^23 + v) / Q. By a prime in two digits, of 11 and 12 bits. */
GQ_HD uint32_t stratified_uniform(const Strata& strata, uint32_t stratum, uint32_t own_bits) {
  if (strata.reciprocal == 0) {
    const uint32_t below = kUniformBits - strata.field_bits;
    return stratum << below | (own_bits & ((1u << below) - 1));
  }
  const uint32_t upper = stratum << 11 | (own_bits & kUniformMask) >> 12;
  const uint32_t digit = strata_quotient(strata, upper);
  const uint32_t lower = (upper - digit * strata.count) << 12 | (own_bits & 0xfffu);
  return digit << 12 | strata_quotient(strata, lower);
}

/** What replaces r(e): own_bits is R(e) of the rank's own draw. */
GQ_HD uint32_t correlated_uniform(const Strata& strata, uint32_t own_bits, uint32_t offset,
                                  uint32_t bits_b) {
  if (strata.count == 1) return own_bits & kUniformMask;
  return stratified_uniform(strata, stratum_of(strata, offset, bits_b), own_bits);
}

}  // namespace gq

#endif
