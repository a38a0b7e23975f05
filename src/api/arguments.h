// Checks the arguments of an allreduce: from the arguments of the C ABI to a call.
#ifndef GQ_API_ARGUMENTS_H
#define GQ_API_ARGUMENTS_H

#include "src/api/communicator/communicator.h"
#include "src/execute/endpoint.h"

namespace gq {

struct Arguments {
  gqsgd_quantizer quantizer;
  size_t value_count;
  int32_t dtype;
  int32_t op;
  int32_t schedule;
  const uint64_t* at;
};

/** Everything but the buffers and the step. */
Status check_arguments(const Arguments& arguments, Call* call);

/** A stream requires device memory. */
Status check_stream(Communicator& communicator, void* stream);

Status check_buffers(const void* send, void* recv, bool recv_is_optional, Call* call);

/** Everything but the buffers, in a call on `communicator`, whose counter it advances. */
Status check_step_and_arguments(Communicator& communicator, const Arguments& arguments, Call* call);

/** All of it, in a call on `communicator`, whose counter it advances. */
Status check_call(Communicator& communicator, const Arguments& arguments, const void* send,
                  void* recv, void* stream, Call* call);

}  // namespace gq

#endif
