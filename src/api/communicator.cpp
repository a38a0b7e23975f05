// Making, finding, asking and ending communicators: part 4 of the C ABI.
#include "src/api/communicator.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "src/api/handles.h"
#include "src/api/quantizer.h"
#include "src/plan/plan.h"
#include "src/support/fork.h"
#include "src/transport/local.h"
#include "src/transport/process.h"

namespace gq {
namespace {

using CommunicatorTable = HandleTable<Communicator, HandleType::communicator>;

CommunicatorTable& communicators() {
  static CommunicatorTable* table = new CommunicatorTable;  // never destroyed, like the quantizers'
  return *table;
}

Status no_memory() { return fail(GQSGD_NO_MEMORY, "no memory for a communicator"); }

/** A handle for one rank's end; *comm stays NULL after a failure. */
Status add_communicator(std::unique_ptr<Transport> transport, const CommOptions& options,
                        gqsgd_comm* comm) {
  std::shared_ptr<Communicator> communicator;
  try {
    communicator = std::make_shared<Communicator>();
  } catch (const std::bad_alloc&) {
    return no_memory();
  }
  communicator->fork_generation = fork_generation();
  GQ_TRY(fill_endpoint(std::move(transport), options, &communicator->endpoint));
  const uintptr_t token = communicators().add(std::move(communicator));
  if (token == 0) return no_memory();
  *comm = reinterpret_cast<gqsgd_comm>(token);
  return Status();
}

Status check_size(int32_t rank_count) {
  if (rank_count >= 1 && rank_count <= static_cast<int32_t>(kRanksMax)) return Status();
  return fail(GQSGD_INVALID_ARGUMENT, "a group has 1 to %u ranks, not %" PRId32, kRanksMax,
              rank_count);
}

Status create_local_group(int32_t rank_count, const char* text, gqsgd_comm* comms) {
  if (comms == nullptr) {
    return fail(GQSGD_INVALID_ARGUMENT, "gqsgd_comm_create_local: comms is NULL");
  }
  GQ_TRY(check_size(rank_count));
  const uint32_t ranks = static_cast<uint32_t>(rank_count);
  for (uint32_t rank = 0; rank < ranks; ++rank) comms[rank] = nullptr;
  CommOptions options;
  GQ_TRY(parse_options(text, &options));
  std::unique_ptr<std::unique_ptr<Transport>[]> transports(new (std::nothrow)
                                                               std::unique_ptr<Transport>[ranks]);
  if (!transports) return no_memory();
  GQ_TRY(create_local(ranks, transports.get()));
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    const Status status = add_communicator(std::move(transports[rank]), options, &comms[rank]);
    if (status.ok()) continue;
    for (uint32_t made = 0; made < rank; ++made) {
      communicators().remove(reinterpret_cast<uintptr_t>(comms[made]));
      comms[made] = nullptr;
    }
    return status;
  }
  return Status();
}

Status create_process_rank(const gqsgd_unique_id* unique_id, int32_t rank, int32_t size,
                           const char* text, gqsgd_comm* comm) {
  if (comm == nullptr) {
    return fail(GQSGD_INVALID_ARGUMENT, "gqsgd_comm_create_process: comm is NULL");
  }
  *comm = nullptr;
  if (unique_id == nullptr) {
    return fail(GQSGD_INVALID_ARGUMENT, "gqsgd_comm_create_process: unique_id is NULL");
  }
  GQ_TRY(check_size(size));
  if (rank < 0 || rank >= size) {
    return fail(GQSGD_INVALID_ARGUMENT,
                "rank is %" PRId32 "; in a group of %" PRId32 " ranks it is 0 to %" PRId32, rank,
                size, size - 1);
  }
  CommOptions options;
  GQ_TRY(parse_options(text, &options));
  std::unique_ptr<Transport> transport;
  GQ_TRY(create_process(*unique_id, static_cast<uint32_t>(rank), static_cast<uint32_t>(size),
                        options.timeout_ms, &transport));
  return add_communicator(std::move(transport), options, comm);
}

Status destroy(gqsgd_comm comm) {
  std::shared_ptr<Communicator> communicator;
  GQ_TRY(find_communicator(comm, &communicator));
  if (communicator->busy.load(std::memory_order_acquire)) {
    char sentence[96];
    const uint32_t rank = communicator->endpoint.rank();
    snprintf(sentence, sizeof sentence, "rank %u was destroyed during a call", rank);
    communicator->set_failure(Status(GQSGD_ABORTED), sentence);
    communicator->endpoint.transport->break_off(GQSGD_ABORTED, rank);
  }
  communicators().remove(reinterpret_cast<uintptr_t>(comm));
  return Status();
}

Status abort(gqsgd_comm comm) {
  std::shared_ptr<Communicator> communicator;
  GQ_TRY(find_communicator(comm, &communicator));
  const uint32_t rank = communicator->endpoint.rank();
  char sentence[96];
  snprintf(sentence, sizeof sentence, "rank %u aborted its communicator", rank);
  communicator->set_failure(Status(GQSGD_ABORTED), sentence);
  communicator->endpoint.transport->break_off(GQSGD_ABORTED, rank);
  return Status();
}

Status reserve(gqsgd_comm comm, gqsgd_quantizer quantizer, size_t value_count, int32_t dtype) {
  if (dtype < GQSGD_FLOAT32 || dtype > GQSGD_FLOAT64) {
    return fail(GQSGD_INVALID_ARGUMENT,
                "dtype is %" PRId32
                "; allowed are GQSGD_FLOAT32 to "
                "GQSGD_FLOAT64 (0 to 3)",
                dtype);
  }
  Entry entry;
  GQ_TRY(entry.enter(comm));
  GQ_TRY(entry->failure());
  Format format;
  GQ_TRY(find_format(quantizer, &format));
  Endpoint& endpoint = entry->endpoint;
  const PlanRequest request{
      &format,     GQSGD_SCHEDULE_DIRECT,      endpoint.size(),
      value_count, endpoint.chunk_value_count, endpoint.transport->reads_in_place()};
  Plan plan;
  GQ_TRY(make_plan(request, &plan));
  unsigned char* arena = nullptr;
  return endpoint.transport->arena(plan.arena_bytes, &arena);
}

Status read_stat(gqsgd_comm comm, const char* name, uint64_t* value) {
  if (name == nullptr || value == nullptr) {
    return fail(GQSGD_INVALID_ARGUMENT, "gqsgd_comm_stat: %s is NULL",
                name == nullptr ? "name" : "value");
  }
  Entry entry;
  GQ_TRY(entry.enter(comm));
  const Endpoint& endpoint = entry->endpoint;
  const TransportCounters counters = endpoint.transport->counters();
  const struct {
    const char* name;
    uint64_t value;
  } stats[] = {
      {"calls", endpoint.calls},
      {"messages_sent", counters.messages_sent},
      {"payload_bytes_sent", counters.payload_bytes_sent},
      {"header_bytes_sent", counters.header_bytes_sent},
      {"payload_bytes_copied", counters.payload_bytes_copied},
      {"workspace_bytes", endpoint.workspace_bytes},
      {"nonfinite_blocks", endpoint.nonfinite_blocks},
      {"wait_ns", endpoint.wait_ns},
  };
  for (const auto& stat : stats) {
    if (strcmp(stat.name, name) != 0) continue;
    *value = stat.value;
    return Status();
  }
  return fail(GQSGD_INVALID_ARGUMENT,
              "stat \"%.40s\" is not known; there are calls, messages_sent, payload_bytes_sent, "
              "header_bytes_sent, payload_bytes_copied, workspace_bytes, nonfinite_blocks, wait_ns",
              name);
}

}  // namespace

