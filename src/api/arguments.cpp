// The checks of a collective in order; each alone is in check.h and config.h.
#include "src/api/arguments.h"

#include "kernels/stages.h"
#include "src/api/check.h"
#include "src/api/quantizer/quantizer.h"

namespace gq {
namespace {

/** Of the counter: whether it is taken when the call is enqueued or executed, as graphs have to. */
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

/** Step and index where the config says, or the communicator's step, which this call uses up. */
Status take_step(Communicator& communicator, const CallConfig& config, Call* call) {
  call->captured = is_captured(communicator, call->stream);
  switch (config.step_source) {
    case GQSGD_STEP_GIVEN:
      call->step = config.step;
      call->index = config.index;
      return Status();
    case GQSGD_STEP_DEVICE:
      if (call->stream == nullptr && !communicator.has_streams_only()) {
        return check_step_on_host(config);
      }
      call->step_at = config.device_step;
      return check_buffer({"config.device_step", call->step_at, 2, sizeof(uint32_t)});
    default:
      break;
  }
  call->counts_later = step_comes_later(communicator, *call);
  if (call->counts_later) return Status();
  GQ_TRY(next_step(communicator, &call->step));
  return check_step(call->step, call->index);
}

}  // namespace

Status check_arguments(const Arguments& arguments, const CallConfig& config, Call* call) {
  GQ_TRY(find_format(arguments.quantizer, &call->format));
  GQ_TRY(check_dtype(arguments.dtype));
  GQ_TRY(check_op(arguments.op));
  call->dtype = arguments.dtype;
  call->op = arguments.op;
  call->schedule_id = config.schedule;
  return Status();
}

Status check_stream(Communicator& communicator, void* stream) {
  if (communicator.has_streams_only()) return Status();
  if (communicator.endpoint.host->streams() == nullptr) return check_stream(stream);
  if (stream == nullptr) return Status();
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

Status take_config(Communicator& communicator, const gqsgd_config* config, void* stream,
                   CallConfig* read, Call* call) {
  call->stream = stream;
  const Status wrong = read_config(config, read);
  const Status taken = take_step(communicator, *read, call);
  return wrong.ok() ? taken : wrong;
}

Status begin_call(Communicator& communicator, const Arguments& arguments, const char* one_schedule,
                  Call* call) {
  CallConfig config;
  GQ_TRY(take_config(communicator, arguments.config, arguments.stream, &config, call));
  if (one_schedule != nullptr) GQ_TRY(check_one_schedule(one_schedule, config));
  return check_arguments(arguments, config, call);
}

Status check_allreduce(Communicator& communicator, const Arguments& arguments, const void* send,
                       void* recv, size_t count, Call* call) {
  GQ_TRY(begin_call(communicator, arguments, nullptr, call));
  GQ_TRY(check_count("count", count));
  call->value_count = count;
  GQ_TRY(check_buffers(send, recv, false, call));
  return check_stream(communicator, arguments.stream);
}

}  // namespace gq
