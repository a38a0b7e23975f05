// Which preset pays for a training step, by the cost model.
#ifndef GQ_TOOLS_PLAN_ADVICE_H
#define GQ_TOOLS_PLAN_ADVICE_H

#include <cstdint>
#include <vector>

#include "src/plan/cost/cost_model.h"

namespace gq::tools {

/** Milliseconds of a step whose gradients are ready evenly over the last two thirds of its compute
 *  (a backward pass takes twice as long as a forward pass), in `bucket_ms.size()` buckets that are
 *  averaged one after the other, each in bucket_ms[k]. */
double step_ms(double compute_ms, const std::vector<double>& bucket_ms);

/** Prints a table of presets and the one to take. `question` has ranks and weights; its format is
 * not looked at. */
Status print_advice(const CostQuestion& question, const CostConstants& constants,
                    double compute_ms);

}  // namespace gq::tools

#endif
