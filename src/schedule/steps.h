// Schedules in steps: those that take chunks of the n parts of a call to their owners and back.
// This file computes the place of a round in such a schedule; the schedule defines the moves there.
//
// Phases alternate: an even one handles the chunk of every part, one after the other, an odd one
// only the own part. With a pipeline_depth of 1, step k is phase 0 of chunk k, phase 1 of
// chunk k - 1, phase 2 of chunk k - 2 and so on: a chunk that is touched again is still in a cache,
// and while one phase waits for chunk k, others work on theirs. Where messages travel on a wire the
// pipeline is deeper: messages in flight keep the wire busy while a rank computes, or while it
// waits for a processor.
//
// A phase may wait only for what the phase before it sent of the same chunk. Then no rank waits for
// ever: that was sent pipeline_depth steps earlier, sends do not wait, and so the ranks that are
// furthest behind, by step, can always continue. Messages between two ranks keep one order as well:
// what is received in a step is all that was sent pipeline_depth steps before, in the order of the
// phases.
#ifndef GQ_SCHEDULE_STEPS_H
#define GQ_SCHEDULE_STEPS_H

#include "src/schedule/make.h"

namespace gq {

/** Of a phase that begins in a later step. */
inline constexpr uint64_t kNoChunk = UINT64_MAX;

/** The place of a round: a phase, and one chunk of the part of a rank that is `distance` away. Each
 *  rank handles the others first, the nearest ones first, so that no two begin with the same. */
struct StepPlace {
  uint32_t phase;
  uint64_t chunk;     ///< kNoChunk, or beyond the part's end: then there is nothing to do
  uint32_t distance;  ///< 0: the own part
  uint64_t step;
  uint32_t within;        ///< number of the round in its step
  uint64_t rounds_after;  ///< of the same step
};

uint64_t step_round_count(const Shape& shape, uint32_t phase_count);
StepPlace step_place(const Shape& shape, uint32_t phase_count, uint64_t round);
/** The round there. Where its phase has no chunk yet, no later round of the step has one; where it
 * has none any more, the round says how many after it have none either. */
Round step_round(const Shape& shape, uint32_t owner, const StepPlace& place, uint32_t move_count);

}  // namespace gq

#endif
