// What becomes of calls that a failure has interrupted, from the reports of those who go on.
#ifndef GQ_SURVIVORS_CALL_FATE_H
#define GQ_SURVIVORS_CALL_FATE_H

#include <vector>

#include "src/survivors/register.h"

namespace gq {

/** Fills step, ended, fate, source and costs_differ of a proposal with `members`; reports are those
 *  of all ranks of the old group. */
void decide_calls(const std::vector<CallReport>& reports, const RankSet& members,
                  Proposal* proposal);

}  // namespace gq

#endif
