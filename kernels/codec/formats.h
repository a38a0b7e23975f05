// What a format is: the fields of a quantizer and the numbers that follow from them for an
// allreduce over `ranks` ranks. No rounding and no packing here: see linear.h, exponential.h,
// words.h.
#ifndef GQ_KERNELS_CODEC_FORMATS_H
#define GQ_KERNELS_CODEC_FORMATS_H

#include <stdint.h>

#include "kernels/codec/portable.h"
#include "kernels/codec/rice_planes.h"

namespace gq {

// Enumerator values are those of the header's quantizer fields (docs/FORMAT.md, section 11).
enum class Levels : uint8_t { linear = 0, exponential = 1, none = 2, bf16 = 3, fp16 = 4, rice = 5 };
enum class NormOrder : uint8_t { inf = 0, one = 1, two = 2 };
enum class Rounding : uint8_t { independent = 0, correlated = 1, nearest = 2 };
enum class RoundingDown : uint8_t { random = 0, subtractive = 1 };
enum class Rotate : uint8_t { none = 0, hadamard = 1 };
enum class Combine : uint8_t { exact = 0, sum = 1, average = 2 };
enum class Nonfinite : uint8_t { poison = 0, error = 1 };

/** Codes are fractions of a norm. Otherwise values themselves travel, as floats, or codes of groups
 *  that have steps of their own. */
GQ_HD constexpr bool has_norm(Levels levels) {
  return levels == Levels::linear || levels == Levels::exponential;
}

/** Values travel as floats of 16 bits. */
GQ_HD constexpr bool is_narrow(Levels levels) {
  return levels == Levels::bf16 || levels == Levels::fp16;
}

/** Devices have kernels for them. */
GQ_HD constexpr bool has_device_stages(Levels levels) {
  return has_norm(levels) || levels == Levels::none || levels == Levels::rice;
}

/** The fields of a quantizer: one to one with its specification. */
struct Format {
  Levels levels = Levels::linear;
  uint8_t bits = 8;
  uint8_t bits_down = 8;
  NormOrder q = NormOrder::inf;  ///< norm inside a rank
  NormOrder p = NormOrder::inf;  ///< norm over ranks
  uint32_t block = 0;            ///< values per norm; 0: one norm for the call
  uint8_t mean_half_bits = 0;    ///< of groups: twice the mean bits of a code; else 0
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

/** Adaptive widths (widths.h, groups.h): blocks of one length, in groups that share planes. */
inline constexpr uint32_t kAdaptiveBlock = 128;
inline constexpr uint32_t kGroupBlocks = 256;
inline constexpr uint32_t kWidthMin = 2, kWidthMax = 8;
/** A block of w bits has w planes: one bit of each of its codes. */
inline constexpr uint32_t kPlaneWords = kAdaptiveBlock / 32;

/** Means from 2.5 to 8 bits. */
inline constexpr uint8_t kMeanHalfBitsMin = 5, kMeanHalfBitsMax = 16;

/** What the planes of a group follow from, beside the mean. */
enum class PlaneRule : uint8_t { widths, rice_codes, rice_sums };

/** How codes lie in words: `bits` each or in groups of one length. */
struct Packing {
  uint32_t bits;
  uint32_t mean_half_bits;
  uint32_t group_values;  ///< values from one group to the next; 0 without groups
  uint32_t group_planes;  ///< of each group
  PlaneRule rule = PlaneRule::widths;

  bool operator==(const Packing&) const = default;
};

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
  // Groups; bits and bits_down are then 8, of adaptive widths those of a lane.
  uint32_t mean_half_bits = 0;
  uint32_t group_values = 0;  ///< as in Packing; of one call (groups.h)
  uint32_t group_planes = 0;
  uint32_t group_planes_down = 0;  ///< of Rice codes that are encoded again; else 0

