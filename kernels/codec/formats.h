// What a format is: the fields of a quantizer and the numbers that follow from them for an
// allreduce over `ranks` ranks. No rounding and no packing here: see linear.h, exponential.h,
// words.h.
#ifndef GQ_KERNELS_CODEC_FORMATS_H
#define GQ_KERNELS_CODEC_FORMATS_H

#include <stdint.h>

#include "kernels/codec/portable.h"

namespace gq {

// Enumerator values are those of the header's quantizer fields (docs/FORMAT.md, section 11).
enum class Levels : uint8_t { linear = 0, exponential = 1, none = 2, bf16 = 3, fp16 = 4 };
enum class NormOrder : uint8_t { inf = 0, one = 1, two = 2 };
enum class Rounding : uint8_t { independent = 0, correlated = 1, nearest = 2 };
enum class RoundingDown : uint8_t { random = 0, subtractive = 1 };
enum class Rotate : uint8_t { none = 0, hadamard = 1 };
enum class Combine : uint8_t { exact = 0, sum = 1, average = 2 };
enum class Nonfinite : uint8_t { poison = 0, error = 1 };

/** Codes are fractions of a norm. Otherwise values themselves travel, as floats. */
GQ_HD constexpr bool has_norm(Levels levels) {
  return levels == Levels::linear || levels == Levels::exponential;
}

/** Values travel as floats of 16 bits. */
GQ_HD constexpr bool is_narrow(Levels levels) {
  return levels == Levels::bf16 || levels == Levels::fp16;
}

/** The fields of a quantizer: one to one with its specification. */
struct Format {
  Levels levels = Levels::linear;
  uint8_t bits = 8;
  uint8_t bits_down = 8;
  NormOrder q = NormOrder::inf;  ///< norm inside a rank
  NormOrder p = NormOrder::inf;  ///< norm over ranks
  uint32_t block = 0;            ///< values per norm; 0: one norm for the call
  Rounding rounding = Rounding::independent;
  RoundingDown rounding_down = RoundingDown::random;
  Rotate rotate = Rotate::none;
  Combine combine = Combine::exact;
  bool rescale = false;
  uint8_t mantissa_bits = 0;
  Nonfinite nonfinite = Nonfinite::poison;
  uint64_t seed = 0;
};

/** Chains of reductions longer than this saturate instead of getting more headroom (the chance that
 *  it matters is at most ranks * 2^-64 per element). */
inline constexpr uint32_t kHeadroomMax = 64;

/** Ranks are 20 bits of the random counter; weights of averages stay within 2^20 as well. */
inline constexpr uint32_t kRanksMax = 1u << 20;

/** The number of a call within a step is 16 bits of it. */
inline constexpr uint32_t kIndexMax = 0xffff;

/** Shards, and first_value of every stage call, are multiples of this many values, and of a block
 *  of norms or of a rotation where the format has them (value_alignment). */
inline constexpr uint32_t kValueAlignment = 32;

/** Values that one Hadamard rotation mixes. The last ones of a call are filled up with zeros to a
 *  multiple of the second number only, and cut into shorter rotations. */
inline constexpr uint32_t kRotationValues = 1024;
inline constexpr uint32_t kRotationValuesMin = 128;

/** What the codec needs to know of a format in one allreduce. Plain data: a kernel takes it by
 * value. */
struct Coding {
  Levels levels;
  Combine combine;
  Rounding rounding;
  RoundingDown rounding_down;
  uint8_t bits;
  uint8_t bits_down;      ///< of what reduce_many writes; equal to bits where nothing is wide
  uint8_t mantissa_bits;  ///< of exponential levels: 0, or 2 with 8 bits where codes are wide
  bool wide;       ///< codes are added wide by an owner (reduction_depth == 0), not in code form
  bool rescale;    ///< the owner gives every block of the mean a scale of its own
  bool rotated;    ///< stages rotate values before they encode and after they decode
  uint32_t block;  ///< values per norm, 0: one norm for the call
  uint32_t ranks;  ///< n
  uint32_t steps;  ///< s of linear levels
  uint32_t steps_down;  ///< s of linear levels that reduce_many writes
  uint32_t headroom;    ///< h of exponential levels
};

/** Codes in one 32-bit word. */
GQ_HD constexpr uint32_t codes_per_word(uint32_t bits) { return 32 / bits; }

GQ_HD constexpr uint64_t words_for(uint32_t bits, uint64_t value_count) {
  return (value_count + codes_per_word(bits) - 1) / codes_per_word(bits);
}

/** The largest magnitude a code of `bits` bits can have: 127 or 7. */
GQ_HD constexpr uint32_t code_max(uint32_t bits) { return (1u << (bits - 1)) - 1; }

/** Steps of linear levels when codes of `ranks` ranks are added as integers; 0 if none are left. */
GQ_HD constexpr uint32_t exact_steps(uint32_t bits, uint32_t ranks) {
  return code_max(bits) / ranks;
}

/** The format at work where the longest chain of reductions in code form is `reduction_depth`. */
GQ_HD constexpr Coding coding_of(const Format& format, uint32_t ranks, uint32_t reduction_depth) {
  const bool wide = reduction_depth == 0;
  const bool exact = format.combine == Combine::exact && !wide;
  const bool sum = format.combine == Combine::sum && !wide;
  const bool linear = format.levels == Levels::linear;
  return Coding{
      format.levels,
      format.combine,
      format.rounding,
      format.rounding_down,
      format.bits,
      wide ? format.bits_down : format.bits,
      format.mantissa_bits,
      wide,
      format.rescale,
      format.rotate == Rotate::hadamard,
      format.block,
      ranks,
      !linear ? 0
      : exact ? exact_steps(format.bits, ranks)
              : code_max(format.bits),
      linear ? code_max(format.bits_down) : 0,
      !sum                             ? 0
      : reduction_depth < kHeadroomMax ? reduction_depth
                                       : kHeadroomMax,
  };
}

/** What first_value of a range is a multiple of, and every range's length but a call's last. All
 *  candidates are powers of two, so that the largest is a multiple of the others. */
GQ_HD constexpr uint32_t value_alignment(uint32_t block, bool rotated) {
  const uint32_t least = rotated ? kRotationValues : kValueAlignment;
  return block > least ? block : least;
}

/** Codes of `value_count` values: rotations fill up the last values they mix with zeros. */
GQ_HD constexpr uint64_t code_count(bool rotated, uint64_t value_count) {
  const uint64_t mask = kRotationValuesMin - 1;
  return rotated ? (value_count + mask) & ~mask : value_count;
}

/** Norms of `value_count` values, and scales of their wide sum. */
GQ_HD constexpr uint64_t norm_count(uint32_t block, bool rotated, uint64_t value_count) {
  return block == 0 ? 1 : (code_count(rotated, value_count) + block - 1) / block;
}

/** log2 of a block length; 0 for one norm per call. */
GQ_HD constexpr uint32_t block_log2(uint32_t block) {
  uint32_t log2 = 0;
  while (block > 1) {
    block >>= 1;
    ++log2;
  }
  return log2;
}

/** 4 -> 0, 8 -> 1, 32 -> 2, 16 -> 3: bits as the header writes them. */
GQ_HD constexpr uint32_t bits_field(uint32_t bits) {
  return bits == 4 ? 0 : bits == 8 ? 1 : bits == 32 ? 2 : 3;
}

/** Where the header has the third bit of the levels. */
inline constexpr uint32_t kLevelsHighShift = 29;

/** Every field but the seed in one word (docs/FORMAT.md, section 11). */
GQ_HD constexpr uint32_t fields_word(const Format& f) {
  const uint32_t levels = static_cast<uint32_t>(f.levels);
  return (levels & 3) | levels >> 2 << kLevelsHighShift | bits_field(f.bits) << 2 |
         bits_field(f.bits_down) << 4 | static_cast<uint32_t>(f.q) << 6 |
         static_cast<uint32_t>(f.p) << 8 | block_log2(f.block) << 10 |
         static_cast<uint32_t>(f.rounding) << 15 | static_cast<uint32_t>(f.rounding_down) << 17 |
         static_cast<uint32_t>(f.rotate) << 18 | static_cast<uint32_t>(f.combine) << 19 |
         static_cast<uint32_t>(f.rescale) << 21 | static_cast<uint32_t>(f.mantissa_bits) << 22 |
         static_cast<uint32_t>(f.nonfinite) << 24;
}

}  // namespace gq

#endif
