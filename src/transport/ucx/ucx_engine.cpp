// A context, a worker and an endpoint per peer; messages by UCX's tag matching.
#include "src/transport/ucx/ucx_engine.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <iterator>
#include <new>
#include <string_view>
#include <utility>

#include "src/support/fork.h"
#include "src/support/shown.h"
#include "src/transport/ucx/blocked_sockets.h"
#include "src/transport/ucx/environment_defaults.h"
#include "src/transport/ucx/ucx_address.h"
#include "src/transport/ucx/ucx_library.h"

namespace gq {
namespace {

/** Threads that are made while it lives get no signal of the program: UCX has a thread that accepts
 *  connections. */
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_;
};

// For the context and the worker. Later versions of UCX have a call that sets them, earlier ones
// only the environment.
constexpr const char* kSettings[] = {
    // Shared memory between ranks of one host, also where a dead peer must be noticed.
    "UCX_SYSV_ERROR_HANDLING=y",
    "UCX_POSIX_ERROR_HANDLING=y",
    // connect() to a host that does not answer would wait for minutes.
    "UCX_TCP_CONN_NB=y",
    // A large message over TCP is done for its sender when it has left, not when the peer, which
    // may
    // leave after its last receive, has acknowledged it.
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

/** A message's channel and sender, by which it is received, and its checksum above them. */
ucx::Tag tag_of(uint32_t channel, uint32_t sender, uint32_t checksum = 0) {
  return static_cast<ucx::Tag>(checksum) << 32 | channel << 24 | sender;
}
constexpr ucx::Tag kMatchedTag = 0xffffffffu;
constexpr uint32_t kChecksumInTag = 32;
constexpr ucx::Tag kSenderInTag = 0xffffffu;

/** Of the messages that a flush sends; the peer drops them. */
constexpr unsigned kFlushMessage = 0;

ucx::Result drop_message(void*, const void*, size_t, void*, size_t, const void*) {
  return ucx::kOk;
}

/** What a send, a greeting and a flush have in common. */
ucx::OperationParameters parameters_of_send(ucx::SendCallback on_sent, UcxRequest* request) {
  ucx::OperationParameters parameters{};
  parameters.op_attr_mask = ucx::kOperationCallback | ucx::kOperationUserData;
  parameters.cb.send = on_sent;
  parameters.user_data = request;
  return parameters;
}

bool is_lost_connection(ucx::Result result) {
  switch (result) {
    case ucx::kIoError:
    case ucx::kUnreachable:
    case ucx::kSharedMemory:  // of a process that is gone
    case ucx::kTimedOut:
    case ucx::kRejected:
    case ucx::kNotConnected:
    case ucx::kConnectionReset:
    case ucx::kEndpointTimeout:
      return true;
    default:
      return false;
  }
}

/** The transports that a description of an endpoint names, once each: its lines have
 *  "lane[0]:  1:tcp/eth0.0 md[0] ...". */
std::string transports_in(std::string_view description) {
  std::string names;
  for (size_t at = 0; (at = description.find("lane[", at)) != std::string_view::npos; ++at) {
    const size_t colon = description.find(':', description.find("]:", at) + 2);
    if (colon == std::string_view::npos) break;
    std::string_view name = description.substr(colon + 1);
    name = name.substr(0, name.find_first_of(" \n"));
    name = name.substr(0, name.rfind('.'));
    if (names.find(name) != std::string::npos) continue;
    if (!names.empty()) names += ' ';
    names += name;
  }
  return names;
}

}  // namespace

struct UcxEngine::State {
  struct Peer {
    State* state = nullptr;
    uint32_t rank = 0;
    ucx::Endpoint endpoint = nullptr;
    bool uses_tcp = false;
  };

  State(const UcxLibrary& library, uint32_t own_rank, uint32_t rank_count)
      : ucx(library), rank(own_rank), failed_peer(rank_count), peers(rank_count) {}
  ~State();

