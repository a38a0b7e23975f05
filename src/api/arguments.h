// Checks the arguments of a collective: from the arguments of the C ABI to a call.
#ifndef GQ_API_ARGUMENTS_H
#define GQ_API_ARGUMENTS_H

#include "src/api/communicator/communicator.h"
#include "src/api/config.h"
#include "src/execute/endpoint.h"

namespace gq {

/** What all collectives are called with. */
struct Arguments {
  gqsgd_quantizer quantizer;
  int32_t dtype;
  int32_t op;
  const gqsgd_config* config;
  void* stream = nullptr;
};

/** Quantizer, dtype and op; the schedule is that of the config, which is checked already. */
Status check_arguments(const Arguments& arguments, const CallConfig& config, Call* call);

/** A stream requires device memory. */
Status check_stream(Communicator& communicator, void* stream);

Status check_buffers(const void* send, void* recv, bool recv_is_optional, Call* call);

/** The config of a call on `communicator`, and its step: the counter's advances also where a check
 *  fails, as it does on the other ranks. */
Status take_config(Communicator& communicator, const gqsgd_config* config, void* stream,
                   CallConfig* read, Call* call);

/** What all collectives have; the communicator's counter advances. `one_schedule` is the function
 *  that has no other than AUTO, or null. */
Status begin_call(Communicator& communicator, const Arguments& arguments, const char* one_schedule,
                  Call* call);

/** All of gqsgd_allreduce. */
Status check_allreduce(Communicator& communicator, const Arguments& arguments, const void* send,
                       void* recv, size_t count, Call* call);

}  // namespace gq

#endif
