// Requests under way at a custom transport: receives of each peer in order, sends in any.
#ifndef GQ_TRANSPORT_CUSTOM_REQUEST_POOL_H
#define GQ_TRANSPORT_CUSTOM_REQUEST_POOL_H

#include <stddef.h>
#include <stdint.h>

#include <new>
#include <vector>

namespace gq {

struct TableRequest {
  uint64_t number = 0;  ///< the transport's name for it
  uint32_t peer = 0;
  bool done = false;
  unsigned char* place = nullptr;   ///< where received words belong
  const void* sent = nullptr;       ///< what leaves, unless a copy does
  unsigned char* staged = nullptr;  ///< where the bytes are on their way, with a trailer
  size_t size_bytes = 0;            ///< requested
  size_t come_bytes = 0;  ///< a receive that is done: bytes that came, by the transport
  uint32_t next = 0;
};

/** Queues of requests, one for each peer, in memory that is made once and used again. */
class RequestQueues {
 public:
  /** False if memory is short; then nothing has changed. */
  bool resize(uint32_t peers) {
    try {
      ends_.assign(peers, Ends());
      return reserve();
    } catch (const std::bad_alloc&) {
      return false;
    }
  }
  /** Reserves memory for push(). */
  bool reserve() {
    if (free_ != kNone) return true;
    try {
      const size_t used = requests_.size();
      requests_.resize(used == 0 ? 64 : 2 * used);
      for (size_t k = requests_.size(); k-- > used;) give_back(static_cast<uint32_t>(k));
      return true;
    } catch (const std::bad_alloc&) {
      return false;
    }
  }
  void push(const TableRequest& request) {
    const uint32_t k = free_;
    free_ = requests_[k].next;
    requests_[k] = request;
    requests_[k].next = kNone;
    Ends& ends = ends_[request.peer];
    (ends.first == kNone ? ends.first : requests_[ends.last].next) = k;
    ends.last = k;
  }
  TableRequest* front(uint32_t peer) {
    const uint32_t k = ends_[peer].first;
    return k == kNone ? nullptr : &requests_[k];
  }
  void pop(uint32_t peer) {
    const uint32_t k = ends_[peer].first;
    ends_[peer].first = requests_[k].next;
    give_back(k);
  }

 private:
  static constexpr uint32_t kNone = UINT32_MAX;
  struct Ends {
    uint32_t first = kNone;
    uint32_t last = kNone;
  };
  void give_back(uint32_t k) {
    requests_[k].next = free_;
    free_ = k;
  }

  std::vector<TableRequest> requests_;
  std::vector<Ends> ends_;
  uint32_t free_ = kNone;
};

}  // namespace gq

#endif
