// The way to the owners of parts, the first half of schedules in steps whose parts have owners:
// codes of each part are sent to its owner. Norms of blocks are exchanged in two phases before
// this one and at its beginning: a chunk is quantized where its norms arrive.
#ifndef GQ_SCHEDULE_SCATTER_H
#define GQ_SCHEDULE_SCATTER_H

#include "src/schedule/norms.h"

namespace gq {

// Phases of every such schedule: codes leave; the owner adds those of the own part; what is left to
// do with the others' results. The exchange of norms is left out where there are none.
inline constexpr uint32_t kScatter = kUseNorms;
inline constexpr uint32_t kOwn = 3;
inline constexpr uint32_t kGather = 4;

uint64_t scatter_round_count(const Shape& shape, uint32_t rank);
StepPlace scatter_place(const Shape& shape, uint64_t round);

/** The moves of one round, up to kScatter. Parts are handled from the rank after this one on. */
uint32_t scatter_move_count(const Shape& shape, const StepPlace& place);
Move scatter_move(const Shape& shape, uint32_t rank, const StepPlace& place, uint32_t index);

/** The first moves of the owner: an operand from each of the others, then their sum. */
uint32_t add_move_count(const Shape& shape);
Move add_move(const Shape& shape, uint32_t rank, uint32_t index);

}  // namespace gq

#endif
