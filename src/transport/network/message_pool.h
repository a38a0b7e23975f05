// Messages under way over UCX: receives of each peer in order, sends in any. Each stays at one
// place while UCX has it.
#ifndef GQ_TRANSPORT_NETWORK_MESSAGE_POOL_H
#define GQ_TRANSPORT_NETWORK_MESSAGE_POOL_H

#include <stddef.h>
#include <stdint.h>

#include <memory>
#include <vector>

#include "src/transport/network/control_packets.h"
#include "src/transport/ucx/ucx_engine.h"

namespace gq {

struct PendingMessage {
  UcxRequest request;
  uint32_t peer = 0;
  bool done = false;
  bool failed = false;  ///< the connection has failed: nothing will come
  unsigned char* place = nullptr;
  size_t size_bytes = 0;
  ControlPacket packet;  ///< where it is a control message that is sent
  PendingMessage* next = nullptr;
};

/** Memory that is made once and used again. take() may throw std::bad_alloc. */
class MessagePool {
 public:
  PendingMessage* take() {
    if (free_ == nullptr) grow();
    PendingMessage* const taken = free_;
    free_ = taken->next;
    taken->done = taken->failed = false;
    taken->next = nullptr;
    return taken;
  }
  void give_back(PendingMessage* message) {
    message->next = free_;
    free_ = message;
  }

 private:
  static constexpr size_t kBlock = 64;
  void grow() {
    blocks_.push_back(std::make_unique<PendingMessage[]>(kBlock));
    for (size_t k = 0; k < kBlock; ++k) give_back(&blocks_.back()[k]);
  }

  std::vector<std::unique_ptr<PendingMessage[]>> blocks_;
  PendingMessage* free_ = nullptr;
};

/** First in, first out. */
class MessageQueue {
 public:
  void push(PendingMessage* message) {
    (first_ == nullptr ? first_ : last_->next) = message;
    last_ = message;
  }
  PendingMessage* front() const { return first_; }
  PendingMessage* pop() {
    PendingMessage* const popped = first_;
    first_ = popped->next;
    return popped;
  }

 private:
  PendingMessage* first_ = nullptr;
  PendingMessage* last_ = nullptr;
};

}  // namespace gq

#endif
