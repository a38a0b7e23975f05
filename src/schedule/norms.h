// The exchange of block norms: every rank sends the norms of each part to its owner, which merges
// them and sends the global ones to all.
#ifndef GQ_SCHEDULE_NORMS_H
#define GQ_SCHEDULE_NORMS_H

#include "src/schedule/steps.h"

namespace gq {

/** The exchange by itself, for schedules that do not weave it in. No caller can select it. */
extern const Schedule kNormExchange;

// Phases of the exchange, the first ones of any schedule that weaves it in: norms of each part are
// taken and sent to its owner; those of the own part are merged and sent back to all; global norms
// of each part arrive.
inline constexpr uint32_t kTakeNorms = 0;
inline constexpr uint32_t kMergeNorms = 1;
inline constexpr uint32_t kUseNorms = 2;

/** The moves of one round of the exchange. Parts are handled from the rank after this one on. */
uint32_t norm_move_count(const Shape& shape, const StepPlace& place);
Move norm_move(const Shape& shape, uint32_t rank, const StepPlace& place, uint32_t index);

}  // namespace gq

#endif