  /** Codes lie in groups: adaptive widths or Rice codes. */
  GQ_HD constexpr bool grouped() const { return mean_half_bits != 0; }
  GQ_HD constexpr bool adaptive() const { return grouped() && levels != Levels::rice; }
  /** In a hierarchy a node's mean is encoded as the result is: where steps of the ranks' norms are
   *  too coarse for it. */
  GQ_HD constexpr bool encodes_nodes_down() const {
    const bool is_finer = rescale || bits_down > bits;
    return wide && levels == Levels::linear && is_finer;
  }
  GQ_HD constexpr Packing packing() const {
    const bool rice = levels == Levels::rice;
    return {bits, mean_half_bits, group_values, group_planes,
            rice ? PlaneRule::rice_codes : PlaneRule::widths};
  }
  GQ_HD constexpr Packing packing_down() const {
    if (bits_down != bits) return Packing{bits_down, 0, 0, 0};
    if (group_planes_down == 0) return packing();
    return {bits, mean_half_bits, group_values, group_planes_down, PlaneRule::rice_sums};
  }
};

/** Codes in one 32-bit word. */
GQ_HD constexpr uint32_t codes_per_word(uint32_t bits) { return 32 / bits; }

GQ_HD constexpr uint64_t words_for(uint32_t bits, uint64_t value_count) {
  return (value_count + codes_per_word(bits) - 1) / codes_per_word(bits);
}

/** Planes that a mean allows for so many blocks. */
GQ_HD constexpr uint64_t planes_of(uint32_t mean_half_bits, uint64_t block_count) {
  return mean_half_bits * block_count / 2;
}

GQ_HD constexpr uint64_t adaptive_blocks(uint64_t value_count) {
  return (value_count + kAdaptiveBlock - 1) / kAdaptiveBlock;
}

/** Planes of one group of so many values that shares them with no other; none without values. */
GQ_HD constexpr uint64_t planes_of(const Packing& packing, uint64_t value_count) {
  const uint64_t blocks = adaptive_blocks(value_count);
  if (packing.rule == PlaneRule::widths) return planes_of(packing.mean_half_bits, blocks);
  if (value_count == 0) return 0;
  return rice_planes(packing.mean_half_bits, blocks, 1, static_cast<uint32_t>(value_count),
                     packing.rule == PlaneRule::rice_sums);
}

/** Words of `value_count` codes from the begin of a call or of a group; a last group that is
 *  shorter has its own planes. */
GQ_HD constexpr uint64_t words_for(const Packing& packing, uint64_t value_count) {
  if (packing.group_values == 0) return words_for(packing.bits, value_count);
  return (value_count / packing.group_values * packing.group_planes +
          planes_of(packing, value_count % packing.group_values)) *
         kPlaneWords;
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
      format.mean_half_bits,
  };
}

/** What first_value of a range is a multiple of, and every range's length but a call's last. All
 *  candidates are powers of two, so that the largest is a multiple of the others. */
GQ_HD constexpr uint32_t value_alignment(uint32_t block, bool rotated) {
  const uint32_t least = rotated ? kRotationValues : kValueAlignment;
  return block > least ? block : least;
}

/** The same of the parts of a call: whole groups where there are any. */
GQ_HD constexpr uint32_t part_alignment(const Coding& coding) {
  return coding.grouped() ? coding.group_values : value_alignment(coding.block, coding.rotated);
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

/** Where the header says that its bits are a mean. */
inline constexpr uint32_t kAdaptiveShift = 31;

/** Both fields of bits; of groups their mean takes the place of both, from 1 on. */
GQ_HD constexpr uint32_t bits_fields(const Format& f) {
  return f.mean_half_bits == 0
             ? bits_field(f.bits) | bits_field(f.bits_down) << 2
             : (f.mean_half_bits + 1u - kMeanHalfBitsMin) | 1u << (kAdaptiveShift - 2);
}

/** Every field but the seed in one word (docs/FORMAT.md, section 11). */
GQ_HD constexpr uint32_t fields_word(const Format& f) {
  const uint32_t levels = static_cast<uint32_t>(f.levels);
  return (levels & 3) | levels >> 2 << kLevelsHighShift | bits_fields(f) << 2 |
         static_cast<uint32_t>(f.q) << 6 |
         static_cast<uint32_t>(f.p) << 8 | block_log2(f.block) << 10 |
         static_cast<uint32_t>(f.rounding) << 15 | static_cast<uint32_t>(f.rounding_down) << 17 |
         static_cast<uint32_t>(f.rotate) << 18 | static_cast<uint32_t>(f.combine) << 19 |
         static_cast<uint32_t>(f.rescale) << 21 | static_cast<uint32_t>(f.mantissa_bits) << 22 |
         static_cast<uint32_t>(f.nonfinite) << 24;
}

}  // namespace gq

#endif
