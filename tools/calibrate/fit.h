// The constants of messages and memory, and the factors of stages, with which
// the cost model comes closest to measured calls.
#ifndef GQ_TOOLS_CALIBRATE_FIT_H
#define GQ_TOOLS_CALIBRATE_FIT_H

#include <vector>

#include "tools/calibrate/call_times.h"

namespace gq::tools {

/** Changes every number of *constants but cpus and move_ns, from where they stand: stages by two
 * factors, one for float32 words and one for codes. */
void fit(const std::vector<TimedCall>& calls, CostConstants* constants);

/** Mean of |log(predicted / measured)|: 0.1 is 10 % off. Not of its square, so that a call that met
 *  with a busy moment does not decide. */
double misfit(const std::vector<TimedCall>& calls, const CostConstants& constants);

}  // namespace gq::tools

#endif
