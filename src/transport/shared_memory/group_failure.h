// What ends a group at control blocks: ranks that broke off, left or died; who is to blame; and how
// every rank learns of it.
#ifndef GQ_TRANSPORT_SHARED_MEMORY_GROUP_FAILURE_H
#define GQ_TRANSPORT_SHARED_MEMORY_GROUP_FAILURE_H

#include <stdint.h>

#include <atomic>
#include <memory>

#include "src/transport/shared_memory/awaited.h"
#include "src/transport/shared_memory/cause.h"
#include "src/transport/shared_memory/control_blocks.h"

namespace gq {

/** What a rank calls when its group breaks, or it learns of that: on whatever thread, once. */
struct BreakHook {
  void (*function)(void* user) = nullptr;  ///< null: nothing
  void* user = nullptr;
};

/** Whether this rank's device waits for all peers, whatever their hosts have sent: asked when one
 *  has died. */
struct DeviceWait {
  bool (*function)(void* user) = nullptr;  ///< null: it never does
  void* user = nullptr;
};

/** One rank's part in it. The first cause stays; every rank that learns of one passes it on,
 * because the rank that aborted may have died before it had notified all. */
class GroupFailure {
 public:
  Status open(const ControlBlocks& blocks, BreakHook hook);

  /** OK, or the failure that broke this group; looks at peers only after a wakeup for a failure. */
  Status intact();
  /** The same of what peers have written; notes those that have left in good order. */
  Status look_at_peers();
  /** PEER_LOST if a peer is gone that still owes this rank something: its control message
   *  `controls_sent`, or what it last kept this rank waiting for. */
  Status look_at_gone(uint64_t controls_sent);
  /** Notes that `peer` will never write again. */
  void mark_gone(uint32_t peer) { peers_[peer].gone = true, any_gone_ = true; }
  /** Whether it has gone without having left in good order. */
  bool has_died(uint32_t peer) const {
    return peers_[peer].gone && blocks_.of(peer).destroyed.load(std::memory_order_acquire) == 0;
  }
  void watch_device(DeviceWait wait) { device_wait_ = wait; }
  bool is_gone(uint32_t peer) const {
    return peers_[peer].gone || blocks_.of(peer).destroyed.load(std::memory_order_acquire) != 0;
  }

  /** Notes what is missing: the sentence of a failure names it. */
  void await(AwaitedKind kind, uint32_t peer, uint64_t number);
  /** Shows peers what is missing, before this rank sleeps. */
  void show_awaited();
  /** The rank at the end of the chain of ranks that wait for each other, from `peer` on. */
  uint32_t culprit_behind(uint32_t peer) const;

  /** Breaks the group, from any thread, also in a signal handler. */
  void abort_group(gqsgd_status status, uint32_t culprit);
  /** Breaks it because the shared memory of `peer` has what no correct rank writes. */
  Status protocol_failure(uint32_t peer, const char* what, uint64_t found, uint64_t expected);
  /** Notifies the peers that this rank has left in good order. */
  void leave();

 private:
  struct Peer {
    uint64_t awaited = 0;  ///< packed; what the last question found missing
    bool gone = false;
  };

  bool is_needed(uint32_t peer, uint64_t controls_sent) const;
  bool device_waits_for(uint32_t peer) const;
  void begin_cause(uint64_t word, uint64_t* first);
  Status adopt(uint32_t peer, uint64_t word);
  Status explain_cause(const Cause& cause) const;
  void wake_all();

  ControlBlocks blocks_;
  BreakHook hook_;
  DeviceWait device_wait_;
  std::unique_ptr<Peer[]> peers_;
  std::atomic<uint64_t> cause_{0};  // what broke this group; peers read a copy
  uint64_t awaited_ = 0;            // packed; what the last question to any peer found missing
  uint32_t failures_seen_ = 0;
  bool any_gone_ = false;
};

}  // namespace gq

#endif
