// The communicators of this process: their table, and who is inside.
#include "src/api/communicator/communicator.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "src/api/communicator/comm_log.h"
#include "src/api/handles.h"
#include "src/api/instruction_set.h"
#include "src/api/other_requests.h"
#include "src/api/quantizer/quantizer_spec.h"
#include "src/call/progress_loop.h"
#include "src/execute/stage_times.h"
#include "src/support/immortal.h"
#include "src/support/posix/fork.h"

namespace gq {
namespace {

using CommunicatorTable = HandleTable<Communicator, HandleType::communicator>;

CommunicatorTable& communicators() { return immortal<CommunicatorTable>(); }

/** The same for threads that only query; null before the first communicator. A signal handler must
 *  not create the table. */
std::atomic<CommunicatorTable*> seen_communicators{nullptr};

Status open_device_end(const Device& device, Communicator* communicator) {
  StreamConfig config{&device, 0, &communicator->endpoint.timeout_ms,
                      &communicator->endpoint.wait_ns};
  GQ_TRY(device.current(&config.ordinal));
  return communicator->endpoint.host->streams()->open_streams(config, &communicator->device_end);
}

Status open_stream_calls(Communicator* communicator) {
  std::unique_ptr<StreamCalls> calls(new (std::nothrow) StreamCalls(
      &communicator->endpoint, communicator->device_end.get(), &communicator->next_step));
  if (!calls) return fail(GQSGD_NO_MEMORY, "no memory for a communicator");
  GQ_TRY(calls->open());
  communicator->on_streams = std::move(calls);
  communicator->seen_on_streams.store(communicator->on_streams.get(), std::memory_order_release);
  return Status();
}

}  // namespace

Status use_stream(void* stream, Communicator* communicator) {
  const Device* device = nullptr;
  GQ_TRY(device_of(stream, &device));
  if (communicator->endpoint.messages.on()) {
    return fail(GQSGD_UNSUPPORTED,
                "rank %u: buffers are memory of a device, whose words move on streams and have no "
                "checksums; make the communicator without checksum=crc32c",
                communicator->endpoint.rank());
  }
  if (communicator->on_streams) return Status();
  if (is_captured(*communicator, stream)) {
    return fail(GQSGD_UNSUPPORTED,
                "stream %p is being captured, and a call of this kind has not been made: make it "
                "once before the capture, so that ranks agree on it and memory is there",
                stream);
  }
  if (!communicator->device_end) GQ_TRY(open_device_end(*device, communicator));
  return open_stream_calls(communicator);
}

bool is_captured(const Communicator& communicator, void* stream) {
  const Device* device = nullptr;
  bool capturing = false;
  if (stream == nullptr || communicator.has_streams_only()) return false;
  if (communicator.endpoint.host->streams() == nullptr) return false;
  if (!device_of(stream, &device).ok()) return false;
  OnDevice here(*device);
  const StreamTransport* const there = communicator.device_end.get();
  const bool entered = there == nullptr || here.enter(there->ordinal()).ok();
  if (entered) (void)device->is_capturing(stream, &capturing).ok();
  return capturing;
}

namespace {

/** Where all ranks are known to be making their communicators, they measure at once. */
Status measure_now(Communicator* communicator) {
  Endpoint& endpoint = communicator->endpoint;
  const bool can = endpoint.host != nullptr && endpoint.host->has_met_all();
  return can && endpoint.choice.needs_measuring() ? measure_costs(endpoint) : Status();
}

/** What a communicator continues; both are null of a new one. */
struct Continued {
  const Continuation* group = nullptr;  ///< its ranks agree on what it says
  const uint64_t* step = nullptr;       ///< they have agreed on this
};

/** What the group continues, and the costs that it then does not have. */
Status get_ready(const Continued& continued, Communicator* communicator) {
  uint64_t step = 0;
  if (continued.step != nullptr) communicator->next_step.store(*continued.step);
  if (continued.group != nullptr) {
    GQ_TRY(continue_group(communicator->endpoint, *continued.group, &step));
    communicator->next_step.store(step);
  }
  log_created(*communicator, communicator->options);
  // A rank of survivors that dies now would keep some of them from their group.
  return continued.step == nullptr ? measure_now(communicator) : Status();
}

/** The group is there: ranks that have their communicators are told why this one has none. */
Status open_endpoint(Transport* transport, const CommOptions& options,
                     Communicator* communicator) {
  Workers* const workers = &communicator->workers;
  const uint32_t operands = std::max(transport->size(), StageTimes::kOperands);
  Status opened = workers->start(options.threads, transport->rank(), operands);
  if (opened.ok()) opened = fill_endpoint(transport, options, workers, &communicator->endpoint);
  if (opened.ok() && communicator->has_streams_only()) opened = open_stream_calls(communicator);
  Endpoint& endpoint = communicator->endpoint;
  if (endpoint.on_callers_threads()) endpoint.while_waiting = progress_other_requests;
  if (!opened.ok()) transport->abort_group(opened.code(), transport->rank());
  return opened;
}

/** One of the two ends is there. */
Status add(std::unique_ptr<HostTransport> host, std::unique_ptr<StreamTransport> streams,
           const char* name, const CommOptions& options, const Continued& continued,
           gqsgd_comm* comm) {
  std::shared_ptr<Communicator> communicator;
  try {
    communicator = std::make_shared<Communicator>();
    communicator->transport_name = name;
    communicator->options = options;
  } catch (const std::bad_alloc&) {
    return fail(GQSGD_NO_MEMORY, "no memory for a communicator");
  }
  GQ_TRY(watch_forks());
  communicator->fork_generation = fork_generation();
  Transport* transport = host.get();
  if (transport == nullptr) transport = streams.get();
  communicator->endpoint.host = std::move(host);
  communicator->device_end = std::move(streams);
  GQ_TRY(open_endpoint(transport, options, communicator.get()));
  seen_communicators.store(&communicators(), std::memory_order_release);
  const uintptr_t token = communicators().add(communicator);
  if (token == 0) return fail(GQSGD_NO_MEMORY, "no memory for a communicator");
  communicator->handle = reinterpret_cast<gqsgd_comm>(token);
  name_in_log(communicator.get(), token);
  const Status ready = get_ready(continued, communicator.get());
  if (ready.ok()) {
    *comm = communicator->handle;
  } else {
    communicators().remove(token);
  }
  return ready;
}

}  // namespace

Status add_communicator(std::unique_ptr<HostTransport> transport, const char* name,
                        const CommOptions& options, gqsgd_comm* comm) {
  return add(std::move(transport), nullptr, name, options, {}, comm);
}

Status add_communicator(std::unique_ptr<HostTransport> transport, const char* name,
                        const CommOptions& options, const Continuation* continued,
                        gqsgd_comm* comm) {
  return add(std::move(transport), nullptr, name, options, {continued, nullptr}, comm);
}

Status add_survivor(std::unique_ptr<HostTransport> transport, const char* name,
                    const CommOptions& options, uint64_t step, gqsgd_comm* comm) {
  return add(std::move(transport), nullptr, name, options, {nullptr, &step}, comm);
}

Status add_communicator(std::unique_ptr<StreamTransport> transport, const char* name,
                        const CommOptions& options, gqsgd_comm* comm) {
  return add(nullptr, std::move(transport), name, options, {}, comm);
}

uint64_t counter_of(const Communicator& communicator) {
  const StreamCalls* const calls = communicator.seen_on_streams.load(std::memory_order_acquire);
  return calls != nullptr ? calls->counter() : communicator.next_step.load();
}

std::shared_ptr<Communicator> remove_communicator(gqsgd_comm comm) {
  return communicators().remove(reinterpret_cast<uintptr_t>(comm));
}

namespace {

Status check_found(gqsgd_comm comm, const Communicator* found) {
  if (comm == nullptr) {
    return fail(GQSGD_BAD_HANDLE, "communicator is NULL: it was not made, or has been closed");
  }
  if (found == nullptr) {
    return fail(GQSGD_BAD_HANDLE,
                "communicator %p is not a live communicator of this process: it is destroyed, or "
                "of another type",
                static_cast<void*>(comm));
  }
  if (found->fork_generation == fork_generation()) return Status();
  return fail(GQSGD_FORKED,
              "rank %u's communicator belongs to the parent of this process; make a new one after "
              "fork()",
              found->endpoint.rank());
}

}  // namespace

SharedAccess::~SharedAccess() {
  // Released: what was read here was read before destroy continues. The last touch of it.
  if (visits_ != nullptr) visits_->fetch_sub(1, std::memory_order_release);
}

gqsgd_status SharedAccess::find(gqsgd_comm comm) {
  CommunicatorTable* const table = seen_communicators.load(std::memory_order_acquire);
  if (table == nullptr) return GQSGD_BAD_HANDLE;
  communicator_ = table->access(reinterpret_cast<uintptr_t>(comm), &visits_);
  if (communicator_ == nullptr) return GQSGD_BAD_HANDLE;
  return communicator_->fork_generation == fork_generation() ? GQSGD_OK : GQSGD_FORKED;
}

Status SharedAccess::begin(gqsgd_comm comm) {
  const gqsgd_status found = find(comm);
  return found == GQSGD_OK ? Status() : check_found(comm, communicator_);
}

namespace {

/** False if another thread is in a call. */
bool occupy(Communicator* communicator) {
  for (;;) {
    Occupant found = Occupant::none;
    if (communicator->occupant.compare_exchange_strong(found, Occupant::caller,
                                                       std::memory_order_acquire)) {
      return true;
    }
    if (found == Occupant::caller) return false;
    std::this_thread::sleep_for(std::chrono::microseconds(10));
  }
}

}  // namespace

ExclusiveAccess::~ExclusiveAccess() {
  if (entered_) communicator_->occupant.store(Occupant::none, std::memory_order_release);
}

Status ExclusiveAccess::enter(gqsgd_comm comm) {
  std::shared_ptr<Communicator> found = communicators().find(reinterpret_cast<uintptr_t>(comm));
  GQ_TRY(check_found(comm, found.get()));
  return enter(std::move(found));
}

Status ExclusiveAccess::enter(std::shared_ptr<Communicator> communicator) {
  communicator_ = std::move(communicator);
  entered_ = occupy(communicator_.get());
  if (entered_) return Status();
  return fail(GQSGD_BUSY,
              "rank %u's communicator is in use by another thread; one thread at a time may call",
              communicator_->endpoint.rank());
}

namespace {

/** May throw std::bad_alloc. */
Status fill_nodes(const Transport& transport, const CommOptions& options, Nodes* nodes) {
  std::vector<uint32_t> ids = options.nodes;
  if (!ids.empty() && ids.size() != transport.size()) {
    return fail(GQSGD_INVALID_ARGUMENT, "option nodes has %zu numbers; this group has %u ranks",
                ids.size(), transport.size());
  }
  for (uint32_t rank = static_cast<uint32_t>(ids.size()); rank < transport.size(); ++rank) {
    ids.push_back(transport.node_of(rank));
  }
  *nodes = Nodes(ids);
  return Status();
}

/** Words that travel have checksums unless they are switched off; those in shared memory have them
 *  where that is asked for. */
Status find_checksum(const Endpoint& endpoint, const CommOptions& options, ChecksumKind* checksum) {
  const bool on_host = endpoint.host != nullptr;
  const bool travels = on_host && !endpoint.host->reads_in_place();
  *checksum = options.checksum.value_or(travels ? ChecksumKind::crc32c : ChecksumKind::off);
  if (on_host || *checksum == ChecksumKind::off) return Status();
  return fail(GQSGD_UNSUPPORTED,
              "option checksum=crc32c: words that move on streams have no checksums; groups of "
              "threads, processes, networks and custom transports have them");
}

}  // namespace

Status fill_endpoint(Transport* transport, const CommOptions& options, Workers* workers,
                     Endpoint* endpoint) {
  GQ_TRY(find_cpu_stages(&endpoint->stages));
  endpoint->workers = workers;
  endpoint->write_spec = write_short_spec;
  const uint32_t ranks = transport->size();
  ChecksumKind checksum = ChecksumKind::off;
  GQ_TRY(find_checksum(*endpoint, options, &checksum));
  try {
    GQ_TRY(fill_nodes(*transport, options, &endpoint->nodes));
    endpoint->set_transport(transport);
    endpoint->messages.open(endpoint->host.get(), checksum);
    // In shared memory it would take 2 to 8 % of a call (docs/decisions/0035-integrity.md).
    endpoint->result.on = endpoint->host != nullptr && !endpoint->reads_in_place();
  } catch (const std::bad_alloc&) {
    return fail(GQSGD_NO_MEMORY, "no memory for a group of %u ranks", ranks);
  }
  endpoint->chunk_value_count = options.chunk_value_count;
  endpoint->stream_chunk_value_count = options.chunk_value_count;
  if (options.chunk_value_count == 0) {
    endpoint->stream_chunk_value_count = kChunkValueCountOnStreams;
    endpoint->chunk_value_count =
        endpoint->has_streams_only() ? kChunkValueCountOnStreams
                                     : default_chunk_value_count(endpoint->reads_in_place(), ranks);
  }
  if (endpoint->reads_in_place()) endpoint->nontemporal_bytes = options.nontemporal_bytes;
  endpoint->stream_id = options.stream_id;
  endpoint->choice.set(options.choice);
  endpoint->timeout_ms.store(options.timeout_ms, std::memory_order_relaxed);
  return Status();
}

}  // namespace gq
