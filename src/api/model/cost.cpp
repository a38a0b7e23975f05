// gqsgd_predict_time: the cost model for callers.
#include "include/gqsgd_model.h"
#include "src/api/call_scope.h"
#include "src/api/check.h"
#include "src/api/communicator/options_string.h"
#include "src/api/config.h"
#include "src/api/quantizer/quantizer.h"
#include "src/plan/choose.h"

namespace gq {
namespace {

Status predict(gqsgd_quantizer quantizer, int32_t schedule, int32_t rank_count, size_t count,
               int32_t dtype, const char* text, double* time_ns) {
  if (time_ns == nullptr) return fail(GQSGD_INVALID_ARGUMENT, "the result's address is NULL");
  CostQuestion question{};
  GQ_TRY(find_format(quantizer, &question.format));
  GQ_TRY(check_size(rank_count));
  GQ_TRY(check_dtype(dtype));
  GQ_TRY(check_count("count", count));
  CostConstants constants = built_in_costs();
  if (text != nullptr) GQ_TRY(parse_costs(text, &constants));
  question.schedule_id = schedule;
  question.ranks = static_cast<uint32_t>(rank_count);
  question.value_count = count;
  question.chunk_value_count = default_chunk_value_count(false, question.ranks);
  question.dtype = dtype;
  question.transport_adds = true;  // constants that know of it are those of one that does
  Choice choice = kUnmeasuredChoice;
  if (schedule != GQSGD_SCHEDULE_AUTO) return predict_time(question, constants, time_ns);
  if (text != nullptr) return choose(question, constants, true, &choice, time_ns);
  question.schedule_id = choice.schedule_id;
  return predict_time(question, constants, time_ns);
}

}  // namespace
}  // namespace gq

gqsgd_status gqsgd_predict_time(gqsgd_quantizer quantizer, gqsgd_schedule schedule,
                                int32_t rank_count, size_t count, gqsgd_dtype dtype,
                                const char* constants, double* time_ns) {
  return gq::in_call_scope([&] {
    return gq::predict(quantizer, gq::number_of(schedule), rank_count, count, gq::number_of(dtype),
                       constants, time_ns);
  });
}
