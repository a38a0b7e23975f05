// The functions of the C ABI that return bounds, before anything runs.
#include "include/gqsgd_model.h"
#include "src/api/call_scope.h"
#include "src/api/check.h"
#include "src/api/communicator/options_string.h"
#include "src/api/config.h"
#include "src/api/quantizer/quantizer.h"
#include "src/plan/plan.h"
#include "src/theory/bounds.h"

namespace gq {
namespace {

struct Question {
  Format format;
  uint32_t ranks = 0;
  uint32_t reduction_depth = 0;
  uint32_t encodes = 1;
  bool sends_lists = false;
};

/** Schedule and format are checked as an allreduce would check them. */
Status read_question(gqsgd_quantizer quantizer, int32_t rank_count, size_t count, int32_t schedule,
                     const double* answer, Question* question) {
  if (answer == nullptr) return fail(GQSGD_INVALID_ARGUMENT, "the result's address is NULL");
  GQ_TRY(find_format(quantizer, &question->format));
  GQ_TRY(check_size(rank_count));
  GQ_TRY(check_count("count", count));
  question->ranks = static_cast<uint32_t>(rank_count);
  const PlanRequest request{&question->format,       schedule, question->ranks, count,
                            kChunkValueCountDefault, true};
  Plan plan;
  GQ_TRY(make_plan(request, &plan));
  question->reduction_depth = plan.schedule->reduction_depth(question->ranks);
  question->encodes = plan.schedule_id == GQSGD_SCHEDULE_HIERARCHICAL ? 2 : 1;
  question->sends_lists = plan.schedule->sends_lists;
  return Status();
}

Status variance_of(gqsgd_quantizer quantizer, int32_t rank_count, size_t count, int32_t schedule,
                   double* theta) {
  Question asked;
  GQ_TRY(read_question(quantizer, rank_count, count, schedule, theta, &asked));
  // Of schedule sparse too: it continues as direct where there are too many entries. Sparse
  // entries, which no rank encodes again, have no larger error.
  return variance_bound(asked.format, asked.ranks, count, asked.reduction_depth, theta,
                        asked.encodes);
}

Status sparsity_of(gqsgd_quantizer quantizer, int32_t rank_count, size_t count, int32_t schedule,
                   double* nonzero_count) {
  Question asked;
  GQ_TRY(read_question(quantizer, rank_count, count, schedule, nonzero_count, &asked));
  return sparsity_bound(asked.format, asked.ranks, count, asked.reduction_depth, nonzero_count);
}

Status depth_factor_of(gqsgd_quantizer quantizer, int32_t rank_count, int32_t schedule,
                       double* factor) {
  Question asked;
  GQ_TRY(read_question(quantizer, rank_count, 0, schedule, factor, &asked));
  // Sums of sparse entries are exact.
  *factor =
      asked.sends_lists ? 1 : depth_factor(asked.format, asked.reduction_depth, asked.encodes);
  return Status();
}

}  // namespace
}  // namespace gq

gqsgd_status gqsgd_variance_bound(gqsgd_quantizer quantizer, int32_t rank_count, size_t count,
                                  gqsgd_schedule schedule, double* theta) {
  return gq::in_call_scope([&] {
    return gq::variance_of(quantizer, rank_count, count, gq::number_of(schedule), theta);
  });
}

gqsgd_status gqsgd_sparsity_bound(gqsgd_quantizer quantizer, int32_t rank_count, size_t count,
                                  gqsgd_schedule schedule, double* nonzero_count) {
  return gq::in_call_scope([&] {
    return gq::sparsity_of(quantizer, rank_count, count, gq::number_of(schedule), nonzero_count);
  });
}

gqsgd_status gqsgd_depth_factor(gqsgd_quantizer quantizer, int32_t rank_count,
                                gqsgd_schedule schedule, double* factor) {
  return gq::in_call_scope(
      [&] { return gq::depth_factor_of(quantizer, rank_count, gq::number_of(schedule), factor); });
}
