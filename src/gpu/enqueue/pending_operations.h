// Requests whose calls are on a stream: an event behind each of them, and a place where the device
// writes the status of that call.
#ifndef GQ_GPU_ENQUEUE_PENDING_OPERATIONS_H
#define GQ_GPU_ENQUEUE_PENDING_OPERATIONS_H

#include <deque>
#include <memory>
#include <new>
#include <utility>
#include <vector>

#include "kernels/agreement.h"
#include "src/call/request.h"
#include "src/gpu/device/buffer.h"

namespace gq {

struct PendingOperation {
  explicit PendingOperation(const Device& on) : device(on) {}
  ~PendingOperation() { device.end_event(behind); }
  PendingOperation(const PendingOperation&) = delete;
  PendingOperation& operator=(const PendingOperation&) = delete;

  const Device& device;
  std::shared_ptr<Request> request;
  EventHandle behind = nullptr;
  PinnedBuffer disagreement;  ///< one Disagreement
  uint64_t deadline_us = 0;   ///< 0: not tested yet
  bool given_up = false;
};

/** In the order of their starts, which is that in which they end. */
class PendingOperations {
 public:
  /** For a request that is about to start: one of an earlier request, or a new one. */
  Status take(const Device& device, std::unique_ptr<PendingOperation>* pending) {
    try {
      under_way_.emplace_back();  // so that begin() cannot fail
      under_way_.pop_back();
      idle_.reserve(under_way_.size() + idle_.size() + 1);
      if (idle_.empty()) idle_.push_back(std::make_unique<PendingOperation>(device));
    } catch (const std::bad_alloc&) {
      return fail(GQSGD_NO_MEMORY, "no memory for a request");
    }
    PendingOperation& next = *idle_.back();
    if (next.behind == nullptr) GQ_TRY(device.make_event(&next.behind));
    GQ_TRY(next.disagreement.reserve(device, sizeof(Disagreement)));
    next.disagreement.as<Disagreement>()->found = 0;
    next.deadline_us = 0;
    next.given_up = false;
    *pending = std::move(idle_.back());
    idle_.pop_back();
    return Status();
  }
  void begin(std::unique_ptr<PendingOperation> pending) {
    under_way_.push_back(std::move(pending));
  }
  /** Of a call that was not enqueued, or has ended. */
  void give_back(std::unique_ptr<PendingOperation> pending) {
    pending->request.reset();
    idle_.push_back(std::move(pending));
  }

  /** Null if there is none. */
  PendingOperation* first() { return under_way_.empty() ? nullptr : under_way_.front().get(); }
  PendingOperation* find(const Request& request) {
    for (const auto& pending : under_way_) {
      if (pending->request.get() == &request) return pending.get();
    }
    return nullptr;
  }
  /** The first one ends with this status. */
  void end_first(Status status) {
    std::unique_ptr<PendingOperation> ended = std::move(under_way_.front());
    under_way_.pop_front();
    ended->request->end(status);
    give_back(std::move(ended));
  }

  /** Leaves memory that a device may still write to it. */
  void forget() {
    for (const auto& pending : idle_) pending->disagreement.forget();
  }

 private:
  std::deque<std::unique_ptr<PendingOperation>> under_way_;
  std::vector<std::unique_ptr<PendingOperation>> idle_;
};

}  // namespace gq

#endif
