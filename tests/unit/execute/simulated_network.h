// A network in virtual time for ranks on one thread: messages that take a while, in the order of
// each link but in any order of different ones; ranks that stop or die, links that are cut. All of
// it follows from a seed, so that a run can be repeated.
#ifndef GQ_TESTS_UNIT_EXECUTE_SIMULATED_NETWORK_H
#define GQ_TESTS_UNIT_EXECUTE_SIMULATED_NETWORK_H

#include <algorithm>
#include <deque>
#include <map>
#include <queue>
#include <vector>

#include "src/transport/host_transport.h"
#include "tests/support/seeds.h"

namespace gq {

inline constexpr uint64_t kNeverUs = UINT64_MAX;

struct SimulatedRank {
  uint64_t dies_us = kNeverUs;
  uint64_t stops_us = kNeverUs, resumes_us = kNeverUs;
  uint32_t failing_allocation = 0;  ///< the k-th fails; 0: none
  bool refuses = false;             ///< its own call, for an argument
  // What this rank has been told first: of a death, or of another rank's failure.
  gqsgd_status told = GQSGD_OK;
  uint32_t culprit = 0;
  uint64_t told_us = kNeverUs;
};

struct SimulatedLink {
  uint64_t delay_us = 1, jitter_us = 1, byte_us = 0;
  uint64_t cut_us = kNeverUs;  ///< what is sent from then on never arrives
  uint64_t newest_us = 0;      ///< arrival of the last message
  struct Words {
    std::vector<unsigned char> copy;
    size_t sent_from_bytes;  ///< in the sender's arena
    uint64_t arrival_us;
  };
  std::deque<Words> words;
  std::map<uint64_t, std::pair<uint64_t, ControlMessage>> controls;  // by sequence: arrival
};

class SimulatedNetwork {
 public:
  SimulatedNetwork(uint32_t size, uint64_t seed) : draws(seed), ranks(size), links_(size * size) {}

  SimulatedLink& link(uint32_t from, uint32_t to) { return links_[from * ranks.size() + to]; }
  bool is_dead(uint32_t rank) const { return ranks[rank].dies_us <= now_us; }
  bool is_stopped(uint32_t rank) const {
    return ranks[rank].stops_us <= now_us && now_us < ranks[rank].resumes_us;
  }

  /** When a message that leaves now is there; never over a link that is cut. */
  uint64_t send(uint32_t from, uint32_t to, size_t size_bytes) {
    SimulatedLink& on = link(from, to);
    if (on.cut_us <= now_us) return kNeverUs;
    const uint64_t takes_us =
        on.delay_us + draws.below(on.jitter_us) + size_bytes * on.byte_us / 16;
    on.newest_us = overtakes ? now_us + takes_us : std::max(on.newest_us, now_us + takes_us);
    events.push(on.newest_us);
    return on.newest_us;
  }

  /** Notifies `to` of a failure; the first one that arrives counts. */
  void tell(uint32_t to, gqsgd_status cause, uint32_t culprit, uint64_t at_us) {
    SimulatedRank& told = ranks[to];
    if (at_us >= told.told_us) return;
    told.told = cause;
    told.culprit = culprit;
    told.told_us = at_us;
    events.push(at_us);
  }

  test::Draws draws;
  uint64_t now_us = 0;
  std::vector<SimulatedRank> ranks;
  std::priority_queue<uint64_t, std::vector<uint64_t>, std::greater<>> events;
  bool overtakes = false;   ///< a mutation: messages of one link overtake each other
  size_t early_writes = 0;  ///< words that their sender has changed before they had left
  size_t wrong_sizes = 0;

 private:
  std::vector<SimulatedLink> links_;
};

/** One rank's end. */
class SimulatedTransport final : public HostTransport {
 public:
  SimulatedTransport(SimulatedNetwork* network, uint32_t rank, uint32_t size) : network_(*network) {
    set_group_rank({rank, size, 7});
  }

  bool reads_in_place() const override { return false; }

  Status arena(size_t size_bytes, unsigned char** base) override {
    if (++allocations_ == network_.ranks[rank()].failing_allocation) {
      return fail(GQSGD_NO_MEMORY, "rank %u: no arena of %zu bytes", rank(), size_bytes);
    }
    if (arena_.size() < size_bytes) arena_.resize(size_bytes, 0xEE);
    *base = arena_.data();
    return Status();
  }

