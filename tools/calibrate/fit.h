// The constants of messages and memory, and the factors of stages, with which
// the cost model comes closest to measured calls.
#ifndef GQ_TOOLS_CALIBRATE_FIT_H
#define GQ_TOOLS_CALIBRATE_FIT_H

#include <vector>

#include "tools/calibrate/call_times.h"

namespace gq::tools {

/** Changes every number of *constants but cpus and move_ns: stages by a factor for each kind of
 *  levels, among them none; messages, links and steps from places of its own. What is 0 there, as
 *  bursts where ranks read in place, stays so. */
void fit(const std::vector<TimedCall>& calls, CostConstants* constants);

/** Mean of |log(predicted / measured)|: 0.1 is 10 % off. Not of its square, so that a call that met
 *  with a busy moment does not decide. */
double misfit(const std::vector<TimedCall>& calls, const CostConstants& constants);

}  // namespace gq::tools

#endif