  Status create();
  Status create_context();
  Status create_worker();
  Status pack_address();
  Status check_can_start(uint32_t peer, const UcxRequest& request) const;
  Status check_can_send(uint32_t peer, const UcxRequest& request) const;
  void begin(UcxRequest* request, UcxRequest::Kind kind, uint32_t peer);
  void started(UcxRequest* request, ucx::ResultPointer result);
  bool may_not_be_destroyed() const;
  void close(Peer* peer);
  void unlink(UcxRequest* request);
  void free_request(UcxRequest* request);
  Status failure(const char* call, ucx::Result result) const;
  Status failure(const UcxRequest& request) const;
  Status wrong_size(const UcxRequest& request) const;

  static void on_sent(void* ucx_request, ucx::Result result, void* request);
  static void on_received(void* ucx_request, ucx::Result result, const ucx::TagInfo* info,
                          void* request);
  static void on_failed(void* peer, ucx::Endpoint endpoint, ucx::Result result);

  const UcxLibrary& ucx;
  const uint32_t rank;
  const uint64_t generation = fork_generation();
  uint32_t failed_peer;
  bool is_connected = false;
  int event_fd = -1;
  ucx::Context context = nullptr;
  ucx::Worker worker = nullptr;
  UcxRequest* first_pending = nullptr;
  std::vector<Peer> peers;
  std::vector<unsigned char> address;
  std::string version;
};

/** UCX before 1.14 fails an assertion if its answer to a peer that connects is not sent yet. */
bool UcxEngine::State::may_not_be_destroyed() const {
  if (is_connected || ucx.major != 1 || ucx.minor >= 14) return false;
  for (const Peer& peer : peers) {
    if (peer.endpoint != nullptr) return true;
  }
  return false;
}

UcxEngine::State::~State() {
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

Status UcxEngine::State::create() {
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
    GQ_TRY(create_context());
    GQ_TRY(create_worker());
  }
  return pack_address();
}

Status UcxEngine::State::create_context() {
  ucx::Configuration configuration = nullptr;
  ucx::Result result = ucx.config_read(nullptr, nullptr, &configuration);
  if (result != ucx::kOk) return failure("ucp_config_read", result);
  ucx::ContextParameters parameters{};
  parameters.field_mask =
      ucx::kContextFeatures | ucx::kContextTagSenderMask | ucx::kContextEndpoints;
  parameters.features = ucx::kFeatureTag | ucx::kFeatureWakeup | ucx::kFeatureActiveMessages;
  parameters.tag_sender_mask = kSenderInTag;
  parameters.estimated_num_eps = peers.size();
  result = ucx.init(ucx::kMajor, ucx::kMinorMin, &parameters, configuration, &context);
  ucx.config_release(configuration);
  if (result == ucx::kOk) return Status();
  context = nullptr;
  return failure("ucp_init", result);
}

Status UcxEngine::State::create_worker() {
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

Status UcxEngine::State::pack_address() {
  ucx::Address own = nullptr;
  size_t size_bytes = 0;
  const ucx::Result result = ucx.worker_get_address(worker, &own, &size_bytes);
  if (result != ucx::kOk) return failure("ucp_worker_get_address", result);
  try {
    address = packed_ucx_address(rank, ucx.major, ucx.minor, own, size_bytes);
  } catch (const std::bad_alloc&) {
    ucx.worker_release_address(worker, own);
    throw;
  }
  ucx.worker_release_address(worker, own);
  return Status();
}

Status UcxEngine::State::failure(const char* call, ucx::Result result) const {
  return fail(result == ucx::kNoMemory ? GQSGD_NO_MEMORY : GQSGD_BACKEND,
              "rank %u: %s: UCX error %d (%s) [%s]", rank, call, result, ucx.status_string(result),
              version.c_str());
}

Status UcxEngine::State::wrong_size(const UcxRequest& request) const {
  // UCX cuts a message that is too long, and does not always say how long it was.
  const bool is_known = request.received_bytes_ != request.size_bytes_;
  return fail(GQSGD_PROTOCOL,
              "rank %u: the message of rank %u on channel %u has %s%zu bytes, %zu expected", rank,
              request.peer_, request.channel_, is_known ? "" : "more than ",
              request.received_bytes_, request.size_bytes_);
}

Status UcxEngine::State::failure(const UcxRequest& request) const {
  const ucx::Result result = request.ucx_result_;
  if (result == ucx::kOk || result == ucx::kTruncated) return wrong_size(request);
  constexpr const char* kWhat[] = {"send to", "receive from", "flush to", "greeting of"};
  const char* const what = kWhat[static_cast<size_t>(request.kind_)];
  if (result == ucx::kCancelled || is_lost_connection(result)) {
    return fail(GQSGD_PEER_LOST, "rank %u: the %s rank %u failed: %s (UCX error %d)", rank, what,
                request.peer_, ucx.status_string(result), result);
  }
  return fail(result == ucx::kNoMemory ? GQSGD_NO_MEMORY : GQSGD_BACKEND,
              "rank %u: the %s rank %u failed: UCX error %d (%s) [%s]", rank, what, request.peer_,
              result, ucx.status_string(result), version.c_str());
}

Status UcxEngine::State::check_can_start(uint32_t peer, const UcxRequest& request) const {
  if (peer >= peers.size() || request.is_pending()) {
    return fail(GQSGD_INTERNAL, "rank %u: a message of rank %u of %zu with a request that is %s",
                rank, peer, peers.size(), request.is_pending() ? "pending" : "idle");
  }
  return Status();
}

Status UcxEngine::State::check_can_send(uint32_t peer, const UcxRequest& request) const {
  GQ_TRY(check_can_start(peer, request));
  if (peers[peer].endpoint != nullptr) return Status();
  return fail(GQSGD_INTERNAL, "rank %u: rank %u is not connected", rank, peer);
}

void UcxEngine::State::begin(UcxRequest* request, UcxRequest::Kind kind, uint32_t peer) {
  request->state_ = UcxRequest::State::started;
  request->kind_ = kind;
  request->ucx_result_ = ucx::kOk;
  request->peer_ = peer;
  request->ucx_request_ = nullptr;
  request->before_ = nullptr;
  request->next_ = first_pending;
  if (first_pending != nullptr) first_pending->before_ = request;
  first_pending = request;
}

void UcxEngine::State::unlink(UcxRequest* request) {
  if (request->before_ != nullptr) request->before_->next_ = request->next_;
  if (request->before_ == nullptr) first_pending = request->next_;
  if (request->next_ != nullptr) request->next_->before_ = request->before_;
}

/** After UCX returned from starting it: the callback may have completed it already. */
void UcxEngine::State::started(UcxRequest* request, ucx::ResultPointer result) {
  if (request->state_ != UcxRequest::State::started) return;
  if (result != nullptr && !ucx::is_failure(result)) {
    request->ucx_request_ = result;
    return;
  }
  request->ucx_result_ = result == nullptr ? ucx::kOk : ucx::failure_in(result);
  request->state_ = UcxRequest::State::completed;
}

void UcxEngine::State::on_sent(void* ucx_request, ucx::Result result, void* request) {
  auto* const completed = static_cast<UcxRequest*>(request);
  completed->ucx_result_ = result;
  completed->ucx_request_ = ucx_request;
  completed->state_ = UcxRequest::State::completed;
}

void UcxEngine::State::on_received(void* ucx_request, ucx::Result result, const ucx::TagInfo* info,
                                   void* request) {
  if (info != nullptr) {
    auto* const received = static_cast<UcxRequest*>(request);
    received->received_bytes_ = info->length;
    received->checksum_ = static_cast<uint32_t>(info->sender_tag >> kChecksumInTag);
  }
  on_sent(ucx_request, result, request);
}

void UcxEngine::State::on_failed(void* peer, ucx::Endpoint, ucx::Result) {
  const auto* const failed = static_cast<const Peer*>(peer);
  State* const state = failed->state;
  if (state->failed_peer == state->peers.size()) state->failed_peer = failed->rank;
}

/** One that is not completed is freed when it is. */
void UcxEngine::State::free_request(UcxRequest* request) {
  if (request->ucx_request_ != nullptr) ucx.request_free(request->ucx_request_);
  request->ucx_request_ = nullptr;
}

/** Without any exchange with the peer, which may be dead. */
void UcxEngine::State::close(Peer* peer) {
  if (peer->endpoint == nullptr) return;
  ucx::OperationParameters parameters{};
  parameters.op_attr_mask = ucx::kOperationFlags;
  parameters.flags = ucx::kCloseForce;
  const ucx::ResultPointer result = ucx.ep_close(peer->endpoint, &parameters);
  if (result != nullptr && !ucx::is_failure(result)) ucx.request_free(result);
  peer->endpoint = nullptr;
}

UcxEngine::UcxEngine(std::unique_ptr<State> state) : state_(std::move(state)) {}

// In a child the connections are the parent's: to close them would end them for the parent, too.
UcxEngine::~UcxEngine() {
  if (state_->generation != fork_generation() || state_->may_not_be_destroyed()) {
    (void)state_.release();
  }
}

Status UcxEngine::open(const UcxOptions& options, uint32_t rank, uint32_t size,
                       std::unique_ptr<UcxEngine>* out) {
  GQ_TRY(watch_forks());
  const UcxLibrary* library = nullptr;
  GQ_TRY(open_ucx(options.library, &library));
  const SignalsBlocked blocked;
  try {
    auto state = std::make_unique<State>(*library, rank, size);
    GQ_TRY(state->create());
    out->reset(new UcxEngine(std::move(state)));
  } catch (const std::bad_alloc&) {
    return fail(GQSGD_NO_MEMORY, "rank %u: no memory for the connections to %u ranks", rank, size);
  }
  return Status();
}

const std::vector<unsigned char>& UcxEngine::address() const { return state_->address; }

Status UcxEngine::connect(uint32_t peer, const unsigned char* address, size_t size_bytes) {
  State& state = *state_;
  if (peer >= state.peers.size() || state.peers[peer].endpoint != nullptr) {
    return fail(GQSGD_INTERNAL, "rank %u: rank %u of %zu is connected twice", state.rank, peer,
                state.peers.size());
  }
  GQ_TRY(check_ucx_address(peer, state.ucx.major, state.ucx.minor, address, size_bytes));
  ucx::EndpointParameters parameters{};
  parameters.field_mask =
      ucx::kEndpointAddress | ucx::kEndpointErrorMode | ucx::kEndpointErrorHandler;
  parameters.address =
      reinterpret_cast<const ucx::OpaqueAddress*>(address + sizeof(UcxAddressHeader));
  parameters.err_mode = ucx::kErrorModePeer;
  parameters.err_handler = {State::on_failed, &state.peers[peer]};
  const SignalsBlocked blocked;
  ucx::Endpoint endpoint = nullptr;
  const ucx::Result result = state.ucx.ep_create(state.worker, &parameters, &endpoint);
  if (result == ucx::kOk) {
    state.peers[peer].endpoint = endpoint;
    return find_tcp(peer);
  }
  return fail(result == ucx::kNoMemory ? GQSGD_NO_MEMORY : GQSGD_BACKEND,
              "rank %u cannot reach rank %u: ucp_ep_create: UCX error %d (%s); UCX_TLS and "
              "UCX_NET_DEVICES limit what it may use [%s]",
              state.rank, peer, result, state.ucx.status_string(result), state.version.c_str());
}

Status UcxEngine::find_tcp(uint32_t peer) {
  try {
    state_->peers[peer].uses_tcp = transports_to(peer).find("tcp/") != std::string::npos;
  } catch (const std::bad_alloc&) {
    return fail(GQSGD_NO_MEMORY, "rank %u: no memory for the connection to rank %u", state_->rank,
                peer);
  }
  return Status();
}

Status UcxEngine::start_send(uint32_t peer, uint32_t channel, const void* bytes, size_t size_bytes,
                             UcxRequest* request, uint32_t checksum) {
  State& state = *state_;
  GQ_TRY(state.check_can_send(peer, *request));
  state.begin(request, UcxRequest::Kind::send, peer);
  request->channel_ = channel;
  request->size_bytes_ = size_bytes;
  ucx::OperationParameters parameters = parameters_of_send(State::on_sent, request);
  parameters.op_attr_mask |= ucx::kOperationMemoryType;
  parameters.memory_type = ucx::kMemoryHost;
  state.started(request, state.ucx.tag_send(state.peers[peer].endpoint, bytes, size_bytes,
                                            tag_of(channel, state.rank, checksum), &parameters));
  return Status();
}

Status UcxEngine::start_receive(uint32_t peer, uint32_t channel, void* bytes, size_t size_bytes,
                                UcxRequest* request) {
  State& state = *state_;
  GQ_TRY(state.check_can_start(peer, *request));
  state.begin(request, UcxRequest::Kind::receive, peer);
  request->channel_ = channel;
  request->size_bytes_ = size_bytes;
  request->received_bytes_ = size_bytes;
  ucx::OperationParameters parameters{};
  // UCX 1.13 gives the size of a message to the callback only.
  parameters.op_attr_mask = ucx::kOperationCallback | ucx::kOperationUserData |
                            ucx::kOperationMemoryType | ucx::kOperationNotAtOnce;
  parameters.cb.recv = State::on_received;
  parameters.user_data = request;
  parameters.memory_type = ucx::kMemoryHost;
  state.started(request, state.ucx.tag_receive(state.worker, bytes, size_bytes,
                                               tag_of(channel, peer), kMatchedTag, &parameters));
  return Status();
}

Status UcxEngine::start_greeting(uint32_t peer, uint32_t channel, UcxRequest* request) {
  State& state = *state_;
  GQ_TRY(state.check_can_send(peer, *request));
  state.begin(request, UcxRequest::Kind::greeting, peer);
  request->channel_ = channel;
  const ucx::OperationParameters parameters = parameters_of_send(State::on_sent, request);
  state.started(request, state.ucx.tag_send_sync(state.peers[peer].endpoint, nullptr, 0,
                                                 tag_of(channel, state.rank), &parameters));
  return Status();
}

Status UcxEngine::start_flush(uint32_t peer, UcxRequest* request) {
  State& state = *state_;
  GQ_TRY(state.check_can_send(peer, *request));
  state.begin(request, UcxRequest::Kind::flush, peer);
  const ucx::OperationParameters parameters = parameters_of_send(State::on_sent, request);
  const State::Peer& to = state.peers[peer];
  // ucp_ep_flush() over TCP waits for an answer, which a peer gives when it progresses. So there is
  // a message instead: it begins when the bytes before it have left UCX's buffer.
  state.started(request, to.uses_tcp
                             ? state.ucx.active_message_send(to.endpoint, kFlushMessage, nullptr, 0,
                                                             nullptr, 0, &parameters)
                             : state.ucx.ep_flush(to.endpoint, &parameters));
  return Status();
}

Status UcxEngine::test(UcxRequest* request, bool* done) {
  *done = request->state_ == UcxRequest::State::completed;
  if (request->state_ == UcxRequest::State::started) return Status();
  if (!*done) return fail(GQSGD_INTERNAL, "rank %u: test of an idle request", state_->rank);
  state_->free_request(request);
  state_->unlink(request);
  request->state_ = UcxRequest::State::idle;
  if (request->ucx_result_ == ucx::kOk && (request->kind_ != UcxRequest::Kind::receive ||
                                           request->received_bytes_ == request->size_bytes_)) {
    return Status();
  }
  return state_->failure(*request);
}

bool UcxEngine::progress() { return state_->ucx.worker_progress(state_->worker) != 0; }

int UcxEngine::event_fd() const { return state_->event_fd; }

Status UcxEngine::arm(bool* may_sleep) {
  const ucx::Result result = state_->ucx.worker_arm(state_->worker);
  *may_sleep = result == ucx::kOk;
  if (result == ucx::kOk || result == ucx::kBusy) return Status();
  return state_->failure("ucp_worker_arm", result);
}

uint32_t UcxEngine::failed_peer() const { return state_->failed_peer; }

void UcxEngine::set_connected() { state_->is_connected = true; }

const std::string& UcxEngine::version() const { return state_->version; }

std::string UcxEngine::transports_to(uint32_t peer) const {
  const State& state = *state_;
  if (peer >= state.peers.size() || state.peers[peer].endpoint == nullptr) return "";
  char* description = nullptr;
  size_t size_bytes = 0;
  FILE* const stream = open_memstream(&description, &size_bytes);
  if (stream == nullptr) throw std::bad_alloc();
  state.ucx.ep_print_info(state.peers[peer].endpoint, stream);
  fclose(stream);
  const std::unique_ptr<char, decltype(&free)> owner(description, free);
  return transports_in(std::string_view(description, size_bytes));
}

}  // namespace gq
