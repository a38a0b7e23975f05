// What schedule AUTO stands for: the cheapest of those that go with the format, or the call without
// compression where that is cheaper still. Decided from agreed inputs alone.
#ifndef GQ_PLAN_CHOOSE_H
#define GQ_PLAN_CHOOSE_H

#include "src/plan/cost/cost_model.h"

namespace gq {

struct Choice {
  int32_t schedule_id;
  bool uncompressed;  ///< float32 words go instead of codes
};

/** What AUTO is without constants: two steps, one rounding for any number of ranks. */
inline constexpr Choice kUnmeasuredChoice{GQSGD_SCHEDULE_DIRECT, false};

/** The format whose bits an uncompressed call of `format` has. */
Format uncompressed(const Format& format);

/** The cheapest choice where bytes on links take longer than in the constants by traffic_factor, or
 * one within 3 % of it that makes less noise; in one memory codes have to be 10 % cheaper. And its
 * time by the constants. question.schedule_id is not looked at. Native counts where the transport
 * adds and the constants know what that takes, hierarchical where nodes are known and make a
 * hierarchy. Left out: whatever multiplies direct's error by 1.5 or more (error_ratio.h); sparse,
 * whose time depends on values; and no compression for nonfinite=error, which needs a norm. */
Status choose(const CostQuestion& question, const CostConstants& constants,
              bool may_be_uncompressed, Choice* choice, double* time_ns);

}  // namespace gq

#endif
