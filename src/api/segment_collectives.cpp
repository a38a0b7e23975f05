// gqsgd_reduce_scatter, gqsgd_allgather and gqsgd_allreduce_many, now or as requests.
#include "src/api/call_scope.h"
#include "src/api/execute_call.h"
#include "src/api/segments.h"

namespace gq {
namespace {

auto reduce_scatter_of(const SegmentArguments& arguments, const void* send, void* recv) {
  return [=](Communicator& communicator, Call* call, Segments* segments) {
    return check_reduce_scatter(communicator, arguments, send, recv, call, segments);
  };
}

auto allgather_of(const SegmentArguments& arguments, const void* send, void* recv) {
  return [=](Communicator& communicator, Call* call, Segments* segments) {
    return check_allgather(communicator, arguments, send, recv, call, segments);
  };
}

auto allreduce_many_of(const SegmentArguments& arguments, const void* const* send,
                       void* const* recv) {
  return [=](Communicator& communicator, Call* call, Segments* segments) {
    return check_allreduce_many(communicator, arguments, send, recv, call, segments);
  };
}

}  // namespace
}  // namespace gq

gqsgd_status gqsgd_reduce_scatter(gqsgd_comm comm, gqsgd_quantizer quantizer, const void* send,
                                  void* recv, const size_t* value_counts, int32_t dtype, int32_t op,
                                  const uint64_t at[2], void* stream) {
  const gq::SegmentArguments arguments{quantizer, value_counts, 0, dtype, op, 0, at, stream};
  const gq::CallScope scope;
  const gq::CheckedCall call(comm, gq::reduce_scatter_of(arguments, send, recv));
  return gq::to_caller(gq::execute_call(call));
}

gqsgd_status gqsgd_reduce_scatter_start(gqsgd_comm comm, gqsgd_quantizer quantizer,
                                        const void* send, void* recv, const size_t* value_counts,
                                        int32_t dtype, int32_t op, const uint64_t at[2],
                                        void* stream, gqsgd_request* request) {
  const gq::SegmentArguments arguments{quantizer, value_counts, 0, dtype, op, 0, at, stream};
  const gq::CallScope scope;
  gq::CheckedCall call(comm, gq::reduce_scatter_of(arguments, send, recv));
  return gq::to_caller(gq::start_request(&call, request));
}

gqsgd_status gqsgd_allgather(gqsgd_comm comm, gqsgd_quantizer quantizer, const void* send,
                             void* recv, const size_t* value_counts, int32_t dtype,
                             const uint64_t at[2], void* stream) {
  const gq::SegmentArguments arguments{quantizer, value_counts, 0, dtype, GQSGD_SUM, 0, at, stream};
  const gq::CallScope scope;
  const gq::CheckedCall call(comm, gq::allgather_of(arguments, send, recv));
  return gq::to_caller(gq::execute_call(call));
}

gqsgd_status gqsgd_allgather_start(gqsgd_comm comm, gqsgd_quantizer quantizer, const void* send,
                                   void* recv, const size_t* value_counts, int32_t dtype,
                                   const uint64_t at[2], void* stream, gqsgd_request* request) {
  const gq::SegmentArguments arguments{quantizer, value_counts, 0, dtype, GQSGD_SUM, 0, at, stream};
  const gq::CallScope scope;
  gq::CheckedCall call(comm, gq::allgather_of(arguments, send, recv));
  return gq::to_caller(gq::start_request(&call, request));
}

gqsgd_status gqsgd_allreduce_many(gqsgd_comm comm, gqsgd_quantizer quantizer,
                                  const void* const* send, void* const* recv,
                                  const size_t* value_counts, size_t tensor_count, int32_t dtype,
                                  int32_t op, int32_t schedule, const uint64_t at[2],
                                  void* stream) {
  const gq::SegmentArguments arguments{quantizer, value_counts, tensor_count, dtype,
                                       op,        schedule,     at,           stream};
  const gq::CallScope scope;
  const gq::CheckedCall call(comm, gq::allreduce_many_of(arguments, send, recv));
  return gq::to_caller(gq::execute_call(call));
}

gqsgd_status gqsgd_allreduce_many_start(gqsgd_comm comm, gqsgd_quantizer quantizer,
                                        const void* const* send, void* const* recv,
                                        const size_t* value_counts, size_t tensor_count,
                                        int32_t dtype, int32_t op, int32_t schedule,
                                        const uint64_t at[2], void* stream,
                                        gqsgd_request* request) {
  const gq::SegmentArguments arguments{quantizer, value_counts, tensor_count, dtype,
                                       op,        schedule,     at,           stream};
  const gq::CallScope scope;
  gq::CheckedCall call(comm, gq::allreduce_many_of(arguments, send, recv));
  return gq::to_caller(gq::start_request(&call, request));
}
