// Calls that become part of a graph: their step is counted by the device, and nobody looks at
// headers but the device, at each replay. What a graph uses stays where it is for good.
#include <new>

#include "src/enqueue/stream_calls.h"

namespace gq {

/** No header is sent and nothing is counted yet: a graph may never be replayed. */
Status StreamCalls::capture(Attempt* attempt, const KeptFailure& refusal) {
  GQ_TRY(refusal.again());
  Call& call = attempt->call;
  if (!call.counts_later && call.step_at == nullptr) {
    return fail(GQSGD_UNSUPPORTED,
                "stream %p is being captured, and at is given: each replay would repeat the random "
                "numbers of step %llu; with at = NULL the communicator's counter goes on, with "
                "GQSGD_AT_DEVICE the graph may",
                call.stream, static_cast<unsigned long long>(call.step));
  }
  if (call.schedule_id == GQSGD_SCHEDULE_SPARSE) {
    return fail(
        GQSGD_UNSUPPORTED,
        "stream %p is being captured, and schedule sparse waits on the host for the lengths "
        "of its lists, which no graph can; use schedule direct",
        call.stream);
  }
  GQ_TRY(prepare(attempt));
  if (call.counts_later) count_on_device(&call);
  attempt->goes_on = true;
  attempt->known->captured = true;
  has_captured_ = true;
  GQ_TRY(publish(*attempt, has_one_norm(call)));
  GQ_TRY(agree_on_device(call, attempt->found));
  return carry_out(attempt);
}

void StreamCalls::count_on_device(Call* call) {
  if (!device_counts_) {
    *device_counter() = counter_.load();
    device_counts_ = true;
  }
  call->step_at = desk_.as<const uint32_t>(kStepBytes);
}

Status StreamCalls::not_captured_yet(const Attempt& attempt, const char* why) {
  return fail(
      GQSGD_UNSUPPORTED,
      "stream %p is being captured, and a call of this kind (%s of %llu values) %s: make it "
      "once more before the capture, so that ranks agree on it and memory is there",
      attempt.call.stream, operation_name(attempt.call),
      static_cast<unsigned long long>(attempt.call.value_count), why);
}

Status StreamCalls::keep_arena() {
  try {
    earlier_arenas_.push_back(std::move(arena_));
  } catch (const std::bad_alloc&) {
    return fail(GQSGD_NO_MEMORY, "no memory to keep what graphs use");
  }
  return Status();
}

Status StreamCalls::keep_lists(KnownProgram* known) {
  try {
    known->earlier_lists.push_back(std::move(known->lists));
  } catch (const std::bad_alloc&) {
    return fail(GQSGD_NO_MEMORY, "no memory to keep what graphs use");
  }
  return Status();
}

/** The step of a call outside of a graph, which is the device's number once that counts. */
Status StreamCalls::take_step(Call* call) {
  if (device_counts_) {
    call->step = *device_counter();
    call->step_at = desk_.as<const uint32_t>(kStepBytes);
  } else {
    call->step = counter_.fetch_add(1);
  }
  if (call->step <= UINT32_MAX) return Status();
  return fail(GQSGD_INVALID_ARGUMENT, "step is %llu; the largest is %u",
              static_cast<unsigned long long>(call->step), UINT32_MAX);
}

}  // namespace gq
