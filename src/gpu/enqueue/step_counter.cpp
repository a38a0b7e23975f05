// Who counts a call, and where its stages find the step.
#include "src/gpu/enqueue/step_counter.h"

namespace gq {

Status StepCounter::take(Call* call) {
  uint64_t step = 0;
  if (on_device_) {
    step = device_counter().load();
    call->step_at = scratch_.step();
  } else {
    step = call->step = host_.fetch_add(1);
  }
  if (step <= UINT32_MAX) return Status();
  return fail(GQSGD_INVALID_ARGUMENT, "step is %llu; the largest is %u",
              static_cast<unsigned long long>(step), UINT32_MAX);
}

Status StepCounter::take_on_host(uint64_t* step) {
  OnDevice here(group_.device());
  GQ_TRY(here.enter(group_.transport().ordinal()));
  GQ_TRY(group_.break_with(group_.wait_for_last_call()));
  *step = get();
  set(*step + 1);
  return Status();
}

void StepCounter::move_to_device(Call* call) {
  if (!on_device_) {
    device_counter().store(host_.load());
    on_device_ = true;
  }
  call->step_at = scratch_.step();
}

TakeStepArgs StepCounter::stage() const {
  TakeStepArgs args{};
  args.counter = scratch_.step_counter();
  args.step = scratch_.step();
  return args;
}

Status StepCounter::enqueue(StreamHandle stream) const {
  TakeStepArgs args = stage();
  args.stream = stream;
  return Status(group_.device().agreement->take_step(args));
}

void StepCounter::enqueue_refused(const Call& call) const {
  if (!takes_on_device(call)) return;
  if (group_.follow_last_call(call.stream).ok()) (void)enqueue(call.stream).ok();
}

}  // namespace gq
