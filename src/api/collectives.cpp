// The collectives of the C ABI, now or as requests, and gqsgd_comm_refuse in place of one.
#include "src/api/arguments.h"
#include "src/api/call_scope.h"
#include "src/api/execute_call.h"
#include "src/api/segments.h"
#include "src/support/kept_failure.h"

namespace gq {
namespace {

// Each function returns the check of a collective, for run_call and start_call.

auto allreduce_of(const Arguments& arguments, const void* send, void* recv, size_t count) {
  return [=](Communicator& communicator, Call* call, Segments*) {
    return check_allreduce(communicator, arguments, send, recv, count, call);
  };
}

auto allreduce_many_of(const Arguments& arguments, const TensorList& tensors) {
  return [=](Communicator& communicator, Call* call, Segments* segments) {
    return check_allreduce_many(communicator, arguments, tensors, call, segments);
  };
}

auto reduce_scatter_of(const Arguments& arguments, const void* send, void* recv,
                       const size_t* counts) {
  return [=](Communicator& communicator, Call* call, Segments* segments) {
    return check_reduce_scatter(communicator, arguments, send, recv, counts, call, segments);
  };
}

auto allgather_of(const Arguments& arguments, const void* send, void* recv, const size_t* counts) {
  return [=](Communicator& communicator, Call* call, Segments* segments) {
    return check_allgather(communicator, arguments, send, recv, counts, call, segments);
  };
}

Arguments arguments_of(gqsgd_quantizer quantizer, const gqsgd_dtype& dtype, const gqsgd_op& op,
                       const gqsgd_config* config, void* stream) {
  return {quantizer, number_of(dtype), number_of(op), config, stream};
}

/** `reason` with the caller's last error, or INVALID_ARGUMENT in its place. */
Status check_reason(gqsgd_status reason) {
  if (reason != GQSGD_OK && is_status(reason)) return Status();
  return fail(GQSGD_INVALID_ARGUMENT,
              "gqsgd_comm_refuse: reason is %d (%s); it must be the status of a failure", reason,
              gqsgd_status_name(reason));
}

/** This rank's part of the next call is a control message with the reason. A wrong argument of its
 *  own is returned once the other ranks have been notified. */
Status refuse(gqsgd_comm comm, gqsgd_status reason, const gqsgd_config* config, void* stream) {
  const KeptFailure callers_last_error{Status(GQSGD_INVALID_ARGUMENT)};
  ExclusiveAccess access;
  GQ_TRY(access.enter(comm));
  GQ_TRY(access->endpoint.intact());
  Call call;
  CallConfig read;
  KeptFailure wrong(take_config(*access, config, stream, &read, &call));
  if (wrong.ok()) wrong = KeptFailure(check_stream(*access, stream));
  if (wrong.ok()) wrong = KeptFailure(check_reason(reason));
  call.refused_with = is_status(reason) && reason != GQSGD_OK ? reason : GQSGD_INVALID_ARGUMENT;
  GQ_TRY(execute_refusal(access, call));
  (void)callers_last_error.again().ok();  // a success does not change it
  return wrong.again();
}

}  // namespace
}  // namespace gq

gqsgd_status gqsgd_allreduce(gqsgd_comm comm, gqsgd_quantizer quantizer, const void* send,
                             void* recv, size_t count, gqsgd_dtype dtype, gqsgd_op op,
                             const gqsgd_config* config, void* stream) {
  const gq::Arguments arguments = gq::arguments_of(quantizer, dtype, op, config, stream);
  return gq::in_call_scope(
      [&] { return gq::run_call(comm, gq::allreduce_of(arguments, send, recv, count)); });
}

gqsgd_status gqsgd_allreduce_start(gqsgd_comm comm, gqsgd_quantizer quantizer, const void* send,
                                   void* recv, size_t count, gqsgd_dtype dtype, gqsgd_op op,
                                   const gqsgd_config* config, void* stream,
                                   gqsgd_request* request) {
  const gq::Arguments arguments = gq::arguments_of(quantizer, dtype, op, config, stream);
  return gq::in_call_scope([&] {
    return gq::start_call(comm, request, gq::allreduce_of(arguments, send, recv, count));
  });
}