void Communicator::set_failure(Status status, const char* sentence) {
  const std::lock_guard<std::mutex> lock(failure_mutex_);
  if (!failure_.ok()) return;
  failure_ = status;
  snprintf(sentence_, sizeof sentence_, "%s", sentence);
}

Status Communicator::failure() {
  const std::lock_guard<std::mutex> lock(failure_mutex_);
  return failure_.ok() ? Status() : fail_with(failure_.code(), sentence_);
}

Status find_communicator(gqsgd_comm comm, std::shared_ptr<Communicator>* found) {
  *found = communicators().find(reinterpret_cast<uintptr_t>(comm));
  if (!*found) {
    return fail(GQSGD_BAD_HANDLE,
                "communicator %p is not a live communicator of this process: it is NULL, "
                "destroyed, or of another type",
                static_cast<void*>(comm));
  }
  if ((*found)->fork_generation == fork_generation()) return Status();
  return fail(GQSGD_FORKED,
              "rank %u's communicator belongs to the parent of this process; make a new one after "
              "fork()",
              (*found)->endpoint.rank());
}

Entry::~Entry() {
  if (entered_) communicator_->busy.store(false, std::memory_order_release);
}

Status Entry::enter(gqsgd_comm comm) {
  GQ_TRY(find_communicator(comm, &communicator_));
  entered_ = !communicator_->busy.exchange(true, std::memory_order_acquire);
  if (entered_) return Status();
  return fail(GQSGD_BUSY,
              "rank %u's communicator is in use by another thread; one thread at a time may call",
              communicator_->endpoint.rank());
}

Status fill_endpoint(std::unique_ptr<Transport> transport, const CommOptions& options,
                     Endpoint* endpoint) {
  const char* refused = nullptr;
  endpoint->stages = cpu_stages(&refused);
  if (endpoint->stages == nullptr) {
    return fail(GQSGD_UNSUPPORTED,
                "GQSGD_FORCE_ISA=%.40s asks for an instruction set that this library or machine "
                "does not have; gqsgd_build_info() lists them",
                refused);
  }
  try {
    endpoint->operands.resize(transport->size());
  } catch (const std::bad_alloc&) {
    return no_memory();
  }
  endpoint->transport = std::move(transport);
  endpoint->stream_id = options.stream_id;
  endpoint->chunk_value_count = options.chunk_value_count;
  endpoint->timeout_ms.store(options.timeout_ms, std::memory_order_relaxed);
  return Status();
}

