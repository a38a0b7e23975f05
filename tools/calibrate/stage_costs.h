// Times every stage of every row of the cost constants, alone, through the C ABI.
#ifndef GQ_TOOLS_CALIBRATE_STAGE_COSTS_H
#define GQ_TOOLS_CALIBRATE_STAGE_COSTS_H

#include "src/plan/cost/cost_constants.h"

namespace gq::tools {

/** Fills in constants->stages: `thread_count` threads at once, as ranks work. */
void measure_stages(int thread_count, int run_count, CostConstants* constants);

}  // namespace gq::tools

#endif
