// Schedules by name, and what the moves of one rank add up to.
#ifndef GQ_TOOLS_PLAN_SCHEDULES_H
#define GQ_TOOLS_PLAN_SCHEDULES_H

#include "src/plan/plan.h"
#include "src/schedule/move.h"

namespace gq {

/** nullptr for an unknown name. */
const Schedule* schedule_by_name(const char* name);

/** What one rank does in a whole call, added up from its moves. */
struct Totals {
  uint64_t messages_sent = 0;
  uint64_t values_sent = 0;  ///< values whose codes are sent
  uint64_t norms_sent = 0;
  uint64_t reductions = 0;   ///< operand values merged here: n - 1 per value of a reduce_many
  uint32_t largest_hop = 0;  ///< not the longest chain: hops may leave numbers out
};
/** Walks every move. `block`: values that share a norm. */
Totals totals_of(const Schedule& schedule, const Shape& shape, uint32_t rank, uint32_t block = 1);

/** The same for a plan; of long calls only a beginning is walked. */
Totals totals_of(const Plan& plan, uint32_t rank);

}  // namespace gq

#endif
