// What a schedule makes of a call's error: its mean squared error over that of direct, from format,
// ranks and nodes alone. AUTO uses it (choose.h); how it compares with calls is measured in
// docs/results/nodes.md.
#ifndef GQ_PLAN_ERROR_RATIO_H
#define GQ_PLAN_ERROR_RATIO_H

#include "src/plan/cost/cost_model.h"

namespace gq {

/** By what AUTO may multiply the error of direct. */
inline constexpr double kErrorRatioMax = 1.5;

/** An upper bound of the ratio for values that are a common part and independent noise of any size
 *  on each rank, question.nodes being the nodes of GQSGD_SCHEDULE_HIERARCHICAL. Infinite where no
 *  such bound is known. */
double error_ratio(const CostQuestion& question);

}  // namespace gq

#endif
