// The collectives of the C ABI, now or as requests, and gqsgd_comm_refuse in place of one.
#include "src/api/arguments.h"
#include "src/api/call_scope.h"
#include "src/api/execute_call.h"
#include "src/api/segments.h"

namespace gq {
namespace {

// Each function returns the check of a collective, for CheckedCall.

auto allreduce_of(const Arguments& arguments, const void* send, void* recv, size_t count) {
  return [=](Communicator& communicator, Call* call, SegmentedBuffers*) {
    return check_allreduce(communicator, arguments, send, recv, count, call);
  };
}

auto allreduce_many_of(const Arguments& arguments, const TensorList& tensors) {
  return [=](Communicator& communicator, Call* call, SegmentedBuffers* buffers) {
    return check_allreduce_many(communicator, arguments, tensors, call, buffers);
  };
}

auto reduce_scatter_of(const Arguments& arguments, const void* send, void* recv,
                       const size_t* counts) {
  return [=](Communicator& communicator, Call* call, SegmentedBuffers* buffers) {
    return check_reduce_scatter(communicator, arguments, send, recv, counts, call, buffers);
  };
}

auto allgather_of(const Arguments& arguments, const void* send, void* recv, const size_t* counts) {
  return [=](Communicator& communicator, Call* call, SegmentedBuffers* buffers) {
    return check_allgather(communicator, arguments, send, recv, counts, call, buffers);
  };
}

Arguments arguments_of(gqsgd_quantizer quantizer, const gqsgd_dtype& dtype, const gqsgd_op& op,
                       const gqsgd_config* config, void* stream) {
  return {quantizer, number_of(dtype), number_of(op), config, stream};
}

Status check_reason(gqsgd_status reason) {
  if (reason != GQSGD_OK && is_status(reason)) return Status();
  return fail(GQSGD_INVALID_ARGUMENT,
              "gqsgd_comm_refuse: reason is %d (%s); it must be the status of a failure", reason,
              gqsgd_status_name(reason));
}

/** This rank's part of the next call is a control message with the reason. A wrong argument of its
 *  own is returned once the other ranks have been notified. */
Status refuse(gqsgd_comm comm, gqsgd_status reason, const gqsgd_config* config, void* stream) {
  Status wrong;
  const auto check = [&](Communicator& communicator, Call* call, SegmentedBuffers*) {
    CallConfig read;
    wrong = take_config(communicator, config, stream, &read, call);
    if (wrong.ok()) wrong = check_stream(communicator, stream);
    if (wrong.ok()) wrong = check_reason(reason);
    call->refused_with = is_status(reason) && reason != GQSGD_OK ? reason : GQSGD_INVALID_ARGUMENT;
    return fail(GQSGD_INVALID_ARGUMENT, "rank %u refuses this call with %s (%s)",
                communicator.endpoint.rank(), gqsgd_status_name(call->refused_with),
                gqsgd_status_string(call->refused_with));
  };
  const CheckedCall checked(comm, check);
  GQ_TRY(execute_refusal(checked));
  return wrong;
}

}  // namespace
}  // namespace gq

gqsgd_status gqsgd_allreduce(gqsgd_comm comm, gqsgd_quantizer quantizer, const void* send,
                             void* recv, size_t count, gqsgd_dtype dtype, gqsgd_op op,
                             const gqsgd_config* config, void* stream) {
  const gq::Arguments arguments = gq::arguments_of(quantizer, dtype, op, config, stream);
  const gq::CallScope scope;
  const gq::CheckedCall call(comm, gq::allreduce_of(arguments, send, recv, count));
  return gq::to_caller(gq::execute_call(call));
}

gqsgd_status gqsgd_allreduce_start(gqsgd_comm comm, gqsgd_quantizer quantizer, const void* send,
                                   void* recv, size_t count, gqsgd_dtype dtype, gqsgd_op op,
                                   const gqsgd_config* config, void* stream,
                                   gqsgd_request* request) {
  const gq::Arguments arguments = gq::arguments_of(quantizer, dtype, op, config, stream);
  const gq::CallScope scope;
  gq::CheckedCall call(comm, gq::allreduce_of(arguments, send, recv, count));
  return gq::to_caller(gq::start_request(&call, request));
}

