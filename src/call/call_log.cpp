// What a line says of a call: its arguments, the schedule with the reason for it, and its bytes.
#include "src/call/call_log.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "src/call/auto_schedule.h"
#include "src/call/ratio.h"
#include "src/support/clock.h"
#include "src/support/fnv1a.h"
#include "src/support/log.h"

namespace gq {
namespace {

/** Over what a user would call another kind of call; not the seed, which may be a step. */
uint64_t digest_of(const Call& call) {
  const uint64_t words[] = {static_cast<uint64_t>(call.operation),
                            fields_word(call.format),
                            static_cast<uint64_t>(call.dtype),
                            static_cast<uint64_t>(call.op),
                            static_cast<uint64_t>(call.schedule_id),
                            call.value_count,
                            call.segments == nullptr ? 0 : call.segments->hash,
                            call.stream == nullptr ? uint64_t{0} : 1};
  Fnv1a64 digest;
  for (const uint64_t word : words) digest.add_number(word);
  return digest.hash();
}

/** "allreduce of 1000 float32 (mean)". */
struct CallDescription {
  char text[96];

  explicit CallDescription(const Call& call) {
    const bool adds = call.operation != Operation::allgather;
    char tensors[40] = "";
    if (call.operation == Operation::allreduce_many && call.segments != nullptr) {
      snprintf(tensors, sizeof tensors, " in %zu tensors", call.segments->parts.size());
    }
    snprintf(text, sizeof text, "%s of %" PRIu64 " %s%s%s", operation_name(call),
             call.given_value_count(),
             name_in(names_of(kDtypeList), static_cast<size_t>(call.dtype)), tensors,
             !adds                   ? ""
             : call.op == GQSGD_MEAN ? " (mean)"
                                     : " (sum)");
  }
};

bool is_on_stream(const Endpoint& endpoint, const Call& call) {
  return call.stream != nullptr || endpoint.has_streams_only();
}

/** Why the call has its schedule; "" where it has the one that was asked for. */
struct ScheduleReason {
  char text[112] = "";

  ScheduleReason(const Endpoint& endpoint, const Call& asked, const Call& executed,
                 const char* schedule) {
    const Names names = names_of(kScheduleList);
    const char* const asked_name = name_in(names, static_cast<size_t>(asked.schedule_id));
    if (has_one_schedule(asked.operation) || strcmp(asked_name, schedule) == 0) return;
    if (asked.schedule_id != GQSGD_SCHEDULE_AUTO) {
      snprintf(text, sizeof text, " (%s, where nodes make no hierarchy)", asked_name);
    } else if (asked.stream != nullptr && !endpoint.has_streams_only()) {
      snprintf(text, sizeof text, " (auto, which is direct on these streams)");
    } else if (!endpoint.choice.has_costs()) {
      snprintf(text, sizeof text, " (auto: no costs given)");
    } else {
      predict(endpoint, asked, executed);
    }
  }

 private:
  static const char* name_of(SentAs sent_as) {
    if (sent_as == SentAs::codes) return "";
    return sent_as == SentAs::bf16 ? "as bf16, " : "uncompressed, ";
  }

  void predict(const Endpoint& endpoint, const Call& asked, const Call& executed) {
    AutoReason predicted;
    if (!endpoint.choice.explain(cost_question(endpoint, asked), &predicted).ok()) return;
    const bool has_codes = executed.sent_as == SentAs::codes;
    const bool is_direct = executed.schedule_id == GQSGD_SCHEDULE_DIRECT && has_codes;
    char against[48] = "";
    if (!is_direct) {
      snprintf(against, sizeof against, " against direct %" PRIu64 " us",
               predicted.direct_ns / 1000);
    }
    snprintf(text, sizeof text, " (auto: %spredicted %" PRIu64 " us%s)", name_of(executed.sent_as),
             predicted.chosen_ns / 1000, against);
  }
};

}  // namespace

void CallLog::begin(const Endpoint& endpoint, const Call& call) {
  is_on_ = is_logged(GQSGD_LOG_INFO) && call.operation != Operation::measure_costs;
  if (!is_on_) return;
  asked_ = call;
  before_ = endpoint.transport->counters();
  begun_ns_ = monotonic_ns();
}

void CallLog::end(Endpoint* endpoint, const Call& executed, const char* schedule, Status status) {
  if (!is_on_) return;
  const uint64_t ended_ns = monotonic_ns();
  if (status.ok()) log_kind(endpoint, executed, schedule);
  if (!is_logged(GQSGD_LOG_TRACE)) return;
  char step[64] = "step on the device";
  if (executed.step_at == nullptr) {
    snprintf(step, sizeof step, "step %" PRIu64 " index %" PRIu64, executed.step, executed.index);
  }
  const uint64_t tenths_us = (ended_ns - begun_ns_) / 100;
  log_line(GQSGD_LOG_TRACE, endpoint->subject,
           "call %" PRIu64 ", %s, %s: %s after %" PRIu64 ".%" PRIu64 " us%s",
           static_cast<uint64_t>(endpoint->calls), CallDescription(asked_).text, step,
           gqsgd_status_name(status.code()), tenths_us / 10, tenths_us % 10,
           is_on_stream(*endpoint, asked_) ? " on the host" : "");
}

void CallLog::log_kind(Endpoint* endpoint, const Call& executed, const char* schedule) const {
  const CallKinds::Seen seen = endpoint->logged_kinds.add(digest_of(asked_));
  if (seen == CallKinds::Seen::before) return;
  if (seen == CallKinds::Seen::never_and_full) {
    log_line(GQSGD_LOG_INFO, endpoint->subject,
             "%zu kinds of calls have been logged; more are not logged", CallKinds::kKindsMax);
    return;
  }
  char spec[256] = "";
  if (endpoint->write_spec != nullptr) endpoint->write_spec(asked_.format, spec, sizeof spec);
  const TransportCounters now = endpoint->transport->counters();
  const uint64_t sent = now.payload_bytes_sent - before_.payload_bytes_sent;
  const uint64_t plain = now.uncompressed_bytes_sent - before_.uncompressed_bytes_sent;
  log_line(GQSGD_LOG_INFO, endpoint->subject,
           "%s%s, %s, schedule %s%s: this rank sends %" PRIu64 " bytes, %" PRIu64
           " as float32, ratio %s",
           CallDescription(asked_).text, is_on_stream(*endpoint, asked_) ? " on a stream" : "",
           spec, schedule, ScheduleReason(*endpoint, asked_, executed, schedule).text, sent, plain,
           Ratio(plain, sent).text);
}

}  // namespace gq
