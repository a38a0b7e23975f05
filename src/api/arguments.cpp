// The checks of an allreduce in order; each alone is in check.h.
#include "src/api/arguments.h"

#include "kernels/stages.h"
#include "src/api/check.h"
#include "src/api/quantizer/quantizer.h"

namespace gq {
namespace {

/** Of calls with none of their own: whether it is taken when the call is enqueued or executed,
 *  as graphs have to. */
bool step_comes_later(const Communicator& communicator, const Call& call) {
  if (communicator.has_streams_only() || call.captured) return true;
  const StreamCalls* const calls = communicator.calls_on(call.stream);
  return calls != nullptr && calls->counts_on_device();
}

/** The communicator's own, where the host has it. */
Status next_step(Communicator& communicator, uint64_t* step) {
  StreamCalls* const calls = communicator.on_streams.get();
  if (calls != nullptr && calls->counts_on_device()) return calls->take_step_on_host(step);
  *step = communicator.next_step.fetch_add(1);
  return Status();
}

/** The caller's {step, index}, by value or in memory of a device, or the communicator's own step,
 *  which this call uses up. */
Status take_step(Communicator& communicator, const uint64_t* at, Call* call) {
  call->captured = is_captured(communicator, call->stream);
  call->counts_later = at == nullptr && step_comes_later(communicator, *call);
  if (call->counts_later) return Status();
  const bool on_stream = call->stream != nullptr || communicator.has_streams_only();
  if (at != nullptr && at[0] == GQSGD_AT_DEVICE && on_stream) {
    call->step_at = reinterpret_cast<const uint32_t*>(static_cast<uintptr_t>(at[1]));
    return check_buffer({"at[1]", call->step_at, 2, sizeof(uint32_t)});
  }
  if (at == nullptr) {
    GQ_TRY(next_step(communicator, &call->step));
  } else {
    call->step = at[0];
    call->index = at[1];
  }
  return check_step(call->step, call->index);
}

}  // namespace

Status check_arguments(const Arguments& arguments, Call* call) {
  GQ_TRY(find_format(arguments.quantizer, &call->format));
  GQ_TRY(check_dtype(arguments.dtype));
  GQ_TRY(check_op(arguments.op));
  GQ_TRY(check_value_count(arguments.value_count));
  call->value_count = arguments.value_count;
  call->dtype = arguments.dtype;
  call->op = arguments.op;
  call->schedule_id = arguments.schedule;
  return Status();
}

Status check_stream(Communicator& communicator, void* stream) {
  if (!communicator.endpoint.transport->has_streams()) return check_stream(stream);
  if (stream == nullptr || communicator.has_streams_only()) return Status();
  return use_stream(stream, &communicator);
}

Status check_buffers(const void* send, void* recv, bool recv_is_optional, Call* call) {
  const size_t element_bytes = dtype_size_bytes(call->dtype);
  const size_t value_count = static_cast<size_t>(call->value_count);
  const Buffer from{"send", send, value_count, element_bytes};
  const Buffer to{"recv", recv, value_count, element_bytes};
  GQ_TRY(check_buffer(from));
  if (recv != nullptr || !recv_is_optional) GQ_TRY(check_buffer(to));
  GQ_TRY(check_overlap(from, to, true));
  call->send = send;
  call->recv = recv;
  return Status();
}

Status check_step_and_arguments(Communicator& communicator, const Arguments& arguments,
                                Call* call) {
  GQ_TRY(take_step(communicator, arguments.at, call));
  return check_arguments(arguments, call);
}

Status check_call(Communicator& communicator, const Arguments& arguments, const void* send,
                  void* recv, void* stream, Call* call) {
  GQ_TRY(check_step_and_arguments(communicator, arguments, call));
  GQ_TRY(check_buffers(send, recv, false, call));
  return check_stream(communicator, stream);
}

}  // namespace gq
