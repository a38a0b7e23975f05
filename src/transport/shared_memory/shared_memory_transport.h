// The protocol of both shared-memory transports: headers, message counters, wakeups and notices of
// lost ranks. The transports themselves own the memory and detect deaths.
#ifndef GQ_TRANSPORT_SHARED_MEMORY_SHARED_MEMORY_TRANSPORT_H
#define GQ_TRANSPORT_SHARED_MEMORY_SHARED_MEMORY_TRANSPORT_H

#include <stdint.h>

#include <atomic>
#include <memory>

#include "src/transport/shared_memory/awaited.h"
#include "src/transport/shared_memory/cause.h"
#include "src/transport/transport.h"

namespace gq {

/** A message carries no descriptor: both ends know range and place from the schedule, so that a
 *  counter going up by one is the whole message. What is read from shared memory is read once and
 *  checked before it is used, and nothing is read back that this rank has written there itself:
 *  what is not possible is PROTOCOL, and names the rank in whose memory it stood.
 *  Words are made visible by the counter's release and acquire; a chain of messages carries them on
 *  to ranks further down. Words may be overwritten once all peers have published their next header,
 *  because a rank publishes only when it has finished with the last operation. */
class SharedMemoryTransport : public Transport {
 public:
  uint32_t rank() const final { return group_.rank; }
  uint32_t size() const final { return group_.ranks; }
  uint32_t tag() const final { return group_.tag; }
  bool reads_in_place() const final { return true; }
  bool has_streams() const final { return true; }

  Status publish(uint64_t sequence, const Header& header) final;
  Status peer_header(uint32_t peer, uint64_t sequence, Header* header, bool* there) final;
  Status send(const Message& message) final;
  Status expect(const Message&) final { return Status(); }
  Status receive(const Message& message, const unsigned char** words) final;
  const unsigned char* view(const Message& message) const final;
  Status flushed(bool* done) final;
  Status wait(uint32_t slice_us) final;
  Status check() final;
  void abort_group(gqsgd_status cause, uint32_t culprit) final;
  uint32_t culprit_behind(uint32_t peer) const final;
  TransportCounters counters() const final { return counters_; }

  /** A message without words: both ends know its meaning. Peers take signals in order, messages
   *  and these alike. */
  Status signal(uint32_t peer);
  /** Whether the next one of `peer` is there; if it is, it is taken. */
  Status take_signal(uint32_t peer, bool* there);
  /** Words in the arena of `origin`, where a signal has shown that they are there. */
  Status words_of(uint32_t origin, uint64_t offset_bytes, size_t size_bytes,
                  const unsigned char** words);
  /** Counts words that others move on behalf of this rank, and the values that they stand for. */
  void count_sent(size_t size_bytes, uint64_t value_count) {
    counters_.count_sent(size_bytes, value_count);
  }
  void count_copied(size_t size_bytes) { counters_.payload_bytes_copied += size_bytes; }
  /** The number of this rank's newest call. */
  uint64_t newest_call() const;

 protected:
  /** Where a rank sits at the control blocks. Everything outlives the transport. */
  struct Attachment {
    uint32_t rank = 0;
    uint32_t ranks = 0;
    uint32_t tag = 0;
    WakeupScope scope = WakeupScope::process;
    Control* control = nullptr;           ///< the own one
    const PeerControl* places = nullptr;  ///< of all ranks, the own one included
  };

  Status attach(const Attachment& group);
  /** Notifies the peers that this rank has left in good order. */
  void detach();
  /** OK, or the failure that broke this group; looks at peers only after an alarm. */
  Status intact();
  /** Remembers that `peer` will never write again. */
  void mark_gone(uint32_t peer) { peers_[peer].gone = true, any_gone_ = true; }
  bool is_gone(uint32_t peer) const { return peers_[peer].gone; }
  uint64_t arena_bytes_of(uint32_t peer) const {
    return control_of(peer).arena_bytes.load(std::memory_order_acquire);
  }

  /** Makes bytes up to `end_bytes` of the arena of `origin` readable; PROTOCOL if it is shorter. */
  virtual Status reach(uint32_t origin, uint64_t end_bytes) = 0;
  virtual const unsigned char* arena_base(uint32_t origin) const = 0;
  /** Finds out from the system which peers have died, and marks them. */
  virtual void find_dead() = 0;
  /** This rank has broken the group; on whatever thread. */
  virtual void broke() {}

 private:
  struct Peer {
    uint64_t posted = 0;     ///< messages to it
    uint64_t received = 0;   ///< messages taken from it
    uint64_t published = 0;  ///< the newest of its headers that has been seen
    uint64_t awaited = 0;    ///< packed; what the last question found missing
    bool gone = false;
  };

  const Control& control_of(uint32_t peer) const { return *group_.places[peer].control; }
  Wakeup& wakeup() const { return *group_.places[group_.rank].wakeup; }
  void await(AwaitedKind kind, uint32_t peer, uint64_t number);
  bool slept(uint32_t slice_us);
  bool was_woken();
  Status look_at_peers();
  Status reach_checked(uint32_t origin, uint64_t end_bytes);
  bool is_needed(uint32_t peer) const;
  bool begin_cause(uint64_t word, uint64_t* first);
  Status adopt(uint32_t peer, uint64_t word);
  Status explain_cause(const Cause& cause) const;
  Status protocol_failure(uint32_t peer, const char* what, uint64_t found, uint64_t expected);
  void wake_all_for_failure();

  Attachment group_;
  std::unique_ptr<Peer[]> peers_;
  std::atomic<uint64_t> cause_{0};  // what broke this group; peers read a copy
  uint64_t published_ = 0;          // the number of the own newest header
  bool any_gone_ = false;
  uint64_t awaited_ = 0;       // packed; what the last question to any peer found missing
  uint32_t wakeups_seen_ = 0;  // every wakeup before has been looked at
  uint32_t failures_seen_ = 0;
  uint64_t looked_us_ = 0;  // when find_dead() was last called
  TransportCounters counters_;
};

}  // namespace gq

#endif
