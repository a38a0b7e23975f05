// Queries, settings and destruction of communicators.
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include <algorithm>

#include "include/gqsgd_model.h"
#include "src/api/call_scope.h"
#include "src/api/check.h"
#include "src/api/communicator/comm_log.h"
#include "src/api/communicator/communicator.h"
#include "src/api/config.h"
#include "src/api/quantizer/quantizer.h"
#include "src/call/progress_loop.h"
#include "src/execute/messages.h"
#include "src/execute/rice_stages.h"
#include "src/plan/plan.h"
#include "src/support/shown.h"

namespace gq {
namespace {

Status check_handle(gqsgd_comm comm) {
  SharedAccess access;
  return access.begin(comm);
}

Status destroy(gqsgd_comm comm) {
  GQ_TRY(check_handle(comm));
  const std::shared_ptr<Communicator> communicator = remove_communicator(comm);
  if (!communicator) return check_handle(comm);  // another thread was faster
  communicator->requests.close();
  // A thread that found the queue open is inside by now; a later one finds it closed.
  if (communicator->occupant.load(std::memory_order_acquire) != Occupant::none) {
    abort_group(communicator->endpoint, "was destroyed during a call");
  }
  log_destroyed(*communicator);
  return Status();
}

/** Takes no lock, allocates nothing and formats nothing: for signal handlers. */
gqsgd_status abort(gqsgd_comm comm) {
  const int caller_errno = errno;
  SharedAccess access;
  const gqsgd_status found = access.find(comm);
  if (found == GQSGD_OK) abort_endpoint(access->endpoint);
  if (found == GQSGD_BAD_HANDLE) {
    fail_in_signal_handler(
        "the communicator to abort is not a live one of this process: it is "
        "NULL, destroyed, or of another type");
  } else if (found == GQSGD_FORKED) {
    fail_in_signal_handler("the communicator to abort belongs to the parent of this process");
  }
  errno = caller_errno;
  return found;
}

/** What calls of this size need, whatever their schedule, with sparse entries too, or of floats
 *  where AUTO may take them. In shared memory trailers take as much as a schedule has messages. */
Status arena_bytes_of(const PlanRequest& direct, Endpoint& endpoint, size_t* arena_bytes) {
  const bool may_be_uncompressed = endpoint.choice.leaves_out_compression();
  Plan plan;
  GQ_TRY(make_plan(direct, &plan));
  *arena_bytes = arena_bytes_of(plan, endpoint);
  for (const SentAs sent_as : {SentAs::float32, SentAs::bf16}) {
    const Format format = sent_format(*direct.format, sent_as);
    PlanRequest floats = direct;
    floats.format = &format;
    if (!may_be_uncompressed) break;
    GQ_TRY(make_plan(floats, &plan));
    *arena_bytes = std::max(*arena_bytes, arena_bytes_of(plan, endpoint));
  }
  for (const int32_t schedule : {GQSGD_SCHEDULE_HIERARCHICAL, GQSGD_SCHEDULE_RING,
                                 GQSGD_SCHEDULE_TREE, GQSGD_SCHEDULE_BUTTERFLY}) {
    PlanRequest other = direct;
    other.schedule_id = schedule;
    if (!make_plan(other, &plan).ok()) continue;  // of a format that it does not take
    *arena_bytes = std::max(*arena_bytes, arena_bytes_of(plan, endpoint));
  }
  PlanRequest sparse = direct;
  sparse.schedule_id = GQSGD_SCHEDULE_SPARSE;
  if (dense_field(*direct.format) != nullptr) return Status();
  GQ_TRY(make_plan(sparse, &plan));
  *arena_bytes = std::max(*arena_bytes, arena_bytes_of(plan, endpoint));
  return Status();
}

Status reserve(gqsgd_comm comm, gqsgd_quantizer quantizer, size_t count, int32_t dtype) {
  GQ_TRY(check_dtype(dtype));
  GQ_TRY(check_count("count", count));
  ExclusiveAccess access;
  GQ_TRY(access.enter(comm));
  GQ_TRY(access->endpoint.intact());
  Format format;
  GQ_TRY(find_format(quantizer, &format));
  Endpoint& endpoint = access->endpoint;
  PlanRequest request{&format, GQSGD_SCHEDULE_DIRECT,      endpoint.size(),
                      count,   endpoint.chunk_value_count, endpoint.reads_in_place()};
  request.has_room = endpoint.messages.wants_room();
  request.nodes = &endpoint.nodes;
  if (access->on_streams) GQ_TRY(access->on_streams->reserve(request));
  if (access->has_streams_only()) return Status();
  access->requests.drain();  // whose words are in the arena
  size_t arena_bytes = 0;
  GQ_TRY(arena_bytes_of(request, endpoint, &arena_bytes));
  GQ_TRY(endpoint.failure.get());
  endpoint.newest_ended.is_kept = false;
  if (format.levels == Levels::rice) GQ_TRY(endpoint.workers->reserve_scratch(kRiceScratchBytes));
  unsigned char* arena = nullptr;
  if (endpoint.choice.needs_measuring()) {
    arena_bytes = std::max(arena_bytes, Measuring::workspace_bytes());
    GQ_TRY(endpoint.host->arena(arena_bytes, &arena));
    endpoint.workspace_bytes.raise_to(arena_bytes);
    return Status();
  }
  Choice choice{};
  GQ_TRY(endpoint.choice.take(
      {format, GQSGD_SCHEDULE_AUTO, endpoint.size(), count, endpoint.chunk_value_count,
       endpoint.reads_in_place(), dtype, &endpoint.nodes, endpoint.host->sums() != nullptr},
      &choice));
  GQ_TRY(endpoint.host->arena(arena_bytes, &arena));
  endpoint.workspace_bytes.raise_to(arena_bytes);
  return Status();
}

Status describe_costs_of(gqsgd_comm comm, char* costs, size_t capacity_bytes, size_t* size_bytes) {
  if (costs == nullptr && capacity_bytes > 0) {
    return fail(GQSGD_INVALID_ARGUMENT, "gqsgd_comm_costs: costs is NULL and capacity_bytes is %zu",
                capacity_bytes);
  }
  SharedAccess access;
  GQ_TRY(access.begin(comm));
  const CostConstants* const constants = access->endpoint.choice.seen_costs();
  if (capacity_bytes > 0) costs[0] = '\0';
  size_t length = 0;
  if (constants != nullptr) length = describe_costs_exactly(*constants, costs, capacity_bytes);
  if (size_bytes != nullptr) *size_bytes = length + 1;
  return Status();
}

/** Every number is a running total, which the thread inside a call increases at each event. Every
 * total can be read during a call: a wait is added when it or its slice (5 ms) ends. What has no
 * host is not counted: replays of graphs. Numbers are relaxed atomics, each whole by itself. */
Status read_stat(gqsgd_comm comm, const char* name, uint64_t* value) {
  if (name == nullptr || value == nullptr) {
    return fail(GQSGD_INVALID_ARGUMENT, "gqsgd_comm_stat: %s is NULL",
                name == nullptr ? "name" : "value");
  }
  SharedAccess access;
  GQ_TRY(access.begin(comm));
  const Endpoint& endpoint = access->endpoint;
  const TransportCounters counters = endpoint.transport->counters();
  const struct {
    const char* name;
    uint64_t value;
  } stats[] = {
      {"calls", endpoint.calls},
      {"messages_sent", counters.messages_sent},
      {"payload_bytes_sent", counters.payload_bytes_sent},
      {"uncompressed_bytes_sent", counters.uncompressed_bytes_sent},
      {"header_bytes_sent", counters.header_bytes_sent},
      {"payload_bytes_copied", counters.payload_bytes_copied},
      {"workspace_bytes", endpoint.workspace_bytes},
      {"nonfinite_blocks", endpoint.nonfinite_blocks},
      {"wait_ns", endpoint.wait_ns},
      {"native_float_calls", endpoint.native_float_calls},
  };
  for (const auto& stat : stats) {
    if (strcmp(stat.name, name) != 0) continue;
    *value = stat.value;
    return Status();
  }
  return fail(GQSGD_INVALID_ARGUMENT,
              "stat \"%s\" is not known; there are calls, messages_sent, payload_bytes_sent, "
              "uncompressed_bytes_sent, header_bytes_sent, payload_bytes_copied, workspace_bytes, "
              "nonfinite_blocks, wait_ns, "
              "native_float_calls",
              Shown(name).text());
}

/** What broke the communicator, or will fail the next call on a stream. */
Status status_of(Communicator& communicator) {
  GQ_TRY(communicator.endpoint.intact());
  const StreamCalls* const calls = communicator.seen_on_streams.load(std::memory_order_acquire);
  if (calls == nullptr) return Status();
  const Status found = communicator.has_streams_only() ? communicator.endpoint.transport->check()
                                                       : calls->broken_on_device();
  if (found.ok()) return calls->late_failure();
  communicator.endpoint.failure.keep(found);
  communicator.endpoint.transport->abort_group(found.code(), communicator.endpoint.rank());
  return communicator.endpoint.failure.get();
}

/** Reads one value of a communicator, also while another thread is inside. */
template <typename Value, typename Read>
gqsgd_status read_value(gqsgd_comm comm, const char* function, const char* name, Value* value,
                        Read read) {
  if (value == nullptr) {
    return to_caller(fail(GQSGD_INVALID_ARGUMENT, "%s: %s is NULL", function, name));
  }
  SharedAccess access;
  const Status status = access.begin(comm);
  if (status.ok()) *value = read(*access);
  return to_caller(status);
}

}  // namespace
}  // namespace gq

