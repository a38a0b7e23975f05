// One definition for calls on host memory and on streams.
#include "src/call/auto_schedule.h"

#include "src/call/virtual/short_calls.h"

namespace gq {

CostQuestion cost_question(const Endpoint& endpoint, const Call& call) {
  const bool on_device = endpoint.has_streams_only();
  CostQuestion question{call.format,
                        GQSGD_SCHEDULE_AUTO,
                        endpoint.size(),
                        call.value_count,
                        endpoint.chunk_value_count,
                        endpoint.reads_in_place(),
                        call.dtype,
                        &endpoint.nodes};
  question.transport_adds = on_device || endpoint.host->sums() != nullptr;
  question.on_device = on_device;
  question.nccl_blocks = on_device && endpoint.transport->operations_block();
  question.is_short = !on_device && ShortCalls::may_take(endpoint, call);
  return question;
}

Status resolve_auto(Endpoint& endpoint, Call* call) {
  if (call->schedule_id != GQSGD_SCHEDULE_AUTO || has_one_schedule(call->operation)) {
    return Status();
  }
  Choice choice = kUnmeasuredChoice;
  const bool is_modelled = call->stream == nullptr || endpoint.has_streams_only();
  if (is_modelled && endpoint.choice.has_costs()) {
    GQ_TRY(endpoint.choice.take(cost_question(endpoint, *call), &choice));
  }
  call->schedule_id = choice.schedule_id;
  call->sent_as = choice.sent_as;
  if (choice.sent_as == SentAs::codes) return Status();
  call->asked_fields = fields_word(call->format);
  call->format = sent_format(call->format, choice.sent_as);
  return Status();
}

}  // namespace gq
