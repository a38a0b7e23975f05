// The interface of a transport on host memory: it moves control messages and words between ranks
// and knows when a peer is gone. It knows no schedule and never looks inside a word. Nothing here
// blocks except wait().
#ifndef GQ_TRANSPORT_HOST_TRANSPORT_H
#define GQ_TRANSPORT_HOST_TRANSPORT_H

#include <stddef.h>
#include <stdint.h>

#include <memory>

#include "src/transport/control_message.h"
#include "src/transport/transport.h"

namespace gq {

/** What a message has behind its words (docs/FORMAT.md, section 17). */
struct Trailer {
  uint32_t checksum = 0;
  uint32_t mark = 0;  ///< 0, or 1 + the rank that found words changed: these here say nothing
};

/** Words on their way from one rank to another. */
struct Message {
  uint32_t peer;         ///< the other end
  uint32_t origin;       ///< rank in whose arena the first of the words were made
  uint32_t last_origin;  ///< the same for the last of them; ranks between made those between
  size_t offset_bytes;   ///< where they lie in that arena (equal on all ranks)
  size_t size_bytes;
  size_t here_bytes;  ///< transports that copy: where in the own arena they lie or are to be put
  uint64_t value_count = 0;  ///< that the words stand for, to be counted: 0 for norms; kUncounted
  /** Null: the message has none. send() sends it, receive() writes it. */
  Trailer* trailer = nullptr;
  bool has_room = false;     ///< a trailer's bytes behind the words at here_bytes are free
  size_t trailer_bytes = 0;  ///< transports that read in place: where it lies in the sender's arena
};

/** Values that travel with a control message. */
struct Enclosed {
  const unsigned char* bytes = nullptr;
  size_t size_bytes = 0;
  uint32_t checksum = 0;  ///< of them; the transport gives it no meaning
};

/** Values of short calls that travel with control messages (docs/FORMAT.md, section 19). */
class Enclosures {
 public:
  virtual ~Enclosures() = default;

  /** The most that a control message takes along. Equal on all ranks. */
  virtual size_t bytes_max() const = 0;
  /** The next one takes these, which are copied and stand for `value_count` values. */
  virtual void enclose(const Enclosed& values, uint64_t value_count) = 0;
  /** What came with the newest one of `peer`; it stays until the next send_control(). */
  virtual Enclosed from(uint32_t peer) const = 0;
};

/** A sum over all ranks of the words at one place of each arena. */
struct Sum {
  Addend addend;
  size_t here_bytes;  ///< where the addends of this rank lie, and later the sums
  uint64_t addend_count;
  uint64_t value_count = 0;  ///< that the addends stand for, to be counted
};

/** An allreduce that a transport has by itself. */
class HostSums {
 public:
  virtual ~HostSums() = default;

  /** Begins a sum, which takes the place of the addends on every rank, with the same bits. Does not
   *  wait. All ranks begin the same sums in the same order, one at a time. */
  virtual Status begin_sum(const Sum& sum) = 0;
  /** Whether the sum that was begun is there. */
  virtual Status end_sum(bool* done) = 0;
};

class GroupRegisters;
class StreamTransport;
struct StreamConfig;

/** Calls on memory of devices in a group that works on host memory as well. */
class StreamOpener {
 public:
  virtual ~StreamOpener() = default;

  /** An end of the same group for them; it is used by one thread at a time with the one on host
   *  memory, and ends before it. */
  virtual Status open_streams(const StreamConfig& config,
                              std::unique_ptr<StreamTransport>* out) = 0;
};

/** A sleeper looks for dead peers this often; a wakeup wakes it earlier. */
inline constexpr uint32_t kWaitSliceUs = 5000;

/** One rank's end of a group whose words are in host memory. The pure functions, with those of
 *  Transport, are all that a new one has to have. */
class HostTransport : public Transport {
 public:
  /** True if receive() returns a view of the sender's memory. Otherwise the transport copies: words
   *  are put into the own arena, at the place given to expect() beforehand. */
  virtual bool reads_in_place() const = 0;
  /** True if the transport was made with all other ranks, which make theirs at the same time. */
  virtual bool has_met_all() const { return false; }
  /** True if it moves messages of bytes and nothing else: abort_group() does not reach the others,
   *  who wait in vain for a rank that stops; and words and trailer leave in one piece, so that room
   *  for the trailer behind the words saves a copy. */
  virtual bool has_messages_only() const { return false; }
  /** True if all members must be called on threads of the caller's own, inside a call of this
   *  library: there is no progress between calls then. */
  virtual bool callers_thread_only() const { return false; }

  /** Makes the own arena at least `size_bytes` long (it never shrinks) and returns its base.
   *  Contents may be lost. Called between operations only, when no peer reads from it. */
  virtual Status arena(size_t size_bytes, unsigned char** base) = 0;

  /** Sends this rank's control message of operation `sequence` (1, 2, ..) to all. At most one ahead
   *  of the slowest peer, because an operation ends only after all have sent theirs. */
  virtual Status send_control(uint64_t sequence, const ControlMessage& message) = 0;
  /** The control message of `peer`, or this rank's own, for `sequence`; *there is false while it
   *  has not come. */
  virtual Status receive_control(uint32_t peer, uint64_t sequence, ControlMessage* message,
                                 bool* there) = 0;

  /** Sends words that lie in the arena of message.origin, or, where the transport copies, in the
   *  own one; they stay as they are until flushed(). Does not wait. */
  virtual Status send(const Message& message) = 0;
  /** Transports that copy: sets the place of the next message from message.peer, in the order of
   *  the receives. Nothing else uses the place until it is received. */
  virtual Status expect(const Message& /*message*/) { return Status(); }
  /** The next message from message.peer, in order: *words is nullptr while it has not come. */
  virtual Status receive(const Message& message, const unsigned char** words) = 0;
  /** Where words received earlier in this operation lie now: a view, or the place in the arena. */
  virtual const unsigned char* view(const Message& message) const = 0;
  /** True when everything sent has left, so that the own arena may be written again. */
  virtual Status flushed(bool* done) = 0;
  /** A rank that words are still leaving for; the own one if there is none. */
  virtual uint32_t unflushed_peer() const { return rank(); }

  /** Returns when something may have changed, or after at most about `slice_us` microseconds; fails
   *  as check() does. */
  virtual Status wait(uint32_t slice_us) = 0;
  /** The rank that is at fault where `peer` has sent nothing for long: itself, or the one at the
   *  end of a chain of ranks that wait for each other, as far as the transport can see it. */
  virtual uint32_t culprit_behind(uint32_t peer) const { return peer; }

  /** Null where control messages take nothing along. */
  virtual Enclosures* enclosures() { return nullptr; }
  /** Null where the transport does not add. */
  virtual HostSums* sums() { return nullptr; }
  /** Null where ranks cannot agree any more once the group has failed. */
  virtual GroupRegisters* registers() { return nullptr; }
  /** Null where there are no calls on memory of devices. */
  virtual StreamOpener* streams() { return nullptr; }
};

}  // namespace gq

#endif
