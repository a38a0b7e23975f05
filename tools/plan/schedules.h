// Schedules by name, and what the moves of one rank add up to.
#ifndef GQ_TOOLS_PLAN_SCHEDULES_H
#define GQ_TOOLS_PLAN_SCHEDULES_H

#include "src/schedule/move.h"

namespace gq {

/** nullptr for an unknown name. */
const Schedule* schedule_by_name(const char* name);

/** What one rank does in a whole call, added up from its moves. */
struct Totals {
  uint64_t messages_sent = 0;
  uint64_t values_sent = 0;       ///< values whose codes are sent
  uint64_t norm_values_sent = 0;  ///< values whose norms are sent
  uint64_t reductions = 0;        ///< operand values merged here: n - 1 per value of a reduce_many
  uint32_t largest_hop = 0;       ///< not the longest chain: hops may leave numbers out
};
Totals totals_of(const Schedule& schedule, const Shape& shape, uint32_t rank);

}  // namespace gq

#endif
