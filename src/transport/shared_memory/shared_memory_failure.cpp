// What ends a group: peers that broke off, left or died; who is to blame; and how the news spreads.
#include <inttypes.h>
#include <stdio.h>

#include "src/support/clock.h"
#include "src/transport/shared_memory/shared_memory_transport.h"

namespace gq {
namespace {

void describe(const Awaited& awaited, uint32_t self, char* text, size_t capacity_bytes) {
  switch (awaited.kind) {
    case AwaitedKind::header:
      snprintf(text, capacity_bytes, "; rank %u awaited call %" PRIu64 " of rank %u", self,
               awaited.number, awaited.peer);
      return;
    case AwaitedKind::message:
      snprintf(text, capacity_bytes, "; rank %u awaited message %" PRIu64 " of rank %u", self,
               awaited.number, awaited.peer);
      return;
    case AwaitedKind::nothing:
      break;
  }
  text[0] = '\0';
}

/** A rank waits for headers of its own newest call alone: a rank whose awaited number is another,
 *  or of an earlier call, waits for no header. */
bool may_wait_for(const Awaited& awaited, const Control& control) {
  const uint64_t newest = control.published.load(std::memory_order_acquire);
  return awaited.kind != AwaitedKind::header || awaited.number == (newest & kAwaitedNumberMask);
}

}  // namespace

Status SharedMemoryTransport::intact() {
  const uint64_t own = cause_.load(std::memory_order_acquire);
  if (own != 0) return explain_cause(unpack_cause(own));
  const uint32_t failures = wakeup().failures.load(std::memory_order_acquire);
  if (failures == failures_seen_) return Status();
  failures_seen_ = failures;
  return look_at_peers();
}

Status SharedMemoryTransport::look_at_peers() {
  for (uint32_t peer = 0; peer < group_.ranks; ++peer) {
    if (peer == group_.rank) continue;
    const uint64_t cause = control_of(peer).cause.load(std::memory_order_acquire);
    if (cause != 0) return adopt(peer, cause);
    if (control_of(peer).destroyed.load(std::memory_order_acquire) != 0) mark_gone(peer);
  }
  return Status();
}

Status SharedMemoryTransport::check() {
  GQ_TRY(intact());
  // A peer may have overwritten the word that counts alarms.
  GQ_TRY(look_at_peers());
  looked_us_ = monotonic_us();
  find_dead();
  if (!any_gone_) return Status();
  for (uint32_t peer = 0; peer < group_.ranks; ++peer) {
    if (!is_gone(peer)) continue;
    // It may have written the reason, and died before it could wake a peer.
    const uint64_t cause = control_of(peer).cause.load(std::memory_order_acquire);
    if (cause != 0) return adopt(peer, cause);
    if (!is_needed(peer)) continue;
    abort_group(GQSGD_PEER_LOST, peer);
    return intact();
  }
  return Status();
}

// A rank may leave as soon as its own work is done, while others still finish theirs. It is missed
// only by those to whom it owes a header or a message.
bool SharedMemoryTransport::is_needed(uint32_t peer) const {
  if (control_of(peer).published.load(std::memory_order_acquire) < published_) return true;
  return !has_come(unpack_awaited(peers_[peer].awaited), &control_of(peer), group_.rank);
}

// Ranks that time out at the same time wait for different ranks, which wait for others themselves.
// At the end of the chain is one that waits for nothing that has not come: that one is stopped or
// slow.
uint32_t SharedMemoryTransport::culprit_behind(uint32_t peer) const {
  uint32_t culprit = peer;
  for (uint32_t link = 0; link < group_.ranks; ++link) {
    const uint64_t word = control_of(culprit).awaited.load(std::memory_order_acquire);
    const Awaited awaited = unpack_awaited(word);
    if (awaited.peer >= group_.ranks || awaited.peer == culprit) return culprit;
    if (!may_wait_for(awaited, control_of(culprit))) return culprit;
    if (has_come(awaited, &control_of(awaited.peer), culprit)) return culprit;
    culprit = awaited.peer;
  }
  return peer;  // a cycle: no rank is more at fault than the first
}

void SharedMemoryTransport::abort_group(gqsgd_status status, uint32_t culprit) {
  uint64_t first = 0;
  if (begin_cause(pack(Cause{status, culprit, group_.rank}), &first)) broke();
}

/** The first cause stays, in *first. Every rank spreads it: the one that aborted may have died
 *  before it had notified all. */
bool SharedMemoryTransport::begin_cause(uint64_t word, uint64_t* first) {
  *first = 0;
  if (!cause_.compare_exchange_strong(*first, word)) return false;
  *first = word;
  group_.control->cause.store(word, std::memory_order_release);
  wake_all_for_failure();
  return true;
}

/** A cause that names this rank as its reporter is one that this rank has had. */
Status SharedMemoryTransport::adopt(uint32_t peer, uint64_t word) {
  if (!is_cause(word, group_.ranks)) return protocol_failure(peer, "reason", word, 0);
  if (unpack_cause(word).reporter == group_.rank) {
    const uint64_t own = cause_.load(std::memory_order_acquire);
    if (own == 0) return protocol_failure(peer, "reason", word, 0);
    return explain_cause(unpack_cause(own));
  }
  uint64_t first = 0;
  begin_cause(word, &first);
  return explain_cause(unpack_cause(first));
}

Status SharedMemoryTransport::explain_cause(const Cause& cause) const {
  char awaited[96] = "";
  const Awaited last = unpack_awaited(awaited_);
  if (!has_come(last, &control_of(last.peer), group_.rank)) {
    describe(last, group_.rank, awaited, sizeof awaited);
  }
  const bool destroyed = control_of(cause.culprit).destroyed.load(std::memory_order_acquire) != 0;
  return explain(cause, group_.rank, destroyed, awaited);
}

Status SharedMemoryTransport::protocol_failure(uint32_t peer, const char* what, uint64_t found,
                                               uint64_t expected) {
  abort_group(GQSGD_PROTOCOL, peer);
  return fail(GQSGD_PROTOCOL,
              "rank %u: the %s of rank %u is %" PRIu64 " where %" PRIu64
              " was due; its shared memory has been overwritten",
              group_.rank, what, peer, found, expected);
}

void SharedMemoryTransport::wake_all_for_failure() {
  for (uint32_t peer = 0; peer < group_.ranks; ++peer) {
    wake_for_failure(group_.places[peer].wakeup, group_.scope);
  }
}

void SharedMemoryTransport::detach() {
  group_.control->destroyed.store(1, std::memory_order_release);
  wake_all_for_failure();
}

}  // namespace gq
