// A transport that copies, as one over a network does: words arrive in the receiver's own arena,
// and the sender's may change afterwards. The oracle for executors is the transport that reads in
// place.
#ifndef GQ_TESTS_EXECUTE_COPYING_TRANSPORT_H
#define GQ_TESTS_EXECUTE_COPYING_TRANSPORT_H

#include <deque>
#include <map>
#include <utility>
#include <vector>

#include "src/transport/transport.h"

namespace gq {

/** What all ranks share: messages and headers under way. */
struct Wire {
  using Channel = std::pair<uint32_t, uint32_t>;  // from, to
  std::map<Channel, std::deque<std::vector<unsigned char>>> messages;
  std::map<std::pair<uint32_t, uint64_t>, Header> headers;  // rank, sequence
};

class CopyingTransport final : public Transport {
 public:
  CopyingTransport(Wire* wire, uint32_t rank, uint32_t size)
      : wire_(wire), rank_(rank), size_(size) {}

  uint32_t rank() const override { return rank_; }
  uint32_t size() const override { return size_; }
  uint32_t tag() const override { return 7; }
  bool reads_in_place() const override { return false; }

  Status arena(size_t size_bytes, unsigned char** base) override {
    if (arena_.size() < size_bytes) arena_.resize(size_bytes, 0xEE);
    *base = arena_.data();
    return Status();
  }

  Status publish(uint64_t sequence, const Header& header) override {
    wire_->headers[{rank_, sequence}] = header;
    return Status();
  }
  Status peer_header(uint32_t peer, uint64_t sequence, Header* header, bool* there) override {
    const auto found = wire_->headers.find({peer, sequence});
    *there = found != wire_->headers.end();
    if (*there) *header = found->second;
    return Status();
  }

  Status send(const Message& message) override {
    const unsigned char* words = arena_.data() + message.offset_bytes;
    wire_->messages[{rank_, message.peer}].emplace_back(words, words + message.size_bytes);
    counters_.messages_sent += 1;
    counters_.payload_bytes_sent += message.size_bytes;
    return Status();
  }
  Status receive(const Message& message, const unsigned char** words) override {
    auto& queue = wire_->messages[{message.peer, rank_}];
    *words = nullptr;
    if (queue.empty()) return Status();
    if (queue.front().size() != message.size_bytes) {
      return fail(GQSGD_PROTOCOL, "rank %u: %zu bytes from rank %u where %zu were expected", rank_,
                  queue.front().size(), message.peer, message.size_bytes);
    }
    std::copy(queue.front().begin(), queue.front().end(),
              arena_.begin() + static_cast<std::ptrdiff_t>(message.landing_bytes));
    queue.pop_front();
    *words = arena_.data() + message.landing_bytes;
    return Status();
  }
  const unsigned char* view(const Message& message) const override {
    return arena_.data() + message.landing_bytes;
  }
  Status flushed(bool* done) override {
    *done = true;
    return Status();
  }

  Status wait(uint32_t) override { return Status(); }
  Status check() override { return Status(); }
  void break_off(gqsgd_status, uint32_t) override {}
  TransportCounters counters() const override { return counters_; }

 private:
  Wire* wire_;
  uint32_t rank_;
  uint32_t size_;
  std::vector<unsigned char> arena_;
  TransportCounters counters_;
};

}  // namespace gq

#endif
