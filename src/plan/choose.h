// What schedule AUTO stands for: the cheapest of those that go with the format, or a call that
// sends floats in place of codes where that is cheaper still. Decided from agreed inputs alone.
#ifndef GQ_PLAN_CHOOSE_H
#define GQ_PLAN_CHOOSE_H

#include "src/plan/cost/cost_model.h"

namespace gq {

/** What goes on the way. */
enum class SentAs : uint8_t { codes, float32, bf16 };

struct Choice {
  int32_t schedule_id;
  SentAs sent_as;
};

/** What AUTO is without constants: two steps, one rounding for any number of ranks. */
inline constexpr Choice kUnmeasuredChoice{GQSGD_SCHEDULE_DIRECT, SentAs::codes};

/** The format whose bits a call has that asks for `format`. */
Format sent_format(const Format& format, SentAs sent_as);
inline Format uncompressed(const Format& format) { return sent_format(format, SentAs::float32); }

/** The cheapest choice where bytes on links take longer than in the constants by traffic_factor, or
 * one within 3 % of it that makes less noise; in one memory codes have to be 10 % cheaper. And its
 * time by the constants. question.schedule_id is not looked at. Native counts where the transport
 * adds and the constants know what that takes, hierarchical where nodes are known and make a
 * hierarchy. Over NCCL the candidates are direct, and native, whose floats take the place of codes.
 * Left out: whatever multiplies direct's error by 1.5 or more (error_ratio.h); sparse,
 * whose time depends on values; floats in place of codes for nonfinite=error, which needs a norm;
 * and fp16 in place of codes, which may overflow. */
Status choose(const CostQuestion& question, const CostConstants& constants,
              bool may_be_uncompressed, Choice* choice, double* time_ns);

}  // namespace gq

#endif
