// What every transport of a group has, whatever memory its packed codes are in: who this rank is,
// what it has sent, and how the group fails. host_transport.h moves words in host memory,
// stream/stream_transport.h in a device's, in the order of its streams.
#ifndef GQ_TRANSPORT_TRANSPORT_H
#define GQ_TRANSPORT_TRANSPORT_H

#include <stddef.h>
#include <stdint.h>

#include "src/support/counter.h"
#include "src/support/status.h"

namespace gq {

/** The value count of messages and sums that are part of no call: they are not counted. */
inline constexpr uint64_t kUncounted = UINT64_MAX;

/** Counted by the transport itself, read by gqsgd_comm_stat. */
struct TransportCounters {
  Counter messages_sent;
  Counter payload_bytes_sent;
  Counter uncompressed_bytes_sent;  ///< of the same messages, were each of their values a float32
  Counter header_bytes_sent;
  Counter payload_bytes_copied;  ///< bytes the transport itself copied between ranks

  /** Counts a message that stands for `value_count` values; norms and scales are none. */
  void count_sent(size_t size_bytes, uint64_t value_count) {
    if (value_count == kUncounted) return;
    messages_sent += 1;
    payload_bytes_sent += size_bytes;
    uncompressed_bytes_sent += value_count * sizeof(float);
  }
};

/** What a transport may add by itself: integers modulo 2^64, or float32. */
enum class Addend : uint8_t { uint64, float32 };
constexpr size_t addend_bytes(Addend addend) { return addend == Addend::uint64 ? 8 : 4; }

/** One rank of a group. */
struct GroupRank {
  uint32_t rank = 0;
  uint32_t size = 1;  ///< of the group
  uint32_t tag = 0;   ///< equal on all ranks of this group and almost surely on no other
};

/** One rank's end of a group. All members are called by one thread at a time, except abort_group(),
 *  abort() and counters(). None waits. */
class Transport {
 public:
  Transport() = default;
  virtual ~Transport() = default;
  Transport(const Transport&) = delete;
  Transport& operator=(const Transport&) = delete;

  uint32_t rank() const { return group_rank_.rank; }
  uint32_t size() const { return group_rank_.size; }
  uint32_t tag() const { return group_rank_.tag; }
  /** The node that a rank runs on: any number, equal for ranks of one node, and for a rank the same
   *  on all ranks. Ranks of one node reach each other faster than others. */
  virtual uint32_t node_of(uint32_t /*rank*/) const { return 0; }
  /** Over NCCL: true if the calling thread enqueues an operation, and NCCL creates none for it. The
   *  same on all ranks. */
  virtual bool operations_block() const { return false; }
  /** Of waits inside the transport, where it has some; from any thread. */
  virtual void set_timeout(int64_t /*timeout_ms*/) {}

  /** What broke the group, if something did: PEER_LOST, ABORTED, REVOKED, TIMEOUT, PROTOCOL,
   *  REMOTE_ERROR or BACKEND, with a sentence that names the first cause. */
  virtual Status check() = 0;

  /** Notifies all peers that this rank will not continue, and why; later calls here fail with it.
   *  The first cause stays: a transport that finds another rank at fault calls this with that
   *  `culprit` before it returns the failure. Callable from any thread. */
  virtual void abort_group(gqsgd_status cause, uint32_t culprit) = 0;
  /** abort_group(ABORTED, rank()), also in a signal handler: no lock, no memory, no call of another
   *  library. What that does not allow is left to finish_abort(). */
  virtual void abort() { abort_group(GQSGD_ABORTED, rank()); }
  /** Called by the next who looks, on any thread and perhaps several times. */
  virtual void finish_abort() {}

  virtual TransportCounters counters() const = 0;

 protected:
  /** Once, before the transport is used. */
  void set_group_rank(const GroupRank& group_rank) { group_rank_ = group_rank; }

 private:
  GroupRank group_rank_;
};

}  // namespace gq

#endif
