// What a graph can hold, and the sentences for what it cannot.
#include "src/gpu/enqueue/graph_capture.h"

namespace gq {
namespace {

Status check_captured(const Call& call) {
  if (!call.counts_later && call.step_at == nullptr) {
    return fail(GQSGD_UNSUPPORTED,
                "stream %p is being captured, and config.step is given: each replay would repeat "
                "the random numbers of step %llu; hint: with GQSGD_STEP_COUNTER each replay takes "
                "the next step, with GQSGD_STEP_DEVICE what device_step has then",
                call.stream, static_cast<unsigned long long>(call.step));
  }
  if (call.schedule_id == GQSGD_SCHEDULE_SPARSE) {
    return fail(GQSGD_UNSUPPORTED,
                "stream %p is being captured, and schedule sparse waits on the host for the "
                "numbers of its entries, which no graph can; use schedule direct",
                call.stream);
  }
  return Status();
}

Status agrees_on_host(const Call& call, const char* why) {
  return fail(GQSGD_UNSUPPORTED,
              "stream %p is being captured, and the hosts of this group synchronize in a call of "
              "this kind (%s of %llu values): %s (docs/CUDA.md); over NCCL a graph may have it",
              call.stream, operation_name(call), static_cast<unsigned long long>(call.value_count),
              why);
}

}  // namespace

Status GraphCapture::capture(CallOnStream* call, const Status& refusal) {
  GQ_TRY(refusal);
  GQ_TRY(check_captured(call->call));
  if (group_.transport().agrees_on_host()) return capture_fused(call);
  GQ_TRY(executor_.prepare(call));
  if (call->call.counts_later) counter_.move_to_device(&call->call);
  call->cached->captured = true;
  workspace_.use_in_graphs();
  return executor_.enqueue_speculative(call);
}

/** Where hosts synchronize in every call, a graph can hold only kernels that synchronize on the
 *  device. */
Status GraphCapture::capture_fused(CallOnStream* call) {
  Call& own = call->call;
  FusedKernels* const kernels = group_.transport().fused();
  if (kernels == nullptr) {
    return agrees_on_host(own, "this group has no kernels that synchronize instead");
  }
  GQ_TRY(executor_.prepare(call));
  if (!call->is_fused) {
    return agrees_on_host(
        own,
        "none but allreduces of schedule direct, in one chunk for each rank and of not too many "
        "values or tensors, have kernels that synchronize instead, where the format has one norm, "
        "blocks with rescale or levels=none, and neither rotate, bits_down nor rounding_down");
  }
  uint32_t block_count = 0;
  GQ_TRY(executor_.fused().block_count(*call, &block_count));
  if (block_count == 0) {
    return agrees_on_host(own,
                          "kernels that synchronize instead do not fit on the device beside those "
                          "of other groups, or devices do not reach each other");
  }
  GQ_TRY(kernels->check_graphs());
  if (own.counts_later) counter_.move_to_device(&own);
  GQ_TRY(group_.follow_last_call(own.stream, true));
  if (StepCounter::takes_on_device(own)) GQ_TRY(counter_.enqueue(own.stream));
  GQ_TRY(executor_.fused().capture(*call, block_count));
  return group_.end_call(own.stream, true);
}

Status GraphCapture::check_request(const Call& call) const {
  bool capturing = false;
  GQ_TRY(group_.device().is_capturing(call.stream, &capturing));
  if (!capturing) return Status();
  return fail(GQSGD_UNSUPPORTED,
              "stream %p is being captured: a request cannot be tested in a graph; make the call "
              "without one",
              call.stream);
}

}  // namespace gq