gqsgd_status gqsgd_allreduce_many(gqsgd_comm comm, gqsgd_quantizer quantizer,
                                  const void* const* send, void* const* recv, const size_t* counts,
                                  size_t tensor_count, gqsgd_dtype dtype, gqsgd_op op,
                                  const gqsgd_config* config, void* stream) {
  const gq::Arguments arguments = gq::arguments_of(quantizer, dtype, op, config, stream);
  const gq::TensorList tensors{send, recv, counts, tensor_count};
  return gq::in_call_scope(
      [&] { return gq::run_call(comm, gq::allreduce_many_of(arguments, tensors)); });
}

gqsgd_status gqsgd_allreduce_many_start(gqsgd_comm comm, gqsgd_quantizer quantizer,
                                        const void* const* send, void* const* recv,
                                        const size_t* counts, size_t tensor_count,
                                        gqsgd_dtype dtype, gqsgd_op op, const gqsgd_config* config,
                                        void* stream, gqsgd_request* request) {
  const gq::Arguments arguments = gq::arguments_of(quantizer, dtype, op, config, stream);
  const gq::TensorList tensors{send, recv, counts, tensor_count};
  return gq::in_call_scope(
      [&] { return gq::start_call(comm, request, gq::allreduce_many_of(arguments, tensors)); });
}

gqsgd_status gqsgd_reduce_scatter(gqsgd_comm comm, gqsgd_quantizer quantizer, const void* send,
                                  void* recv, const size_t* counts, gqsgd_dtype dtype, gqsgd_op op,
                                  const gqsgd_config* config, void* stream) {
  const gq::Arguments arguments = gq::arguments_of(quantizer, dtype, op, config, stream);
  return gq::in_call_scope(
      [&] { return gq::run_call(comm, gq::reduce_scatter_of(arguments, send, recv, counts)); });
}

gqsgd_status gqsgd_reduce_scatter_start(gqsgd_comm comm, gqsgd_quantizer quantizer,
                                        const void* send, void* recv, const size_t* counts,
                                        gqsgd_dtype dtype, gqsgd_op op, const gqsgd_config* config,
                                        void* stream, gqsgd_request* request) {
  const gq::Arguments arguments = gq::arguments_of(quantizer, dtype, op, config, stream);
  return gq::in_call_scope([&] {
    return gq::start_call(comm, request, gq::reduce_scatter_of(arguments, send, recv, counts));
  });
}

gqsgd_status gqsgd_allgather(gqsgd_comm comm, gqsgd_quantizer quantizer, const void* send,
                             void* recv, const size_t* counts, gqsgd_dtype dtype,
                             const gqsgd_config* config, void* stream) {
  const gq::Arguments arguments = gq::arguments_of(quantizer, dtype, GQSGD_SUM, config, stream);
  return gq::in_call_scope(
      [&] { return gq::run_call(comm, gq::allgather_of(arguments, send, recv, counts)); });
}

gqsgd_status gqsgd_allgather_start(gqsgd_comm comm, gqsgd_quantizer quantizer, const void* send,
                                   void* recv, const size_t* counts, gqsgd_dtype dtype,
                                   const gqsgd_config* config, void* stream,
                                   gqsgd_request* request) {
  const gq::Arguments arguments = gq::arguments_of(quantizer, dtype, GQSGD_SUM, config, stream);
  return gq::in_call_scope([&] {
    return gq::start_call(comm, request, gq::allgather_of(arguments, send, recv, counts));
  });
}

gqsgd_status gqsgd_comm_refuse(gqsgd_comm comm, gqsgd_status reason, const gqsgd_config* config,
                               void* stream) {
  return gq::in_call_scope([&] { return gq::refuse(comm, reason, config, stream); });
}