gqsgd_status gqsgd_comm_rank(gqsgd_comm comm, int32_t* rank) {
  return gq::read_value(comm, "gqsgd_comm_rank", "rank", rank, [](gq::Communicator& found) {
    return static_cast<int32_t>(found.endpoint.rank());
  });
}

gqsgd_status gqsgd_comm_size(gqsgd_comm comm, int32_t* size) {
  return gq::read_value(comm, "gqsgd_comm_size", "size", size, [](gq::Communicator& found) {
    return static_cast<int32_t>(found.endpoint.size());
  });
}

gqsgd_status gqsgd_comm_transport(gqsgd_comm comm, const char** name) {
  return gq::read_value(comm, "gqsgd_comm_transport", "name", name,
                        [](gq::Communicator& found) { return found.transport_name.c_str(); });
}

gqsgd_status gqsgd_comm_timeout(gqsgd_comm comm, int64_t* timeout_ms) {
  return gq::read_value(comm, "gqsgd_comm_timeout", "timeout_ms", timeout_ms,
                        [](gq::Communicator& found) { return found.endpoint.timeout_ms.load(); });
}

gqsgd_status gqsgd_comm_counter(gqsgd_comm comm, uint64_t* step) {
  return gq::read_value(comm, "gqsgd_comm_counter", "step", step,
                        [](gq::Communicator& found) { return gq::counter_of(found); });
}

