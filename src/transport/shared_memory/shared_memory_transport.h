// The protocol of both shared-memory transports: control messages, signals and waiting at control
// blocks. The transports themselves own the memory and detect deaths.
#ifndef GQ_TRANSPORT_SHARED_MEMORY_SHARED_MEMORY_TRANSPORT_H
#define GQ_TRANSPORT_SHARED_MEMORY_SHARED_MEMORY_TRANSPORT_H

#include <stdint.h>

#include <memory>

#include "src/transport/host_transport.h"
#include "src/transport/registers.h"
#include "src/transport/shared_memory/group_failure.h"
#include "src/transport/shared_memory/signals.h"

namespace gq {

/** A message is a signal: it carries no descriptor (signals.h). What is read from shared memory is
 *  read once and checked before it is used. Words may be overwritten once all peers have sent their
 *  next control message, because a rank sends one only when it has finished with the last
 *  operation. */
class SharedMemoryTransport : public HostTransport, private GroupRegisters {
 public:
  bool reads_in_place() const final { return true; }

  Status send_control(uint64_t sequence, const ControlMessage& message) final;
  Status receive_control(uint32_t peer, uint64_t sequence, ControlMessage* message,
                         bool* there) final;
  Status send(const Message& message) final;
  Status receive(const Message& message, const unsigned char** words) final;
  const unsigned char* view(const Message& message) const final;
  Status flushed(bool* done) final;
  Status wait(uint32_t slice_us) final;
  Status check() final;
  void abort_group(gqsgd_status cause, uint32_t culprit) final {
    failure_.abort_group(cause, culprit);
  }
  uint32_t culprit_behind(uint32_t peer) const final { return failure_.culprit_behind(peer); }
  TransportCounters counters() const final { return counters_; }
  GroupRegisters* registers() final { return this; }

  // For calls on streams, whose hosts signal each other.
  /** Peers take signals in order, those of messages and these alike. */
  Signals& signals() { return signals_; }
  /** Words in the arena of `origin`, where a signal has shown that they are there. */
  Status words_of(uint32_t origin, uint64_t offset_bytes, size_t size_bytes,
                  const unsigned char** words);
  /** Counts words that others move on behalf of this rank, and the values that they stand for. */
  void count_sent(size_t size_bytes, uint64_t value_count) {
    counters_.count_sent(size_bytes, value_count);
  }
  void count_copied(size_t size_bytes) { counters_.payload_bytes_copied += size_bytes; }
  /** The number of this rank's newest call. */
  uint64_t newest_call() const { return controls_sent_; }
  /** A peer that dies while `wait` says yes is PEER_LOST for check(). */
  void watch_device(DeviceWait wait) { failure_.watch_device(wait); }
  /** Looks whether `peer` has died; on the rank's own thread. */
  bool has_died(uint32_t peer) {
    find_dead();
    return failure_.has_died(peer);
  }

 protected:
  Status attach(const ControlBlocks& blocks, uint32_t tag, BreakHook hook = {});
  /** Notifies the peers that this rank has left in good order. */
  void detach() { failure_.leave(); }
  /** OK, or the failure that broke this group; looks at peers only after a wakeup for a failure. */
  Status intact() { return failure_.intact(); }
  /** Notes that `peer` will never write again. */
  void mark_gone(uint32_t peer) { failure_.mark_gone(peer); }
  uint64_t arena_bytes_of(uint32_t peer) const {
    return blocks_.of(peer).arena_bytes.load(std::memory_order_acquire);
  }

  /** Makes bytes up to `end_bytes` of the arena of `origin` readable; PROTOCOL if it is shorter. */
  virtual Status reach(uint32_t origin, uint64_t end_bytes) = 0;
  virtual const unsigned char* arena_base(uint32_t origin) const = 0;
  /** Finds out from the system which peers have died, and marks them. */
  virtual void find_dead() = 0;

 private:
  void publish(const RegisterWords& own, bool is_last) final;
  bool read(uint32_t peer, RegisterWords* found) final;
  bool is_gone(uint32_t peer, const UnheardLimits& limits) final;
  void look(uint32_t slice_us) final;
  bool slept(uint32_t slice_us);
  bool was_woken();
  Status reach_checked(uint32_t origin, uint64_t end_bytes);
  void write_trailer(const Message& message);
  Status read_trailer(const Message& message);

  ControlBlocks blocks_;
  GroupFailure failure_;
  Signals signals_;
  std::unique_ptr<uint64_t[]> controls_seen_;  // the newest control message seen of each rank
  uint64_t controls_sent_ = 0;                 // the number of the own newest one
  uint32_t wakeups_seen_ = 0;                  // every wakeup before has been looked at
  uint64_t looked_us_ = 0;                     // when find_dead() was last called
  TransportCounters counters_;
};

}  // namespace gq

#endif
