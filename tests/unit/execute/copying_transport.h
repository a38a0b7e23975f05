// A transport that copies, as one over a network does: words arrive in the receiver's own arena, in
// the places that were announced. The oracle for executors is the transport that reads in place.
#ifndef GQ_TESTS_UNIT_EXECUTE_COPYING_TRANSPORT_H
#define GQ_TESTS_UNIT_EXECUTE_COPYING_TRANSPORT_H

#include <algorithm>
#include <deque>
#include <map>
#include <utility>
#include <vector>

#include "src/transport/host_transport.h"

namespace gq {

/** When a word leaves its sender: at once, or only when the receiver has announced its place and a
 *  rank makes progress. One of them catches a write to a place that is too early or too late. */
enum class Leaves { at_once, late };

/** What all ranks share: messages, places and control messages under way. */
struct Wire {
  struct Sent {
    std::vector<unsigned char> bytes;  // at_once
    const unsigned char* place = nullptr;
    size_t size_bytes = 0;
  };
  struct Expected {
    unsigned char* place;
    size_t size_bytes;
    bool done;
  };
  using Channel = std::pair<uint32_t, uint32_t>;  // from, to
  Leaves leaves = Leaves::at_once;
  std::map<Channel, std::deque<Sent>> sent;
  std::map<Channel, std::deque<Expected>> expected;
  std::map<std::pair<uint32_t, uint64_t>, ControlMessage> controls;  // rank, sequence
  size_t wrong_sizes = 0;

  /** Brings what has been sent to where it is expected. */
  void deliver(Channel channel) {
    auto& queue = sent[channel];
    for (Expected& next : expected[channel]) {
      if (next.done) continue;
      if (queue.empty()) return;
      const Sent& message = queue.front();
      const unsigned char* words = leaves == Leaves::late ? message.place : message.bytes.data();
      wrong_sizes += message.size_bytes != next.size_bytes;
      std::copy(words, words + message.size_bytes, next.place);
      next.done = true;
      queue.pop_front();
    }
  }
};

class CopyingTransport final : public HostTransport {
 public:
  CopyingTransport(Wire* wire, uint32_t rank, uint32_t size) : wire_(wire) {
    set_group_rank({rank, size, 7});
  }

  bool reads_in_place() const override { return false; }

  Status arena(size_t size_bytes, unsigned char** base) override {
    if (arena_.size() < size_bytes) arena_.resize(size_bytes, 0xEE);
    *base = arena_.data();
    return Status();
  }

  Status send_control(uint64_t sequence, const ControlMessage& message) override {
    wire_->controls[{rank(), sequence}] = message;
    return Status();
  }
  Status receive_control(uint32_t peer, uint64_t sequence, ControlMessage* message,
                         bool* there) override {
    const auto found = wire_->controls.find({peer, sequence});
    *there = found != wire_->controls.end();
    if (*there) *message = found->second;
    return Status();
  }

  Status send(const Message& message) override {
    const unsigned char* words = arena_.data() + message.here_bytes;
    Wire::Sent sent;
    sent.place = words;
    sent.size_bytes = message.size_bytes;
    if (wire_->leaves == Leaves::at_once) sent.bytes.assign(words, words + message.size_bytes);
    wire_->sent[{rank(), message.peer}].push_back(std::move(sent));
    counters_.count_sent(message.size_bytes, message.value_count);
    return Status();
  }
  Status expect(const Message& message) override {
    const Wire::Channel channel{message.peer, rank()};
    wire_->expected[channel].push_back(
        {arena_.data() + message.here_bytes, message.size_bytes, false});
    if (wire_->leaves == Leaves::at_once) wire_->deliver(channel);
    return Status();
  }
  Status receive(const Message& message, const unsigned char** words) override {
    const Wire::Channel channel{message.peer, rank()};
    auto& queue = wire_->expected[channel];
    *words = nullptr;
    if (queue.empty()) return fail(GQSGD_INTERNAL, "rank %u: an unannounced receive", rank());
    wire_->deliver(channel);
    if (!queue.front().done) return Status();
    if (wire_->wrong_sizes != 0) return fail(GQSGD_PROTOCOL, "rank %u: a wrong size", rank());
    *words = queue.front().place;
    queue.pop_front();
    return Status();
  }
  const unsigned char* view(const Message& message) const override {
    return arena_.data() + message.here_bytes;
  }
  Status flushed(bool* done) override {
    *done = true;
    for (uint32_t peer = 0; peer < size(); ++peer) {
      if (!wire_->sent[{rank(), peer}].empty()) *done = false;
    }
    return Status();
  }

  Status wait(uint32_t) override { return Status(); }
  Status check() override { return Status(); }
  void abort_group(gqsgd_status, uint32_t) override {}
  TransportCounters counters() const override { return counters_; }

 private:
  Wire* wire_;
  std::vector<unsigned char> arena_;
  TransportCounters counters_;
};

}  // namespace gq

#endif
