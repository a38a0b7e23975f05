// The groups of adaptive widths and of Rice codes (docs/FORMAT.md, section 16): blocks that share a
// number of planes.
// A group takes granules from all over the call, so that its norms have the spread that the call's
// have. All groups of a call have as many planes, and owners as many groups, as far as they go
// round: messages have one size whatever the values are. Codes, norms and scales lie in the order
// of groups; values stay where they are.
#ifndef GQ_KERNELS_CODEC_GROUPS_H
#define GQ_KERNELS_CODEC_GROUPS_H

#include "kernels/codec/formats.h"

namespace gq {

/** Consecutive values that stay together: a page of float32. */
inline constexpr uint32_t kGranuleValues = 1024;
inline constexpr uint32_t kGranuleBlocks = kGranuleValues / kAdaptiveBlock;
inline constexpr uint32_t kGroupGranules = kGroupBlocks / kGranuleBlocks;
/** Calls too short for groups of so many granules have fewer groups than owners. */
inline constexpr uint32_t kGroupGranulesMin = 8;

GQ_HD constexpr uint64_t divided_up(uint64_t a, uint64_t b) { return (a + b - 1) / b; }

/** The granules of a group lie group_stride() values apart in the call: granule k of group g is
 *  granule g + k * group_count. In a slice (reduce-scatter, allgather) they follow each other. */
struct Groups {
  uint64_t value_count = 0;  ///< of the call
  uint64_t group_count = 0;
  uint32_t group_values = 0;  ///< from one group to the next in the order of groups
  uint32_t group_planes = 0;
  bool interleaved = false;
  uint32_t group_planes_down = 0;  ///< of the sums of Rice codes; else 0

  /** Values in the order of groups, with places for those that a group lacks. */
  GQ_HD constexpr uint64_t padded_count() const { return group_count * group_values; }
  GQ_HD constexpr uint64_t stride_values() const {
    return interleaved ? group_count * kGranuleValues : kGranuleValues;
  }
  GQ_HD constexpr uint64_t first_value(uint64_t group) const {
    return interleaved ? group * kGranuleValues : group * group_values;
  }
  /** Values that a group has; of a slice, those that are below its end. */
  GQ_HD constexpr uint32_t value_count_of(uint64_t group, uint64_t slice_end) const {
    if (!interleaved) {
      const uint64_t left = slice_end - group * group_values;
      return left < group_values ? static_cast<uint32_t>(left) : group_values;
    }
    const uint64_t granules = divided_up(value_count, kGranuleValues);
    const uint64_t others = divided_up(granules - group, group_count) - 1;  // but for its last
    const uint64_t left = value_count - (group + others * group_count) * kGranuleValues;
    return static_cast<uint32_t>(others * kGranuleValues +
                                 (left < kGranuleValues ? left : kGranuleValues));
  }
  /** Planes of a group with so many blocks: one of a slice that is shorter has its own. */
  GQ_HD constexpr uint32_t planes_of_group(uint32_t block_count, uint32_t mean_half_bits) const {
    const bool is_whole = interleaved || block_count * kAdaptiveBlock == group_values;
    return is_whole ? group_planes : static_cast<uint32_t>(planes_of(mean_half_bits, block_count));
  }
};

/** A segment of a call in the caller's memory, where devices look for the values of a group. */
struct SegmentPlace {
  uint64_t first_value;
  uint64_t value_count;
  const void* send;
  void* recv;
};

/** Those of an allreduce over `ranks` ranks. */
GQ_HD constexpr Groups interleaved_groups(uint64_t value_count, uint32_t mean_half_bits,
                                          uint32_t ranks) {
  if (value_count == 0) return Groups{0, 0, kGranuleValues, 0, true};
  const uint64_t granules = divided_up(value_count, kGranuleValues);
  const uint64_t balanced = ranks * divided_up(granules, uint64_t{kGroupGranules} * ranks);
  const uint64_t most = divided_up(granules, kGroupGranulesMin);
  const uint64_t count = balanced < most ? balanced : most;
  const uint64_t planes = planes_of(mean_half_bits, adaptive_blocks(value_count)) / count;
  return Groups{value_count, count,
                static_cast<uint32_t>(divided_up(granules, count)) * kGranuleValues,
                static_cast<uint32_t>(planes), true};
}

/** Those of a slice: consecutive blocks. */
GQ_HD constexpr Groups consecutive_groups(uint64_t value_count, uint32_t mean_half_bits) {
  constexpr uint32_t kValues = kGroupBlocks * kAdaptiveBlock;
  return Groups{value_count, divided_up(value_count, kValues), kValues,
                static_cast<uint32_t>(planes_of(mean_half_bits, kGroupBlocks)), false};
}

/** The same of Rice codes, whose sums have planes of their own. */
GQ_HD constexpr Groups interleaved_rice_groups(uint64_t value_count, uint32_t mean_half_bits,
                                               uint32_t ranks) {
  Groups groups = interleaved_groups(value_count, mean_half_bits, ranks);
  if (value_count == 0) return groups;
  const uint64_t blocks = adaptive_blocks(value_count);
  const bool is_short = value_count < groups.group_values;
  const uint32_t values = is_short ? static_cast<uint32_t>(value_count) : groups.group_values;
  groups.group_planes = rice_planes(mean_half_bits, blocks, groups.group_count, values, false);
  groups.group_planes_down = rice_planes(mean_half_bits, blocks, groups.group_count, values, true);
  return groups;
}

/** Those of a slice, whose codes are not encoded again. */
GQ_HD constexpr Groups consecutive_rice_groups(uint64_t value_count, uint32_t mean_half_bits) {
  Groups groups = consecutive_groups(value_count, mean_half_bits);
  groups.group_planes = rice_planes(mean_half_bits, kGroupBlocks, 1, groups.group_values, false);
  return groups;
}

/** Those of a coding that has groups. */
GQ_HD constexpr Groups interleaved_groups(uint64_t value_count, const Coding& coding) {
  return coding.adaptive()
             ? interleaved_groups(value_count, coding.mean_half_bits, coding.ranks)
             : interleaved_rice_groups(value_count, coding.mean_half_bits, coding.ranks);
}
GQ_HD constexpr Groups consecutive_groups(uint64_t value_count, const Coding& coding) {
  return coding.adaptive() ? consecutive_groups(value_count, coding.mean_half_bits)
                           : consecutive_rice_groups(value_count, coding.mean_half_bits);
}

}  // namespace gq

#endif
