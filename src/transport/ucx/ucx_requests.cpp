// Requests of an engine: from their start to their callback, and what is wrong with one.
#include "src/transport/ucx/ucx_engine_state.h"

namespace gq {
namespace {

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

}  // namespace

Status UcxEngineState::wrong_size(const UcxRequest& request) const {
  // UCX cuts a message that is too long, and does not always say how long it was.
  const bool is_known = request.received_bytes_ != request.size_bytes_;
  return fail(GQSGD_PROTOCOL,
              "rank %u: the message of rank %u on channel %u has %s%zu bytes, %zu expected", rank,
              request.peer_, request.channel_, is_known ? "" : "more than ",
              request.received_bytes_, request.size_bytes_);
}

Status UcxEngineState::failure(const UcxRequest& request) const {
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

Status UcxEngineState::check_can_start(uint32_t peer, const UcxRequest& request) const {
  if (peer >= peers.size() || request.is_pending()) {
    return fail(GQSGD_INTERNAL, "rank %u: a message of rank %u of %zu with a request that is %s",
                rank, peer, peers.size(), request.is_pending() ? "pending" : "idle");
  }
  return Status();
}

Status UcxEngineState::check_can_send(uint32_t peer, const UcxRequest& request) const {
  GQ_TRY(check_can_start(peer, request));
  if (!peers[peer].endpoints.empty()) return Status();
  return fail(GQSGD_INTERNAL, "rank %u: rank %u is not connected", rank, peer);
}

void UcxEngineState::begin(UcxRequest* request, UcxRequest::Kind kind, uint32_t peer) {
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

void UcxEngineState::unlink(UcxRequest* request) {
  if (request->before_ != nullptr) request->before_->next_ = request->next_;
  if (request->before_ == nullptr) first_pending = request->next_;
  if (request->next_ != nullptr) request->next_->before_ = request->before_;
}

/** After UCX returned from starting it: the callback may have completed it already. */
void UcxEngineState::started(UcxRequest* request, ucx::ResultPointer result) {
  if (request->state_ != UcxRequest::State::started) return;
  if (result != nullptr && !ucx::is_failure(result)) {
    request->ucx_request_ = result;
    return;
  }
  request->ucx_result_ = result == nullptr ? ucx::kOk : ucx::failure_in(result);
  request->state_ = UcxRequest::State::completed;
}

void UcxEngineState::on_sent(void* ucx_request, ucx::Result result, void* request) {
  auto* const completed = static_cast<UcxRequest*>(request);
  completed->ucx_result_ = result;
  completed->ucx_request_ = ucx_request;
  completed->state_ = UcxRequest::State::completed;
}

void UcxEngineState::on_received(void* ucx_request, ucx::Result result, const ucx::TagInfo* info,
                                   void* request) {
  if (info != nullptr) {
    auto* const received = static_cast<UcxRequest*>(request);
    received->received_bytes_ = info->length;
    received->checksum_ = static_cast<uint32_t>(info->sender_tag >> kChecksumInTag);
  }
  on_sent(ucx_request, result, request);
}

void UcxEngineState::on_failed(void* peer, ucx::Endpoint, ucx::Result) {
  auto* const failed = static_cast<Peer*>(peer);
  failed->has_failed = true;
  UcxEngineState* const state = failed->state;
  if (state->failed_peer == state->peers.size()) state->failed_peer = failed->rank;
}

/** One that is not completed is freed when it is. */
void UcxEngineState::free_request(UcxRequest* request) {
  if (request->ucx_request_ != nullptr) ucx.request_free(request->ucx_request_);
  request->ucx_request_ = nullptr;
}

}  // namespace gq