gqsgd_status gqsgd_comm_set_timeout(gqsgd_comm comm, int64_t timeout_ms) {
  gq::SharedAccess access;
  gq::Status status = access.begin(comm);
  if (!status.ok()) return gq::to_caller(status);
  int64_t checked_ms = 0;
  status = gq::check_timeout(timeout_ms, &checked_ms);
  if (!status.ok()) return gq::to_caller(status);
  access->endpoint.timeout_ms.store(checked_ms);
  access->endpoint.transport->set_timeout(checked_ms);
  return GQSGD_OK;
}

gqsgd_status gqsgd_comm_set_counter(gqsgd_comm comm, uint64_t step) {
  gq::SharedAccess access;
  const gq::Status status = access.begin(comm);
  if (!status.ok()) return gq::to_caller(status);
  if (step > UINT32_MAX) {
    return gq::to_caller(gq::fail(GQSGD_INVALID_ARGUMENT, "step is %" PRIu64 "; the largest is %u",
                                  step, UINT32_MAX));
  }
  access->next_step.store(step);
  gq::StreamCalls* const calls = access->seen_on_streams.load(std::memory_order_acquire);
  if (calls != nullptr) calls->set_counter(step);
  return GQSGD_OK;
}

gqsgd_status gqsgd_comm_reserve(gqsgd_comm comm, gqsgd_quantizer quantizer, size_t count,
                                gqsgd_dtype dtype) {
  return gq::in_call_scope(
      [&] { return gq::reserve(comm, quantizer, count, gq::number_of(dtype)); });
}

gqsgd_status gqsgd_comm_stat(gqsgd_comm comm, const char* name, uint64_t* value) {
  return gq::to_caller(gq::read_stat(comm, name, value));
}

gqsgd_status gqsgd_comm_costs(gqsgd_comm comm, char* costs, size_t capacity_bytes,
                              size_t* size_bytes) {
  return gq::to_caller(gq::describe_costs_of(comm, costs, capacity_bytes, size_bytes));
}

gqsgd_status gqsgd_comm_status(gqsgd_comm comm) {
  gq::SharedAccess access;
  const gq::Status status = access.begin(comm);
  if (!status.ok()) return gq::to_caller(status);
  return gq::in_call_scope([&] { return gq::status_of(*access); });
}

gqsgd_status gqsgd_comm_abort(gqsgd_comm comm) { return gq::abort(comm); }

gqsgd_status gqsgd_comm_destroy(gqsgd_comm comm) {
  if (comm == nullptr) return GQSGD_OK;
  return gq::in_call_scope([&] { return gq::destroy(comm); });
}
