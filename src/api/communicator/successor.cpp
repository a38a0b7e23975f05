// What reconfigure and shrink have in common.
#include "src/api/communicator/successor.h"

#include <new>

#include "src/transport/network/bootstrap/network_id.h"
#include "src/transport/process/process.h"
#include "src/transport/shared_memory/local_join.h"

namespace gq {

Status join_group(const NewRank& place, const CommOptions& options, Interrupt interrupt,
                  const Status& own, const char** name,
                  std::unique_ptr<HostTransport>* transport) {
  if (is_local_id(*place.id)) {
    *name = "threads";
    return join_local(*place.id, place.rank, place.size, options.timeout_ms, transport, interrupt,
                      own);
  }
  const Deadline deadline(deadline_after_ms(options.timeout_ms), interrupt);
  if (is_network_id(*place.id)) {
    *name = "network";
    return create_network(*place.id, place.rank, place.size, options.network, deadline, transport,
                          own);
  }
  *name = "processes";
  return create_process(*place.id, place.rank, place.size, deadline, transport, own);
}

Status check_can_be_followed(const Communicator& communicator, const char* what_is_done) {
  const Endpoint& endpoint = communicator.endpoint;
  if (!endpoint.has_streams_only() && !endpoint.host->callers_thread_only()) return Status();
  return fail(GQSGD_UNSUPPORTED,
              "rank %u's communicator is over \"%s\"; only groups of threads, processes and "
              "networks are %s; hint: make a communicator over the new group of that "
              "library, and continue the counter with gqsgd_comm_set_counter",
              endpoint.rank(), communicator.transport_name.c_str(), what_is_done);
}

Status read_successor_options(const Communicator& communicator, CommOptions* defaults) {
  try {
    *defaults = communicator.options;
  } catch (const std::bad_alloc&) {
    return fail(GQSGD_NO_MEMORY, "no memory for the options of rank %u",
                communicator.endpoint.rank());
  }
  defaults->timeout_ms = communicator.endpoint.timeout_ms.load(std::memory_order_relaxed);
  defaults->nodes.clear();
  defaults->network.port = 0;
  return Status();
}

Status check_not_given(const CommOptions& options) {
  const bool costs = options.costs_given, uncompressed = options.uncompressed_given;
  if (!costs && !uncompressed && !options.stream_id_given) return Status();
  return fail(GQSGD_INVALID_ARGUMENT,
              "option %s is the survivors' in a group that continues, and may not be given",
              costs          ? "costs"
              : uncompressed ? "uncompressed"
                             : "stream_id");
}

}  // namespace gq
