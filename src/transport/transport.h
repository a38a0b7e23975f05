// The table a transport fills: it moves headers and words between ranks and knows when a peer is
// gone. It knows no schedule and never looks inside a word. Nothing here blocks except wait().
#ifndef GQ_TRANSPORT_TRANSPORT_H
#define GQ_TRANSPORT_TRANSPORT_H

#include <stddef.h>
#include <stdint.h>

#include <memory>

#include "src/support/counter.h"
#include "src/support/status.h"
#include "src/transport/header.h"

namespace gq {

/** Counted by the transport itself, read by gqsgd_comm_stat. */
struct TransportCounters {
  Counter messages_sent;
  Counter payload_bytes_sent;
  Counter uncompressed_bytes_sent;  ///< of the same messages, were each of their values a float32
  Counter header_bytes_sent;
  Counter payload_bytes_copied;  ///< bytes the transport itself copied between ranks

  /** Counts a message that stands for `value_count` values; norms and scales are none. */
  void count_sent(size_t size_bytes, uint64_t value_count) {
    messages_sent += 1;
    payload_bytes_sent += size_bytes;
    uncompressed_bytes_sent += value_count * sizeof(float);
  }
};

/** Words on their way from one rank to another. */
struct Message {
  uint32_t peer;         ///< the other end
  uint32_t origin;       ///< rank in whose arena the first of the words were made
  uint32_t last_origin;  ///< the same for the last of them; ranks between made those between
  size_t offset_bytes;   ///< where they lie in that arena (equal on all ranks)
  size_t size_bytes;
  size_t here_bytes;  ///< transports that copy: where in the own arena they lie or are to be put
  uint64_t value_count = 0;  ///< that the words stand for, to be counted: 0 for norms
};

/** What a transport may add by itself: integers modulo 2^64, or float32. */
enum class Addend : uint8_t { uint64, float32 };
constexpr size_t addend_bytes(Addend addend) { return addend == Addend::uint64 ? 8 : 4; }

/** A sum over all ranks of the words at one place of each arena. */
struct Sum {
  Addend addend;
  size_t here_bytes;  ///< where the addends of this rank lie, and later the sums
  uint64_t addend_count;
  uint64_t value_count = 0;  ///< that the addends stand for, to be counted
};

class StreamTransport;
struct StreamConfig;

/** A sleeper looks for dead peers this often; a wakeup wakes it earlier. */
inline constexpr uint32_t kWaitSliceUs = 5000;

/** One rank's end of a group. All members are called by one thread at a time, except abort_group()
 *  and counters(). */
class Transport {
 public:
  virtual ~Transport() = default;

  virtual uint32_t rank() const = 0;
  virtual uint32_t size() const = 0;
  /** The node that a rank runs on: any number, equal for ranks of one node, and for a rank the same
   *  on all ranks. Ranks of one node reach each other faster than others. */
  virtual uint32_t node_of(uint32_t /*rank*/) const { return 0; }
  /** A number equal on all ranks of this group and almost surely on no other. */
  virtual uint32_t tag() const = 0;
  /** True if receive() returns a view of the sender's memory. Otherwise the transport copies: words
   *  are put into the own arena, at the place given to expect() beforehand. */
  virtual bool reads_in_place() const = 0;
  /** True if all members must be called on threads of the caller's own, inside a call of this
   *  library: there is no progress between calls then. */
  virtual bool callers_thread_only() const { return false; }
  /** Not null: words are in a device's memory and travel on streams, and only this end's members
   *  for that are used (stream_transport.h). */
  virtual StreamTransport* on_streams() { return nullptr; }

  /** True if there are calls on memory of devices: here, or on an end that open_streams() makes. */
  virtual bool has_streams() const { return false; }
  /** An end of the same group for calls on memory of a device, beside those on host memory; it is
   *  used by one thread at a time with this one, and ends before it. */
  virtual Status open_streams(const StreamConfig& config, std::unique_ptr<StreamTransport>* out);

  /** Makes the own arena at least `size_bytes` long (it never shrinks) and returns its base.
   * Contents may be lost. Called between operations only, when no peer reads from it. */
  virtual Status arena(size_t size_bytes, unsigned char** base) = 0;

  /** Publishes this rank's header of operation `sequence` (1, 2, ..) to all. At most one ahead of
   * the slowest peer, because an operation ends only after all have published theirs. */
  virtual Status publish(uint64_t sequence, const Header& header) = 0;
  /** The header of `peer` for `sequence`; *there is false while it has not come. */
  virtual Status peer_header(uint32_t peer, uint64_t sequence, Header* header, bool* there) = 0;

  /** Sends words that lie in the arena of message.origin, or, where the transport copies, in the
   * own one; they stay as they are until flushed(). Does not wait. */
  virtual Status send(const Message& message) = 0;
  /** Transports that copy: sets the place of the next message from message.peer, in the order of
   *  the receives. Nothing else uses the place until it is received. */
  virtual Status expect(const Message& message) = 0;
  /** The next message from message.peer, in order: *words is nullptr while it has not come. */
  virtual Status receive(const Message& message, const unsigned char** words) = 0;
  /** Where words received earlier in this operation lie now: a view, or the place in the arena. */
  virtual const unsigned char* view(const Message& message) const = 0;
  /** True if begin_sum() works: the transport has an allreduce of its own. */
  virtual bool adds() const { return false; }
  /** Begins a sum, which takes the place of the addends on every rank, with the same bits. Does not
   *  wait. All ranks begin the same sums in the same order, one at a time. */
  virtual Status begin_sum(const Sum& sum);
  /** Whether the sum that was begun is there. */
  virtual Status end_sum(bool* done);

  /** True when everything sent has left, so that the own arena may be written again. */
  virtual Status flushed(bool* done) = 0;
  /** A rank that words are still leaving for; the own one if there is none. */
  virtual uint32_t unflushed_peer() const { return rank(); }

  /** Returns when something may have changed, or after at most about `slice_us` microseconds.
   *  PEER_LOST, ABORTED, REVOKED or TIMEOUT if a peer is lost or has aborted: the sentence names
   *  the first cause. */
  virtual Status wait(uint32_t slice_us) = 0;
  /** The check inside wait() alone, without sleeping. */
  virtual Status check() = 0;

  /** Notifies all peers that this rank will not continue, and why; later calls here fail with it.
   * The first cause stays. `culprit` is the rank at fault. Callable from any thread; never
   * waits. */
  virtual void abort_group(gqsgd_status cause, uint32_t culprit) = 0;

  /** abort_group(ABORTED, rank()), also in a signal handler: no lock, no memory, no call of another
   *  library. What that does not allow is left to finish_abort(). */
  virtual void abort() { abort_group(GQSGD_ABORTED, rank()); }
  /** Called by the next who looks, on any thread and perhaps several times; never waits. */
  virtual void finish_abort() {}

  /** The rank that is at fault where `peer` has sent nothing for long: itself, or the one at the
   *  end of a chain of ranks that wait for each other, as far as the transport can see it. */
  virtual uint32_t culprit_behind(uint32_t peer) const { return peer; }

  virtual TransportCounters counters() const = 0;
};

}  // namespace gq

#endif
