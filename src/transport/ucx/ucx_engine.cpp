// An endpoint per peer and path; messages by UCX's tag matching.
#include "src/transport/ucx/ucx_engine.h"

#include <stdio.h>
#include <stdlib.h>

#include <memory>
#include <new>
#include <string_view>
#include <utility>

#include "src/support/posix/fork.h"
#include "src/support/posix/signals_blocked.h"
#include "src/transport/ucx/ucx_address.h"
#include "src/transport/ucx/ucx_engine_state.h"

namespace gq {
namespace {

/** What a send, a greeting and a flush have in common. */
ucx::OperationParameters parameters_of_send(ucx::SendCallback on_sent, UcxRequest* request) {
  ucx::OperationParameters parameters{};
  parameters.op_attr_mask = ucx::kOperationCallback | ucx::kOperationUserData;
  parameters.cb.send = on_sent;
  parameters.user_data = request;
  return parameters;
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
UcxEngine::UcxEngine(std::unique_ptr<UcxEngineState> state) : state_(std::move(state)) {}

// In a child the connections are the parent's: to close them would end them for the parent, too.
UcxEngine::~UcxEngine() {
  if (state_->generation != fork_generation() || state_->may_not_be_destroyed()) {
    (void)state_.release();
  }
}

Status UcxEngine::open(const UcxOptions& options, uint32_t rank, uint32_t size,
                       std::unique_ptr<UcxEngine>* out) {
  GQ_TRY(watch_forks());
  GQ_TRY(UcxEngineState::check_process(rank));
  const CountedEngine made;
  const UcxLibrary* library = nullptr;
  GQ_TRY(open_ucx(options.library, &library));
  const SignalsBlocked blocked;  // UCX has a thread that accepts connections
  try {
    auto state = std::make_unique<UcxEngineState>(*library, options, rank, size);
    GQ_TRY(state->create(options.devices));
    out->reset(new UcxEngine(std::move(state)));
  } catch (const std::bad_alloc&) {
    return fail(GQSGD_NO_MEMORY, "rank %u: no memory for the connections to %u ranks", rank, size);
  }
  return Status();
}

uint32_t UcxEngine::paths() const { return state_->paths; }

const std::vector<unsigned char>& UcxEngine::address() const { return state_->address; }

Status UcxEngine::connect(uint32_t peer, const unsigned char* address, size_t size_bytes) {
  UcxEngineState& state = *state_;
  if (peer >= state.peers.size() || !state.peers[peer].endpoints.empty()) {
    return fail(GQSGD_INTERNAL, "rank %u: rank %u of %zu is connected twice", state.rank, peer,
                state.peers.size());
  }
  const UcxEnd own{state.rank, state.paths, state.ucx.major, state.ucx.minor};
  GQ_TRY(check_ucx_address(peer, own, address, size_bytes));
  ucx::EndpointParameters parameters{};
  parameters.field_mask =
      ucx::kEndpointAddress | ucx::kEndpointErrorMode | ucx::kEndpointErrorHandler;
  parameters.address =
      reinterpret_cast<const ucx::OpaqueAddress*>(address + sizeof(UcxAddressHeader));
  parameters.err_mode = ucx::kErrorModePeer;
  parameters.err_handler = {UcxEngineState::on_failed, &state.peers[peer]};
  const SignalsBlocked blocked;
  try {
    state.peers[peer].endpoints.reserve(state.paths);
  } catch (const std::bad_alloc&) {
    return no_memory(peer);
  }
  for (uint32_t path = 0; path < state.paths; ++path) {
    ucx::Endpoint endpoint = nullptr;
    const ucx::Result result = state.ucx.ep_create(state.worker, &parameters, &endpoint);
    if (result != ucx::kOk) {
      return fail(result == ucx::kNoMemory ? GQSGD_NO_MEMORY : GQSGD_BACKEND,
                  "rank %u cannot reach rank %u: ucp_ep_create: UCX error %d (%s); UCX_TLS and "
                  "UCX_NET_DEVICES limit what it may use [%s]",
                  state.rank, peer, result, state.ucx.status_string(result),
                  state.version.c_str());
    }
    state.peers[peer].endpoints.push_back(endpoint);
  }
  return find_tcp(peer);
}

Status UcxEngine::no_memory(uint32_t peer) const {
  return fail(GQSGD_NO_MEMORY, "rank %u: no memory for the connection to rank %u", state_->rank,
              peer);
}

Status UcxEngine::find_tcp(uint32_t peer) {
  try {
    state_->peers[peer].uses_tcp = transports_to(peer).find("tcp/") != std::string::npos;
  } catch (const std::bad_alloc&) {
    return no_memory(peer);
  }
  return Status();
}

Status UcxEngine::start_send(uint32_t peer, uint32_t channel, const void* bytes, size_t size_bytes,
                             UcxRequest* request, uint32_t checksum) {
  UcxEngineState& state = *state_;
  GQ_TRY(state.check_can_send(peer, *request));
  state.begin(request, UcxRequest::Kind::send, peer);
  request->channel_ = channel;
  request->size_bytes_ = size_bytes;
  ucx::OperationParameters parameters = parameters_of_send(UcxEngineState::on_sent, request);
  parameters.op_attr_mask |= ucx::kOperationMemoryType;
  parameters.memory_type = ucx::kMemoryHost;
  UcxEngineState::Peer& to = state.peers[peer];
  const uint32_t path = to.sends[channel % kChannels].take(state.paths);
  const ucx::Tag tag = tag_of(channel, path, state.rank, checksum);
  state.started(request, state.ucx.tag_send(to.endpoints[path], bytes, size_bytes, tag,
                                            &parameters));
  return Status();
}

Status UcxEngine::start_receive(uint32_t peer, uint32_t channel, void* bytes, size_t least_bytes,
                                size_t most_bytes, UcxRequest* request) {
  UcxEngineState& state = *state_;
  GQ_TRY(state.check_can_start(peer, *request));
  state.begin(request, UcxRequest::Kind::receive, peer);
  request->channel_ = channel;
  request->size_bytes_ = request->received_bytes_ = most_bytes;
  request->least_bytes_ = least_bytes;
  ucx::OperationParameters parameters{};
  // UCX 1.13 gives the size of a message to the callback only.
  parameters.op_attr_mask = ucx::kOperationCallback | ucx::kOperationUserData |
                            ucx::kOperationMemoryType | ucx::kOperationNotAtOnce;
  parameters.cb.recv = UcxEngineState::on_received;
  parameters.user_data = request;
  parameters.memory_type = ucx::kMemoryHost;
  const uint32_t path = state.peers[peer].receives[channel % kChannels].take(state.paths);
  const ucx::Tag tag = tag_of(channel, path, peer);
  state.started(request, state.ucx.tag_receive(state.worker, bytes, most_bytes, tag, kMatchedTag,
                                               &parameters));
  return Status();
}

Status UcxEngine::start_greeting(uint32_t peer, uint32_t channel, UcxRequest* request) {
  UcxEngineState& state = *state_;
  GQ_TRY(state.check_can_send(peer, *request));
  state.begin(request, UcxRequest::Kind::greeting, peer);
  request->channel_ = channel;
  const ucx::OperationParameters parameters = parameters_of_send(UcxEngineState::on_sent, request);
  UcxEngineState::Peer& to = state.peers[peer];
  const uint32_t path = to.sends[channel % kChannels].take(state.paths);
  state.started(request, state.ucx.tag_send_sync(to.endpoints[path], nullptr, 0,
                                                 tag_of(channel, path, state.rank), &parameters));
  return Status();
}

Status UcxEngine::start_flush(uint32_t peer, UcxRequest* request) {
  GQ_TRY(state_->check_can_send(peer, *request));
  request->path_ = 0;
  start_flush_of_path(peer, request);
  return Status();
}

void UcxEngine::start_flush_of_path(uint32_t peer, UcxRequest* request) {
  UcxEngineState& state = *state_;
  state.begin(request, UcxRequest::Kind::flush, peer);
  const ucx::OperationParameters parameters = parameters_of_send(UcxEngineState::on_sent, request);
  const UcxEngineState::Peer& to = state.peers[peer];
  const ucx::Endpoint endpoint = to.endpoints[request->path_];
  // ucp_ep_flush() over TCP waits for an answer, which a peer gives when it progresses. So there is
  // a message instead: it begins when the bytes before it have left UCX's buffer.
  state.started(request, to.uses_tcp
                             ? state.ucx.active_message_send(endpoint, kFlushMessage, nullptr, 0,
                                                             nullptr, 0, &parameters)
                             : state.ucx.ep_flush(endpoint, &parameters));
}

Status UcxEngine::test(UcxRequest* request, bool* done) {
  *done = request->state_ == UcxRequest::State::completed;
  if (request->state_ == UcxRequest::State::started) return Status();
  if (!*done) return fail(GQSGD_INTERNAL, "rank %u: test of an idle request", state_->rank);
  state_->free_request(request);
  state_->unlink(request);
  request->state_ = UcxRequest::State::idle;
  const bool has_size = request->kind_ != UcxRequest::Kind::receive ||
                        (request->received_bytes_ >= request->least_bytes_ &&
                         request->received_bytes_ <= request->size_bytes_);
  if (request->ucx_result_ != ucx::kOk || !has_size) return state_->failure(*request);
  if (request->kind_ != UcxRequest::Kind::flush) return Status();
  if (++request->path_ == state_->paths) return Status();
  start_flush_of_path(request->peer_, request);
  return test(request, done);  // one that is done at once is followed by no event of UCX
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

bool UcxEngine::has_failed(uint32_t peer) const { return state_->peers[peer].has_failed; }

Status UcxEngine::set_connected() {
  state_->is_connected = true;
  try {
    state_->descriptors.guard(state_->event_fd);
  } catch (const std::bad_alloc&) {
    return fail(GQSGD_NO_MEMORY, "rank %u: no memory for a list of UCX's descriptors",
                state_->rank);
  }
  return Status();
}

const std::string& UcxEngine::version() const { return state_->version; }

std::string UcxEngine::transports_to(uint32_t peer) const {
  const UcxEngineState& state = *state_;
  if (peer >= state.peers.size() || state.peers[peer].endpoints.empty()) return "";
  char* description = nullptr;
  size_t size_bytes = 0;
  FILE* const stream = open_memstream(&description, &size_bytes);
  if (stream == nullptr) throw std::bad_alloc();
  state.ucx.ep_print_info(state.peers[peer].endpoints.front(), stream);
  fclose(stream);
  const std::unique_ptr<char, decltype(&free)> owner(description, free);
  return transports_in(std::string_view(description, size_bytes));
}

}  // namespace gq
