// Sparse entries, codes other than zero (docs/FORMAT.md, section 14): the layout of an entry, and
// the value of a sum of entries.
#ifndef GQ_KERNELS_CODEC_SPARSE_H
#define GQ_KERNELS_CODEC_SPARSE_H

#include "kernels/codec/exponential.h"
#include "kernels/codec/formats.h"
#include "kernels/codec/linear.h"

namespace gq {

/** An entry is gap << 8 | lane, and gaps have this many bits. */
inline constexpr uint32_t kEntryGapBits = 24;
inline constexpr uint32_t kEntryLaneBits = 32 - kEntryGapBits;

GQ_HD constexpr uint32_t entry_of(uint64_t gap, uint32_t lane) {
  return static_cast<uint32_t>(gap) << kEntryLaneBits | lane;
}
GQ_HD constexpr uint32_t gap_of_entry(uint32_t entry) { return entry >> kEntryLaneBits; }

/** A byte holds a 4-bit lane; bits above it are ignored. */
GQ_HD constexpr uint32_t lane_of_entry(uint32_t entry, uint32_t bits) {
  return entry & ((1u << bits) - 1);
}

/** The lane of a code that is zero. */
GQ_HD constexpr uint32_t zero_lane(const Coding& coding) {
  return coding.levels == Levels::linear ? coding.steps : 0;
}

/** Zero codes before an entry that do not fit into its gap: each filler takes 2^24 of them, the
 *  last one as its own code. */
GQ_HD constexpr uint64_t fillers_of(uint64_t skipped) { return skipped >> kEntryGapBits; }

GQ_HD constexpr uint32_t filler_entry(uint32_t zero) {
  return entry_of((1u << kEntryGapBits) - 1, zero);
}

/** What 1 is in the result, of sums that are at most `ranks` norms, in steps of linear levels or in
 *  norms of exponential ones. */
GQ_HD float sparse_step(const Coding& coding, float scale, bool mean) {
  const uint32_t top = coding.levels == Levels::linear ? coding.steps : 1;
  return step_for(scale, mean ? 1 : coding.ranks,
                  static_cast<float>(static_cast<uint64_t>(coding.ranks) * top));
}

}  // namespace gq

#endif
