// Which preset pays for a training step, by the cost model.
#ifndef GQ_TOOLS_PLAN_ADVICE_H
#define GQ_TOOLS_PLAN_ADVICE_H

#include <cstdint>
#include <vector>

#include "src/plan/cost/cost_model.h"
#include "tools/plan/options.h"

namespace gq::tools {

/** What DistributedDataParallel averages by one call. */
struct Bucket {
  uint64_t value_count;
  double call_ms = 0;
};

/** PyTorch's buckets of a network, in the order in which they are ready: the first of 1 MiB, so
 *  that communication begins early, then 25 MiB each, and what is left. */
std::vector<Bucket> buckets_of(uint64_t value_count);

/** Milliseconds of a step whose gradients are ready evenly over the last two thirds of its compute
 *  (a backward pass takes twice as long as a forward pass), in buckets that are averaged one after
 *  the other. */
double step_ms(double compute_ms, const std::vector<Bucket>& buckets);

/** Prints what the advice assumes, a table of presets and the one to take. `question` is that of
 *  `options`; its format is not looked at. */
Status print_advice(const PlanOptions& options, const CostQuestion& question,
                    const CostConstants& constants);

}  // namespace gq::tools

#endif
