// What a reader of the log needs to know of a communicator once.
#include "src/api/communicator/comm_log.h"

#include <inttypes.h>

#include "src/call/ratio.h"
#include "src/support/log.h"
#include "src/support/shown.h"

namespace gq {
namespace {

/** Generation and index, which tell live handles apart. */
uint32_t number_of_token(uintptr_t token) { return static_cast<uint32_t>(token ^ token >> 16); }

void warn_of_options(const Communicator& communicator, const CommOptions& options) {
  const Endpoint& endpoint = communicator.endpoint;
  if (options.nontemporal_bytes > 0 && !endpoint.reads_in_place()) {
    log_line(GQSGD_LOG_WARN, endpoint.subject,
             "option nontemporal_bytes has no effect over %s: no peer reads this rank's memory",
             Shown(communicator.transport_name).text());
  }
  if (endpoint.choice.needs_measuring() && communicator.has_streams_only()) {
    log_line(GQSGD_LOG_WARN, endpoint.subject,
             "costs=measure has no effect over NCCL, where ranks do not measure: schedule auto is "
             "direct");
  }
}

const char* auto_of(const Communicator& communicator) {
  const bool has_costs = communicator.endpoint.choice.has_costs();
  if (communicator.has_streams_only() && !has_costs) return "direct, no costs given";
  if (communicator.endpoint.choice.needs_measuring()) return "chosen by costs that ranks measure";
  return has_costs ? "chosen by costs" : "direct, no costs given";
}

}  // namespace

void name_in_log(Communicator* communicator, uintptr_t token) {
  Endpoint& endpoint = communicator->endpoint;
  const uint32_t tag = endpoint.transport->tag();
  endpoint.subject = {tag != 0 ? tag : number_of_token(token), endpoint.rank()};
  endpoint.failure.set_subject(endpoint.subject);
}

void log_created(const Communicator& communicator, const CommOptions& options) {
  if (!is_logged(GQSGD_LOG_WARN)) return;
  const Endpoint& endpoint = communicator.endpoint;
  warn_of_options(communicator, options);
  const uint32_t nodes = endpoint.nodes.count();
  const int64_t timeout_ms = endpoint.timeout_ms.load(std::memory_order_relaxed);
  log_line(GQSGD_LOG_INFO, endpoint.subject,
           "%u ranks over %s on %u node%s; schedule auto: %s; stages %s; chunk %" PRIu64
           " values; %u thread%s; timeout %" PRId64 " ms; libgqsgd %d.%d.%d, wire version %u",
           endpoint.size(), Shown(communicator.transport_name).text(), nodes, nodes == 1 ? "" : "s",
           auto_of(communicator), endpoint.stages->name, endpoint.chunk_value_count,
           options.threads, options.threads == 1 ? "" : "s", timeout_ms, GQSGD_VERSION_MAJOR,
           GQSGD_VERSION_MINOR, GQSGD_VERSION_PATCH, kWireVersion);
}

void log_destroyed(const Communicator& communicator) {
  if (!is_logged(GQSGD_LOG_INFO)) return;
  const Endpoint& endpoint = communicator.endpoint;
  const TransportCounters sent = endpoint.transport->counters();
  log_line(GQSGD_LOG_INFO, endpoint.subject,
           "destroyed after %" PRIu64 " call%s: %" PRIu64 " bytes sent, %" PRIu64
           " as float32, ratio %s; waited %" PRIu64 " ms",
           static_cast<uint64_t>(endpoint.calls), endpoint.calls == 1 ? "" : "s",
           static_cast<uint64_t>(sent.payload_bytes_sent),
           static_cast<uint64_t>(sent.uncompressed_bytes_sent),
           Ratio(sent.uncompressed_bytes_sent, sent.payload_bytes_sent).text,
           static_cast<uint64_t>(endpoint.wait_ns) / 1000000);
}

}  // namespace gq
