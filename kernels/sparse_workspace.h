// How a device cuts the work on sparse entries into pieces, and the workspace that its stages need
// for each piece: arithmetic only.
#ifndef GQ_KERNELS_SPARSE_WORKSPACE_H
#define GQ_KERNELS_SPARSE_WORKSPACE_H

#include <stddef.h>
#include <stdint.h>

#include "kernels/codec/portable.h"

namespace gq {

/** Codes that a block looks at together. No tile is as long as a full gap. */
inline constexpr uint32_t kSelectTileCodes = 16384;
/** Entries of which a thread keeps the place of the first, and groups that a block has. */
inline constexpr uint32_t kEntryGroup = 16;
inline constexpr uint32_t kEntryBlockGroups = 256;
/** Values that a block adds together. */
inline constexpr uint32_t kAddTileValues = 4096;

/** What is known of a tile of codes (kernels/cuda/sparse/select.cuh). */
inline constexpr size_t kStretchBytes = 24;

constexpr uint64_t pieces_of(uint64_t count, uint64_t piece) { return (count + piece - 1) / piece; }

/** Workspace of count_entries and select, for one range. */
constexpr size_t select_workspace_bytes(uint64_t value_count) {
  return static_cast<size_t>(pieces_of(value_count, kSelectTileCodes)) * kStretchBytes;
}

/** Workspace of add_sparse, in numbers of 64 bits: for each rank what its blocks of entries span,
 *  where its groups of entries begin, and the group that each tile of values begins in. */
struct AddSparseWorkspace {
  uint64_t blocks;  ///< of one rank's entries
  uint64_t groups;
  uint64_t tiles;
  uint64_t ranks;

  constexpr AddSparseWorkspace(uint32_t rank_count, uint64_t entries_max, uint64_t value_count)
      : blocks(pieces_of(entries_max, kEntryGroup * kEntryBlockGroups)),
        groups(pieces_of(entries_max, kEntryGroup)),
        tiles(pieces_of(value_count, kAddTileValues)),
        ranks(rank_count) {}

  GQ_HD constexpr uint64_t first_group() const { return ranks * blocks; }
  GQ_HD constexpr uint64_t first_start() const { return first_group() + ranks * groups; }
  constexpr size_t size_bytes() const {
    return static_cast<size_t>(first_start() + ranks * tiles) * sizeof(uint64_t);
  }
};

}  // namespace gq

#endif
