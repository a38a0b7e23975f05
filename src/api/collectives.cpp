// gqsgd_allreduce, now or as a request.
#include "src/api/arguments.h"
#include "src/api/call_scope.h"
#include "src/api/execute_call.h"

namespace gq {
namespace {

auto check_of(const Arguments& arguments, const void* send, void* recv, void* stream) {
  return [=](Communicator& communicator, Call* call, Segments*) {
    call->stream = stream;
    return check_call(communicator, arguments, send, recv, stream, call);
  };
}

}  // namespace
}  // namespace gq

gqsgd_status gqsgd_allreduce(gqsgd_comm comm, gqsgd_quantizer quantizer, const void* send,
                             void* recv, size_t value_count, int32_t dtype, int32_t op,
                             int32_t schedule, const uint64_t at[2], void* stream) {
  const gq::Arguments arguments{quantizer, value_count, dtype, op, schedule, at};
  const gq::CallScope scope;
  const gq::CheckedCall call(comm, gq::check_of(arguments, send, recv, stream));
  return gq::to_caller(gq::execute_call(call));
}

gqsgd_status gqsgd_allreduce_start(gqsgd_comm comm, gqsgd_quantizer quantizer, const void* send,
                                   void* recv, size_t value_count, int32_t dtype, int32_t op,
                                   int32_t schedule, const uint64_t at[2], void* stream,
                                   gqsgd_request* request) {
  const gq::Arguments arguments{quantizer, value_count, dtype, op, schedule, at};
  const gq::CallScope scope;
  gq::CheckedCall call(comm, gq::check_of(arguments, send, recv, stream));
  return gq::to_caller(gq::start_request(&call, request));
}