  Status send_control(uint64_t sequence, const ControlMessage& message) override {
    for (uint32_t peer = 0; peer < size(); ++peer) {
      const uint64_t arrival_us = peer == rank() ? 0 : network_.send(rank(), peer, sizeof message);
      network_.link(rank(), peer).controls[sequence] = {arrival_us, message};
    }
    return Status();
  }
  Status receive_control(uint32_t peer, uint64_t sequence, ControlMessage* message,
                         bool* there) override {
    const auto& controls = network_.link(peer, rank()).controls;
    const auto found = controls.find(sequence);
    *there = found != controls.end() && found->second.first <= network_.now_us;
    if (*there) *message = found->second.second;
    return Status();
  }

  Status send(const Message& message) override {
    const unsigned char* words = arena_.data() + message.here_bytes;
    network_.link(rank(), message.peer)
        .words.push_back({{words, words + message.size_bytes},
                          message.here_bytes,
                          network_.send(rank(), message.peer, message.size_bytes)});
    counters_.count_sent(message.size_bytes, message.value_count);
    return Status();
  }
  Status expect(const Message& message) override {
    expected_[message.peer].push_back({message.here_bytes, message.size_bytes});
    deliver(message.peer);
    return Status();
  }
  Status receive(const Message& message, const unsigned char** words) override {
    auto& expected = expected_[message.peer];
    *words = nullptr;
    if (expected.empty()) return fail(GQSGD_INTERNAL, "rank %u: an unannounced receive", rank());
    if (!expected.front().is_there) return Status();
    *words = arena_.data() + expected.front().here_bytes;
    expected.pop_front();
    return Status();
  }
  /** Writes what has arrived from `peer` to where it is expected, as a network does: at any time.
   */
  void deliver(uint32_t peer) {
    auto& queue = network_.link(peer, rank()).words;
    for (Expected& next : expected_[peer]) {
      if (next.is_there) continue;
      const auto first = std::min_element(
          queue.begin(), queue.end(),
          [](const auto& a, const auto& b) { return a.arrival_us < b.arrival_us; });
      if (first == queue.end() || first->arrival_us > network_.now_us) return;
      network_.wrong_sizes += first->copy.size() != next.size_bytes;
      std::copy_n(first->copy.begin(), std::min(first->copy.size(), next.size_bytes),
                  arena_.data() + next.here_bytes);
      next.is_there = true;
      queue.erase(first);
    }
  }
  const unsigned char* view(const Message& message) const override {
    return arena_.data() + message.here_bytes;
  }
  Status flushed(bool* done) override {
    *done = unflushed_peer() == rank();
    return Status();
  }
  /** Also compares what has not left with what it was when it was sent. */
  uint32_t unflushed_peer() const override {
    uint32_t found = rank();
    for (uint32_t peer = 0; peer < size(); ++peer) {
      for (const auto& words : network_.link(rank(), peer).words) {
        if (words.arrival_us <= network_.now_us) continue;
        found = peer;
        const bool equal =
            std::equal(words.copy.begin(), words.copy.end(), arena_.data() + words.sent_from_bytes);
        network_.early_writes += equal ? 0 : 1;
      }
    }
    return found;
  }

  Status wait(uint32_t) override { return check(); }
  Status check() override {
    const SimulatedRank& own = network_.ranks[rank()];
    if (own.told_us > network_.now_us) return Status();
    return fail(own.told, "rank %u was told that rank %u is at fault", rank(), own.culprit);
  }
  /** The first cause stays, and every rank spreads it. */
  void abort_group(gqsgd_status cause, uint32_t culprit) override {
    const SimulatedRank& own = network_.ranks[rank()];
    if (own.told_us <= network_.now_us) cause = own.told, culprit = own.culprit;
    for (uint32_t peer = 0; peer < size(); ++peer) {
      const uint64_t at_us = peer == rank() ? network_.now_us : network_.send(rank(), peer, 16);
      network_.tell(peer, cause, culprit, at_us);
    }
  }
  TransportCounters counters() const override { return counters_; }

 private:
  struct Expected {
    size_t here_bytes, size_bytes;
    bool is_there = false;
  };

  SimulatedNetwork& network_;
  std::vector<unsigned char> arena_;
  std::map<uint32_t, std::deque<Expected>> expected_;  // of peers, in order
  uint32_t allocations_ = 0;
  TransportCounters counters_;
};

}  // namespace gq

#endif