namespace {

Status null_argument(const char* function, const char* name) {
  return fail(GQSGD_INVALID_ARGUMENT, "%s: %s is NULL", function, name);
}

/** Reads one number of a communicator, also while another thread is inside. */
template <typename Value, typename Read>
gqsgd_status read_number(gqsgd_comm comm, const char* function, const char* name, Value* value,
                         Read read) {
  if (value == nullptr) return null_argument(function, name).code();
  std::shared_ptr<Communicator> communicator;
  const Status status = find_communicator(comm, &communicator);
  if (status.ok()) *value = read(*communicator);
  return status.code();
}

}  // namespace
}  // namespace gq

gqsgd_status gqsgd_comm_create_local(int32_t rank_count, const char* options, gqsgd_comm* comms) {
  return gq::create_local_group(rank_count, options, comms).code();
}

gqsgd_status gqsgd_unique_id_create(gqsgd_unique_id* unique_id) {
  if (unique_id == nullptr) {
    return gq::null_argument("gqsgd_unique_id_create", "unique_id").code();
  }
  return gq::create_unique_id(unique_id).code();
}

gqsgd_status gqsgd_comm_create_process(const gqsgd_unique_id* unique_id, int32_t rank, int32_t size,
                                       const char* options, gqsgd_comm* comm) {
  return gq::create_process_rank(unique_id, rank, size, options, comm).code();
}

gqsgd_status gqsgd_comm_rank(gqsgd_comm comm, int32_t* rank) {
  return gq::read_number(comm, "gqsgd_comm_rank", "rank", rank, [](gq::Communicator& found) {
    return static_cast<int32_t>(found.endpoint.rank());
  });
}

gqsgd_status gqsgd_comm_size(gqsgd_comm comm, int32_t* size) {
  return gq::read_number(comm, "gqsgd_comm_size", "size", size, [](gq::Communicator& found) {
    return static_cast<int32_t>(found.endpoint.size());
  });
}

gqsgd_status gqsgd_comm_timeout(gqsgd_comm comm, int64_t* timeout_ms) {
  return gq::read_number(comm, "gqsgd_comm_timeout", "timeout_ms", timeout_ms,
                         [](gq::Communicator& found) { return found.endpoint.timeout_ms.load(); });
}

gqsgd_status gqsgd_comm_counter(gqsgd_comm comm, uint64_t* step) {
  return gq::read_number(comm, "gqsgd_comm_counter", "step", step,
                         [](gq::Communicator& found) { return found.next_step.load(); });
}

gqsgd_status gqsgd_comm_set_timeout(gqsgd_comm comm, int64_t timeout_ms) {
  std::shared_ptr<gq::Communicator> communicator;
  gq::Status status = gq::find_communicator(comm, &communicator);
  if (!status.ok()) return status.code();
  int64_t checked_ms = 0;
  status = gq::check_timeout(timeout_ms, &checked_ms);
  if (status.ok()) communicator->endpoint.timeout_ms.store(checked_ms);
  return status.code();
}

gqsgd_status gqsgd_comm_set_counter(gqsgd_comm comm, uint64_t step) {
  std::shared_ptr<gq::Communicator> communicator;
  const gq::Status status = gq::find_communicator(comm, &communicator);
  if (!status.ok()) return status.code();
  if (step > UINT32_MAX) {
    return gq::fail(GQSGD_INVALID_ARGUMENT, "step is %" PRIu64 "; the largest is %u", step,
                    UINT32_MAX)
        .code();
  }
  communicator->next_step.store(step);
  return GQSGD_OK;
}

gqsgd_status gqsgd_comm_reserve(gqsgd_comm comm, gqsgd_quantizer quantizer, size_t value_count,
                                int32_t dtype) {
  return gq::reserve(comm, quantizer, value_count, dtype).code();
}

gqsgd_status gqsgd_comm_stat(gqsgd_comm comm, const char* name, uint64_t* value) {
  return gq::read_stat(comm, name, value).code();
}

gqsgd_status gqsgd_comm_status(gqsgd_comm comm) {
  std::shared_ptr<gq::Communicator> communicator;
  const gq::Status status = gq::find_communicator(comm, &communicator);
  return status.ok() ? communicator->failure().code() : status.code();
}

gqsgd_status gqsgd_comm_abort(gqsgd_comm comm) { return gq::abort(comm).code(); }

gqsgd_status gqsgd_comm_destroy(gqsgd_comm comm) {
  return comm == nullptr ? GQSGD_OK : gq::destroy(comm).code();
}
