// The theory part of the C ABI: what is promised before anything runs.
#include "src/api/check.h"
#include "src/api/options_text.h"
#include "src/api/quantizer.h"
#include "src/plan/plan.h"
#include "src/theory/bounds.h"

namespace gq {
namespace {

struct Question {
  Format format;
  uint32_t ranks = 0;
  uint32_t combines = 0;
  uint32_t encodes = 1;
  bool sends_lists = false;
};

/** Schedule and format are checked as an allreduce would check them. */
Status read_question(gqsgd_quantizer quantizer, int32_t rank_count, size_t value_count,
                     int32_t schedule, const double* answer, Question* question) {
  if (answer == nullptr) return fail(GQSGD_INVALID_ARGUMENT, "the result's address is NULL");
  GQ_TRY(find_format(quantizer, &question->format));
  GQ_TRY(check_size(rank_count));
  GQ_TRY(check_value_count(value_count));
  question->ranks = static_cast<uint32_t>(rank_count);
  const PlanRequest request{&question->format,       schedule, question->ranks, value_count,
                            kChunkValueCountDefault, true};
  Plan plan;
  GQ_TRY(make_plan(request, &plan));
  question->combines = plan.schedule->combines(question->ranks);
  question->encodes = plan.schedule_id == GQSGD_SCHEDULE_HIERARCHICAL ? 2 : 1;
  question->sends_lists = plan.schedule->sends_lists;
  return Status();
}

}  // namespace
}  // namespace gq

gqsgd_status gqsgd_variance_bound(gqsgd_quantizer quantizer, int32_t rank_count, size_t value_count,
                                  int32_t schedule, double* theta) {
  gq::Question question;
  const gq::Status status =
      gq::read_question(quantizer, rank_count, value_count, schedule, theta, &question);
  if (!status.ok()) return status.code();
  // Of schedule sparse too: it goes on as direct where lists are too long, and lists, which nobody
  // encodes again, have no larger error.
  return gq::variance_bound(question.format, question.ranks, value_count, question.combines, theta,
                            question.encodes)
      .code();
}

gqsgd_status gqsgd_sparsity_bound(gqsgd_quantizer quantizer, int32_t rank_count, size_t value_count,
                                  int32_t schedule, double* nonzero_count) {
  gq::Question question;
  const gq::Status status =
      gq::read_question(quantizer, rank_count, value_count, schedule, nonzero_count, &question);
  if (!status.ok()) return status.code();
  return gq::sparsity_bound(question.format, question.ranks, value_count, question.combines,
                            nonzero_count)
      .code();
}

gqsgd_status gqsgd_depth_factor(gqsgd_quantizer quantizer, int32_t rank_count, int32_t schedule,
                                double* factor) {
  gq::Question question;
  const gq::Status status =
      gq::read_question(quantizer, rank_count, 0, schedule, factor, &question);
  if (status.ok() && question.sends_lists) {
    *factor = 1;  // sums of lists are exact
  } else if (status.ok()) {
    *factor = gq::depth_factor(question.format, question.combines, question.encodes);
  }
  return status.code();
}
