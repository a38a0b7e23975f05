// Calls that become part of a graph: their step is counted by the device, and only the device reads
// headers, at each replay. Memory that a graph uses is never moved or freed.
#include <new>

#include "src/gpu/enqueue/stream_calls.h"

namespace gq {

/** No header is sent and nothing is counted yet: a graph may never be replayed. */
Status StreamCalls::capture(Attempt* attempt, const KeptFailure& refusal) {
  GQ_TRY(refusal.again());
  Call& call = attempt->call;
  if (!call.counts_later && call.step_at == nullptr) {
    return fail(GQSGD_UNSUPPORTED,
                "stream %p is being captured, and config.step is given: each replay would repeat "
                "the random numbers of step %llu; hint: with GQSGD_STEP_COUNTER each replay takes "
                "the next step, with GQSGD_STEP_DEVICE what device_step has then",
                call.stream, static_cast<unsigned long long>(call.step));
  }
  if (call.schedule_id == GQSGD_SCHEDULE_SPARSE) {
    return fail(
        GQSGD_UNSUPPORTED,
        "stream %p is being captured, and schedule sparse waits on the host for the lengths "
        "of its lists, which no graph can; use schedule direct",
        call.stream);
  }
  if (transport_.agrees_on_host()) return capture_fused(attempt);
  GQ_TRY(prepare(attempt));
  if (call.counts_later) count_on_device(&call);
  attempt->speculative = true;
  attempt->known->captured = true;
  has_captured_ = true;
  GQ_TRY(publish(*attempt, has_one_norm(call)));
  GQ_TRY(agree_on_device(call, attempt->found));
  return execute_call(attempt);
}

/** Where hosts synchronize in every call, a graph can hold only kernels that synchronize on the
 *  device. */
Status StreamCalls::capture_fused(Attempt* attempt) {
  Call& call = attempt->call;
  FusedKernels* const fused = transport_.fused();
  if (fused == nullptr) return agrees_on_host(call, "this group has no kernels that meet instead");
  GQ_TRY(prepare(attempt));
  if (!attempt->may_fuse) {
    return agrees_on_host(
        call,
        "none but allreduces of schedule direct, in one chunk for each rank and of not too many "
        "values, have kernels that meet instead, where the format has one norm or blocks with "
        "rescale, and neither rotate, bits_down nor rounding_down");
  }
  uint32_t block_count = 0;
  GQ_TRY(fused_block_count(*attempt, &block_count));
  if (block_count == 0) {
    return agrees_on_host(call,
                          "kernels that meet instead have no room on the device beside those "
                          "of other groups, or devices do not reach each other");
  }
  GQ_TRY(fused->check_graphs());
  if (call.counts_later) count_on_device(&call);
  GQ_TRY(device_.wait_in_graph(call.stream, done_));
  if (takes_step_on_device(call)) GQ_TRY(take_step_on_device(call.stream));
  FusedArgs args = fused_args(*attempt, block_count);
  GQ_TRY(fused->capture(&args, call.stream));
  return device_.record_in_graph(done_, call.stream);
}

void StreamCalls::count_on_device(Call* call) {
  if (!device_counts_) {
    *device_counter() = counter_.load();
    device_counts_ = true;
  }
  call->step_at = scratch_.as<const uint32_t>(kStepBytes);
}

Status StreamCalls::not_captured_yet(const Attempt& attempt, const char* why) {
  return fail(
      GQSGD_UNSUPPORTED,
      "stream %p is being captured, and a call of this kind (%s of %llu values) %s: make it "
      "once more before the capture, so that ranks agree on it and memory is there",
      attempt.call.stream, operation_name(attempt.call),
      static_cast<unsigned long long>(attempt.call.value_count), why);
}

Status StreamCalls::agrees_on_host(const Call& call, const char* why) {
  return fail(
      GQSGD_UNSUPPORTED,
      "stream %p is being captured, and the hosts of this group meet in a call of this kind "
      "(%s of %llu values): %s (docs/CUDA.md); over NCCL a graph may have it",
      call.stream, operation_name(call), static_cast<unsigned long long>(call.value_count), why);
}

Status StreamCalls::keep_arena() {
  try {
    earlier_arenas_.push_back(std::move(arena_));
  } catch (const std::bad_alloc&) {
    return fail(GQSGD_NO_MEMORY, "no memory to keep what graphs use");
  }
  return Status();
}

Status StreamCalls::keep_lists(CachedPlan* known) {
  try {
    known->earlier_lists.push_back(std::move(known->lists));
  } catch (const std::bad_alloc&) {
    return fail(GQSGD_NO_MEMORY, "no memory to keep what graphs use");
  }
  return Status();
}

/** The step of a call outside of a graph, which is the device's number once that counts. */
Status StreamCalls::take_step(Call* call) {
  uint64_t step = 0;
  if (device_counts_) {
    step = *device_counter();
    call->step_at = scratch_.as<const uint32_t>(kStepBytes);
  } else {
    step = call->step = counter_.fetch_add(1);
  }
  if (step <= UINT32_MAX) return Status();
  return fail(GQSGD_INVALID_ARGUMENT, "step is %llu; the largest is %u",
              static_cast<unsigned long long>(step), UINT32_MAX);
}

Status StreamCalls::take_step_on_host(uint64_t* step) {
  OnDevice here(device_);
  GQ_TRY(here.enter(transport_.ordinal()));
  GQ_TRY(end(wait_on_host(done_, "earlier calls to end")));
  *step = counter();
  set_counter(*step + 1);
  return Status();
}

/** What ranks refuse has a step, as elsewhere. A stream that is none takes nothing. */
void StreamCalls::count_refused(const Call& call) {
  if (!takes_step_on_device(call)) return;
  Status counted = device_.wait(call.stream, done_);
  if (counted.ok()) counted = take_step_on_device(call.stream);
  if (counted.ok()) (void)device_.record(done_, call.stream).ok();
}

}  // namespace gq
