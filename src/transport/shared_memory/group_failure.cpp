// How a rank learns what broke its group, whom it blames, and how it passes the cause on.
#include "src/transport/shared_memory/group_failure.h"

#include <inttypes.h>

#include <new>

namespace gq {
namespace {

/** A rank waits for control messages of its own newest call alone: a rank whose awaited number is
 * another, or of an earlier call, waits for no control message. */
bool may_wait_for(const Awaited& awaited, const Control& control) {
  const uint64_t newest = control.controls_sent.load(std::memory_order_acquire);
  return awaited.kind != AwaitedKind::control || awaited.number == (newest & kAwaitedNumberMask);
}

}  // namespace

Status GroupFailure::open(const ControlBlocks& blocks, BreakHook hook) {
  peers_.reset(new (std::nothrow) Peer[blocks.ranks]);
  if (!peers_)
    return fail(GQSGD_NO_MEMORY, "no memory for what rank %u knows of %u peers", blocks.rank,
                blocks.ranks);
  blocks_ = blocks;
  hook_ = hook;
  return Status();
}

Status GroupFailure::intact() {
  const uint64_t own = cause_.load(std::memory_order_acquire);
  if (own != 0) return explain_cause(unpack_cause(own));
  const uint32_t failures = blocks_.wakeup().failures.load(std::memory_order_acquire);
  if (failures == failures_seen_) return Status();
  failures_seen_ = failures;
  return look_at_peers();
}

Status GroupFailure::look_at_peers() {
  for (uint32_t peer = 0; peer < blocks_.ranks; ++peer) {
    if (peer == blocks_.rank) continue;
    const uint64_t cause = blocks_.of(peer).cause.load(std::memory_order_acquire);
    if (cause != 0) return adopt(peer, cause);
    if (blocks_.of(peer).destroyed.load(std::memory_order_acquire) != 0) mark_gone(peer);
  }
  return Status();
}

Status GroupFailure::look_at_gone(uint64_t controls_sent) {
  if (!any_gone_) return Status();
  for (uint32_t peer = 0; peer < blocks_.ranks; ++peer) {
    if (!peers_[peer].gone) continue;
    // It may have written the reason, and died before it could wake a peer.
    const uint64_t cause = blocks_.of(peer).cause.load(std::memory_order_acquire);
    if (cause != 0) return adopt(peer, cause);
    if (!is_needed(peer, controls_sent) && !device_waits_for(peer)) continue;
    abort_group(GQSGD_PEER_LOST, peer);
    return intact();
  }
  return Status();
}

// A rank may leave as soon as its own work is done, while others still finish theirs. It is missed
// only by those to whom it owes a control message or a message.
bool GroupFailure::is_needed(uint32_t peer, uint64_t controls_sent) const {
  if (blocks_.of(peer).controls_sent.load(std::memory_order_acquire) < controls_sent) return true;
  return !has_come(unpack_awaited(peers_[peer].awaited), &blocks_.of(peer), blocks_.rank);
}

bool GroupFailure::device_waits_for(uint32_t peer) const {
  return device_wait_.function != nullptr && has_died(peer) &&
         device_wait_.function(device_wait_.user);
}

void GroupFailure::await(AwaitedKind kind, uint32_t peer, uint64_t number) {
  awaited_ = pack(Awaited{kind, peer, number});
  peers_[peer].awaited = awaited_;
}

void GroupFailure::show_awaited() {
  blocks_.own->awaited.store(awaited_, std::memory_order_release);
}

// Ranks that time out at the same time wait for different ranks, which wait for others themselves.
// At the end of the chain is one that waits for nothing that has not come: that one is stopped or
// slow.
uint32_t GroupFailure::culprit_behind(uint32_t peer) const {
  uint32_t culprit = peer;
  for (uint32_t link = 0; link < blocks_.ranks; ++link) {
    const uint64_t word = blocks_.of(culprit).awaited.load(std::memory_order_acquire);
    const Awaited awaited = unpack_awaited(word);
    if (awaited.peer >= blocks_.ranks || awaited.peer == culprit) return culprit;
    if (!may_wait_for(awaited, blocks_.of(culprit))) return culprit;
    if (has_come(awaited, &blocks_.of(awaited.peer), culprit)) return culprit;
    culprit = awaited.peer;
  }
  return peer;  // a cycle: no rank is more at fault than the first
}

void GroupFailure::abort_group(gqsgd_status status, uint32_t culprit) {
  uint64_t first = 0;
  begin_cause(pack(Cause{status, culprit, blocks_.rank}), &first);
}

/** The first cause stays, in *first. Every rank spreads it: the one that aborted may have died
 *  before it had notified all. */
void GroupFailure::begin_cause(uint64_t word, uint64_t* first) {
  *first = 0;
  if (!cause_.compare_exchange_strong(*first, word)) return;
  *first = word;
  blocks_.own->cause.store(word, std::memory_order_release);
  wake_all();
  if (hook_.function != nullptr) hook_.function(hook_.user);
}

/** A cause that names this rank as its reporter is one that this rank has had. */
Status GroupFailure::adopt(uint32_t peer, uint64_t word) {
  if (!is_cause(word, blocks_.ranks)) return protocol_failure(peer, "reason", word, 0);
  if (unpack_cause(word).reporter == blocks_.rank) {
    const uint64_t own = cause_.load(std::memory_order_acquire);
    if (own == 0) return protocol_failure(peer, "reason", word, 0);
    return explain_cause(unpack_cause(own));
  }
  uint64_t first = 0;
  begin_cause(word, &first);
  return explain_cause(unpack_cause(first));
}

Status GroupFailure::explain_cause(const Cause& cause) const {
  Awaited last = unpack_awaited(awaited_);
  if (has_come(last, &blocks_.of(last.peer), blocks_.rank)) last = Awaited();
  const bool destroyed = blocks_.of(cause.culprit).destroyed.load(std::memory_order_acquire) != 0;
  return explain(cause, blocks_.rank, destroyed, AwaitedText(last, blocks_.rank).text);
}

Status GroupFailure::protocol_failure(uint32_t peer, const char* what, uint64_t found,
                                      uint64_t expected) {
  abort_group(GQSGD_PROTOCOL, peer);
  return fail(GQSGD_PROTOCOL,
              "rank %u: the %s of rank %u is %" PRIu64 " where %" PRIu64
              " was due; its shared memory has been overwritten",
              blocks_.rank, what, peer, found, expected);
}

void GroupFailure::wake_all() {
  for (uint32_t peer = 0; peer < blocks_.ranks; ++peer) {
    wake_for_failure(blocks_.wakeup_of(peer), blocks_.scope);
  }
}

void GroupFailure::leave() {
  blocks_.own->destroyed.store(1, std::memory_order_release);
  wake_all();
}

}  // namespace gq
