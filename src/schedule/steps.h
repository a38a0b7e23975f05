// Schedules in steps: those that take chunks of the n parts of a call to their owners and back.
// This file computes the place of a round in such a schedule; the schedule defines the moves there.
//
// Phases alternate: an even one handles the chunk of every part, one after the other, an odd one
// only the own part. With a pipeline depth (`lag`) of 1, step k is phase 0 of chunk k, phase 1 of
// chunk k - 1, phase 2 of chunk k - 2 and so on: a chunk that is touched again is still in a cache,
// and while one phase waits for chunk k, others work on theirs. Where messages travel on a wire the
// pipeline is deeper: messages in flight keep the wire busy while a rank computes, or while it
// waits for a processor.
//
// A phase may wait only for what the phase before it sent of the same chunk. Then no rank waits for
// ever: that was sent `lag` steps earlier, sends do not wait, and so the ranks that are furthest
// behind, by step, can always continue. Messages between two ranks keep one order as well: what is
// received in a step is all that was sent `lag` steps before, in the order of the phases.
#ifndef GQ_SCHEDULE_STEPS_H
#define GQ_SCHEDULE_STEPS_H

#include "src/schedule/make.h"

namespace gq {

/** The place of a round: a phase, and one chunk of the part of a rank that is `distance` away. Each
 *  rank handles the others first, the nearest ones first, so that no two begin with the same. */
struct StepPlace {
  uint32_t phase;
  uint64_t chunk;     ///< may lie beyond the part's end: then there is nothing to do
  uint32_t distance;  ///< 0: the own part
};

uint64_t step_round_count(const Shape& shape, uint32_t phase_count);
StepPlace step_place(const Shape& shape, uint32_t phase_count, uint64_t round);
Part step_chunk(const Shape& shape, uint32_t owner, const StepPlace& place);

}  // namespace gq

#endif
