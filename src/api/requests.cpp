// Requests of the C ABI, from their start to the test or wait that reports their end.
#include <utility>

#include "src/api/call_scope.h"
#include "src/api/execute_call.h"
#include "src/api/handles.h"
#include "src/api/other_requests.h"
#include "src/support/immortal.h"
#include "src/support/posix/fork.h"

namespace gq {
namespace {

/** What a token stands for. It does not keep the communicator, which has to end when its owner
 *  destroys it: that ends the request as well. */
struct HeldRequest {
  Request request;
  SegmentedBuffers buffers;  ///< of its call
  std::weak_ptr<Communicator> communicator;
  uint64_t fork_generation = 0;
};

using RequestTable = HandleTable<HeldRequest, HandleType::request>;

RequestTable& requests() { return immortal<RequestTable>(); }

uintptr_t token_of(gqsgd_request request) { return reinterpret_cast<uintptr_t>(request); }

Status hold(const ExclusiveAccess& access, gqsgd_request* request,
            std::shared_ptr<HeldRequest>* held) {
  if (request == nullptr) return fail(GQSGD_INVALID_ARGUMENT, "request is NULL");
  try {
    *held = std::make_shared<HeldRequest>();
    if (access->endpoint.while_waiting != nullptr) note_request(*access);
  } catch (const std::bad_alloc&) {
    return fail(GQSGD_NO_MEMORY, "no memory for a request");
  }
  (*held)->communicator = access.shared();
  (*held)->fork_generation = access->fork_generation;
  const uintptr_t token = requests().add(*held);
  if (token == 0) return fail(GQSGD_NO_MEMORY, "no memory for a request");
  *request = reinterpret_cast<gqsgd_request>(token);
  return Status();
}

Status find_request(gqsgd_request request, std::shared_ptr<HeldRequest>* found) {
  *found = requests().find(token_of(request));
  if (!*found) {
    return fail(GQSGD_BAD_HANDLE,
                "request %p is not a live request of this process: it is NULL, reported already, "
                "or of another type",
                static_cast<void*>(request));
  }
  if ((*found)->fork_generation == fork_generation()) return Status();
  return fail(GQSGD_FORKED, "request %p belongs to the parent of this process",
              static_cast<void*>(request));
}

/** Frees an ended request and returns its status; only one of two threads gets it. */
Status report(gqsgd_request request) {
  const std::shared_ptr<HeldRequest> ended = requests().remove(token_of(request));
  if (ended) return ended->request.status();
  return fail(GQSGD_BAD_HANDLE, "request %p was reported to another thread meanwhile",
              static_cast<void*>(request));
}

Status test(gqsgd_request request, int32_t* done) {
  if (done == nullptr) return fail(GQSGD_INVALID_ARGUMENT, "gqsgd_request_test: done is NULL");
  *done = 0;
  std::shared_ptr<HeldRequest> held;
  GQ_TRY(find_request(request, &held));
  if (std::shared_ptr<Communicator> communicator = held->communicator.lock()) {
    ExclusiveAccess access;
    GQ_TRY(access.enter(std::move(communicator)));
    StreamCalls* const calls = access->calls_on(held->request.call().stream);
    const bool ended =
        calls != nullptr ? calls->test(held->request) : access->requests.test(held->request);
    if (!ended) return Status();
  }
  *done = 1;
  return report(request);
}

Status wait(gqsgd_request request) {
  std::shared_ptr<HeldRequest> held;
  GQ_TRY(find_request(request, &held));
  if (std::shared_ptr<Communicator> communicator = held->communicator.lock()) {
    ExclusiveAccess access;
    GQ_TRY(access.enter(std::move(communicator)));
    StreamCalls* const calls = access->calls_on(held->request.call().stream);
    calls != nullptr ? calls->wait(held->request) : access->requests.wait(held->request);
  }
  return report(request);
}

}  // namespace

Status start_request(CheckedCall* checked, gqsgd_request* request) {
  if (request != nullptr) *request = nullptr;
  GQ_TRY(checked->entered);
  const ExclusiveAccess& access = checked->access;
  Call& call = checked->call;
  StreamCalls* const calls = access->calls_on(call.stream);
  if (call.captured && calls == nullptr) return checked->own;
  std::shared_ptr<HeldRequest> held;
  Status started = hold(access, request, &held);
  if (started.ok()) {
    held->buffers = std::move(checked->buffers);
    if (call.segments != nullptr) held->buffers.attach_to(&call);
    held->request.set(call, checked->own);
    if (calls != nullptr) {
      access->requests.drain();
      calls->start({held, &held->request});
      return Status();
    }
    started = access->requests.start({held, &held->request});
    if (started.ok()) return started;
    requests().remove(token_of(*request));
    *request = nullptr;
  }
  checked->own = started;
  return execute_call(*checked);
}

}  // namespace gq

gqsgd_status gqsgd_request_test(gqsgd_request request, int32_t* done) {
  return gq::in_call_scope([&] { return gq::test(request, done); });
}

gqsgd_status gqsgd_request_wait(gqsgd_request request) {
  return gq::in_call_scope([&] { return gq::wait(request); });
}
