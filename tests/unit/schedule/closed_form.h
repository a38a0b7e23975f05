// What each schedule costs, written as formulas and not as moves: the second opinion on the
// schedules, and the numbers of docs/SCHEDULES.md.
#ifndef GQ_TESTS_UNIT_SCHEDULE_CLOSED_FORM_H
#define GQ_TESTS_UNIT_SCHEDULE_CLOSED_FORM_H

#include <string>

#include "src/schedule/move.h"

namespace gq {

struct ClosedForm {
  uint64_t messages_sent;
  uint64_t values_sent;
  uint32_t chain;  ///< longest chain of reductions in code form
  uint64_t norm_values_sent = 0;
};

/** For "ring", "tree", "butterfly", "direct" and "native", with the exchange of norms if the shape
 * has it. */
ClosedForm closed_form(const std::string& schedule, const Shape& shape, uint32_t rank);

}  // namespace gq

#endif