gqsgd_status gqsgd_allreduce_many(gqsgd_comm comm, gqsgd_quantizer quantizer,
                                  const void* const* send, void* const* recv, const size_t* counts,
                                  size_t tensor_count, gqsgd_dtype dtype, gqsgd_op op,
                                  const gqsgd_config* config, void* stream) {
  const gq::Arguments arguments = gq::arguments_of(quantizer, dtype, op, config, stream);
  const gq::TensorList tensors{send, recv, counts, tensor_count};
  const gq::CallScope scope;
  const gq::CheckedCall call(comm, gq::allreduce_many_of(arguments, tensors));
  return gq::to_caller(gq::execute_call(call));
}

gqsgd_status gqsgd_allreduce_many_start(gqsgd_comm comm, gqsgd_quantizer quantizer,
                                        const void* const* send, void* const* recv,
                                        const size_t* counts, size_t tensor_count,
                                        gqsgd_dtype dtype, gqsgd_op op, const gqsgd_config* config,
                                        void* stream, gqsgd_request* request) {
  const gq::Arguments arguments = gq::arguments_of(quantizer, dtype, op, config, stream);
  const gq::TensorList tensors{send, recv, counts, tensor_count};
  const gq::CallScope scope;
  gq::CheckedCall call(comm, gq::allreduce_many_of(arguments, tensors));
  return gq::to_caller(gq::start_request(&call, request));
}

gqsgd_status gqsgd_reduce_scatter(gqsgd_comm comm, gqsgd_quantizer quantizer, const void* send,
                                  void* recv, const size_t* counts, gqsgd_dtype dtype, gqsgd_op op,
                                  const gqsgd_config* config, void* stream) {
  const gq::Arguments arguments = gq::arguments_of(quantizer, dtype, op, config, stream);
  const gq::CallScope scope;
  const gq::CheckedCall call(comm, gq::reduce_scatter_of(arguments, send, recv, counts));
  return gq::to_caller(gq::execute_call(call));
}

gqsgd_status gqsgd_reduce_scatter_start(gqsgd_comm comm, gqsgd_quantizer quantizer,
                                        const void* send, void* recv, const size_t* counts,
                                        gqsgd_dtype dtype, gqsgd_op op, const gqsgd_config* config,
                                        void* stream, gqsgd_request* request) {
  const gq::Arguments arguments = gq::arguments_of(quantizer, dtype, op, config, stream);
  const gq::CallScope scope;
  gq::CheckedCall call(comm, gq::reduce_scatter_of(arguments, send, recv, counts));
  return gq::to_caller(gq::start_request(&call, request));
}

gqsgd_status gqsgd_allgather(gqsgd_comm comm, gqsgd_quantizer quantizer, const void* send,
                             void* recv, const size_t* counts, gqsgd_dtype dtype,
                             const gqsgd_config* config, void* stream) {
  const gq::Arguments arguments = gq::arguments_of(quantizer, dtype, GQSGD_SUM, config, stream);
  const gq::CallScope scope;
  const gq::CheckedCall call(comm, gq::allgather_of(arguments, send, recv, counts));
  return gq::to_caller(gq::execute_call(call));
}

gqsgd_status gqsgd_allgather_start(gqsgd_comm comm, gqsgd_quantizer quantizer, const void* send,
                                   void* recv, const size_t* counts, gqsgd_dtype dtype,
                                   const gqsgd_config* config, void* stream,
                                   gqsgd_request* request) {
  const gq::Arguments arguments = gq::arguments_of(quantizer, dtype, GQSGD_SUM, config, stream);
  const gq::CallScope scope;
  gq::CheckedCall call(comm, gq::allgather_of(arguments, send, recv, counts));
  return gq::to_caller(gq::start_request(&call, request));
}

gqsgd_status gqsgd_comm_refuse(gqsgd_comm comm, gqsgd_status reason, const gqsgd_config* config,
                               void* stream) {
  return gq::in_call_scope([&] { return gq::refuse(comm, reason, config, stream); });
}
