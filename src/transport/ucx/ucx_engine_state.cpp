// A context and a worker: how they are made, and how they end.
#include "src/transport/ucx/ucx_engine_state.h"

#include <stdio.h>
#include <stdlib.h>

#include <atomic>
#include <iterator>
#include <new>

#include "src/transport/ucx/blocked_sockets.h"
#include "src/transport/ucx/environment_defaults.h"
#include "src/transport/ucx/ucx_address.h"

namespace gq {
namespace {

// For the context and the worker. Later versions of UCX have a call that sets them, earlier ones
// only the environment.
constexpr const char* kSettings[] = {
    // UCX has two kinds of shared memory, and makes both. This one takes half of the time to make
    // an engine, and leaves a file behind where a process is killed.
    "UCX_TLS=^posix",
    // Shared memory between ranks of one host, also where a dead peer must be noticed.
    "UCX_SYSV_ERROR_HANDLING=y",
    "UCX_POSIX_ERROR_HANDLING=y",
    // connect() to a host that does not answer would wait for minutes.
    "UCX_TCP_CONN_NB=y",
    // A large message over TCP is done for its sender when it has left, not when the peer, which
    // may leave after its last receive, has acknowledged it.
    "UCX_TCP_PUT_ENABLE=n",
    // Of what is copied before it is sent. The 8 KiB that are UCX's own cost 1.13 a fifth more
    // processor time for a message of codes.
    "UCX_TCP_TX_SEG_SIZE=64k",
    // Before UCX 1.14 alone: a peer that leaves in the middle of a message of 64 MiB that is not
    // copied ends this process by an assertion.
    "UCX_ZCOPY_THRESH=inf",
};
constexpr unsigned kMinorThatOutlivesPeers = 14;

size_t setting_count(const UcxLibrary& ucx) {
  return std::size(kSettings) - (ucx.minor < kMinorThatOutlivesPeers ? 0 : 1);
}

// Engines that have not been destroyed, those included that are being made, and the generation of
// forks of the newest.
std::atomic<uint32_t> engine_count{0};
std::atomic<uint64_t> engine_generation{0};

ucx::Result drop_message(void*, const void*, size_t, void*, size_t, const void*) {
  return ucx::kOk;
}

}  // namespace

UcxEngineState::UcxEngineState(const UcxLibrary& library, const UcxOptions& options,
                               uint32_t own_rank, uint32_t rank_count)
    : ucx(library),
      paths(options.paths),
      rank(own_rank),
      failed_peer(rank_count),
      peers(rank_count) {}

CountedEngine::CountedEngine() {
  engine_generation = fork_generation();
  engine_count += 1;
}

CountedEngine::~CountedEngine() { engine_count -= 1; }

Status UcxEngineState::check_process(uint32_t rank) {
  if (engine_count == 0 || engine_generation == fork_generation()) return Status();
  return fail(GQSGD_UNSUPPORTED,
              "rank %u is in a forked child of a process that has a group over UCX: the thread of "
              "UCX that accepts connections stays with the parent; start the process by exec "
              "(multiprocessing: spawn or forkserver), or fork before the group is made",
              rank);
}

/** UCX before 1.14 fails an assertion if its answer to a peer that connects is not sent yet. */
bool UcxEngineState::may_not_be_destroyed() const {
  if (is_connected || ucx.major != 1 || ucx.minor >= 14) return false;
  for (const Peer& peer : peers) {
    if (!peer.endpoints.empty()) return true;
  }
  return false;
}

UcxEngineState::~UcxEngineState() {
  // UCX 1.22 sends each peer a last message, and repeats that without end while the peer's machine,
  // or the peer, takes nothing more.
  end_blocked_sockets(event_fd);
  for (Peer& peer : peers) close(&peer);
  for (UcxRequest* request = first_pending; request != nullptr; request = request->next_) {
    free_request(request);
  }
  if (worker != nullptr) ucx.worker_destroy(worker);  // may complete some of them
  if (context != nullptr) ucx.cleanup(context);
  while (first_pending != nullptr) {
    first_pending->state_ = UcxRequest::State::idle;
    unlink(first_pending);
  }
}

Status UcxEngineState::create(const std::string& devices) {
  descriptors.note_sockets();
  char text[64];
  snprintf(text, sizeof text, "UCX %u.%u.%u (", ucx.major, ucx.minor, ucx.release);
  version = std::string(text) + ucx.path + ")";
  for (uint32_t peer = 0; peer < peers.size(); ++peer) {
    peers[peer].state = this;
    peers[peer].rank = peer;
  }
  {
    const EnvironmentDefaults settings(kSettings, setting_count(ucx));
    if (!settings.is_set()) return fail(GQSGD_NO_MEMORY, "no memory for the settings of UCX");
    GQ_TRY(create_context(devices));
    GQ_TRY(create_worker());
  }
  return pack_address();
}

Status UcxEngineState::create_context(const std::string& devices) {
  ucx::Configuration configuration = nullptr;
  ucx::Result result = ucx.config_read(nullptr, nullptr, &configuration);
  if (result != ucx::kOk) return failure("ucp_config_read", result);
  if (!devices.empty() && getenv("UCX_NET_DEVICES") == nullptr) {
    result = ucx.config_modify(configuration, "NET_DEVICES", devices.c_str());
    if (result != ucx::kOk) {
      ucx.config_release(configuration);
      return failure("ucp_config_modify", result);
    }
  }
  ucx::ContextParameters parameters{};
  parameters.field_mask =
      ucx::kContextFeatures | ucx::kContextTagSenderMask | ucx::kContextEndpoints;
  parameters.features = ucx::kFeatureTag | ucx::kFeatureWakeup | ucx::kFeatureActiveMessages;
  parameters.tag_sender_mask = kSenderInTag;
  parameters.estimated_num_eps = peers.size() * paths;
  result = ucx.init(ucx::kMajor, ucx::kMinorMin, &parameters, configuration, &context);
  ucx.config_release(configuration);
  if (result == ucx::kOk) return Status();
  context = nullptr;
  return failure("ucp_init", result);
}

Status UcxEngineState::create_worker() {
  ucx::WorkerParameters parameters{};
  parameters.field_mask = ucx::kWorkerThreadMode | ucx::kWorkerFlags;
  parameters.thread_mode = ucx::kThreadsSerialized;
  parameters.flags = ucx::kIgnoreRequestLeak;
  ucx::Result result = ucx.worker_create(context, &parameters, &worker);
  if (result != ucx::kOk) {
    worker = nullptr;
    return failure("ucp_worker_create", result);
  }
  ucx::HandlerParameters handler{};
  handler.field_mask = ucx::kHandlerId | ucx::kHandlerCallback;
  handler.id = kFlushMessage;
  handler.cb = drop_message;
  result = ucx.worker_set_handler(worker, &handler);
  if (result != ucx::kOk) return failure("ucp_worker_set_am_recv_handler", result);
  result = ucx.worker_get_efd(worker, &event_fd);
  return result == ucx::kOk ? Status() : failure("ucp_worker_get_efd", result);
}

Status UcxEngineState::pack_address() {
  ucx::Address own = nullptr;
  size_t size_bytes = 0;
  const ucx::Result result = ucx.worker_get_address(worker, &own, &size_bytes);
  if (result != ucx::kOk) return failure("ucp_worker_get_address", result);
  try {
    address = packed_ucx_address({rank, paths, ucx.major, ucx.minor}, own, size_bytes);
  } catch (const std::bad_alloc&) {
    ucx.worker_release_address(worker, own);
    throw;
  }
  ucx.worker_release_address(worker, own);
  return Status();
}

Status UcxEngineState::failure(const char* call, ucx::Result result) const {
  return fail(result == ucx::kNoMemory ? GQSGD_NO_MEMORY : GQSGD_BACKEND,
              "rank %u: %s: UCX error %d (%s) [%s]", rank, call, result, ucx.status_string(result),
              version.c_str());
}

/** Without any exchange with the peer, which may be dead. */
void UcxEngineState::close(Peer* peer) {
  ucx::OperationParameters parameters{};
  parameters.op_attr_mask = ucx::kOperationFlags;
  parameters.flags = ucx::kCloseForce;
  for (const ucx::Endpoint endpoint : peer->endpoints) {
    const ucx::ResultPointer result = ucx.ep_close(endpoint, &parameters);
    if (result != nullptr && !ucx::is_failure(result)) ucx.request_free(result);
  }
  peer->endpoints.clear();
}

}  // namespace gq
