// What ends a group: peers that broke off, left or died; who is to blame; and how the news spreads.
#include <algorithm>

#include "src/support/clock.h"
#include "src/transport/network/network_transport.h"

namespace gq {
namespace {

// What a peer has sent before it ended is in this machine's memory by then. Where it came by TCP
// the peer's system may still be sending it, message by message: over a slow link, at 8 Mbit/s.
constexpr uint64_t kGraceUs = 20000;
constexpr uint64_t kTcpGraceUs = 60000;
constexpr uint64_t kTcpGraceUsPerByte = 1;
constexpr uint64_t kTcpGraceMaxUs = 500000;
constexpr uint32_t kDrainSteps = 10000;
// UCX has lost the way to a peer whose other connection is there.
constexpr uint64_t kDisconnectedUs = 1000000;
// Nothing has come, and ranks wait for each other, since one died.
constexpr uint64_t kBlockedUs = 1000000;

}  // namespace

Status NetworkTransport::intact() {
  const uint64_t word = cause_.load(std::memory_order_acquire);
  if (word == 0) return Status();
  const Cause cause = unpack_cause(word);
  const AwaitedText awaited(unpack_awaited(awaited_.word()), rank());
  const bool destroyed = connections_.presence(cause.culprit) == ControlConnections::Presence::left;
  return explain(cause, rank(), destroyed, awaited.text);
}

void NetworkTransport::abort_group(gqsgd_status status, uint32_t culprit) {
  begin_cause(pack(Cause{status, culprit, rank()}));
}

/** The first cause stays. Every rank spreads it: the one that aborted may have died before it had
 *  notified all. Also in a signal handler. */
bool NetworkTransport::begin_cause(uint64_t word) {
  uint64_t none = 0;
  if (!cause_.compare_exchange_strong(none, word)) return false;
  Notice notice;
  notice.kind = NoticeKind::cause;
  notice.word = word;
  connections_.send_to_all(notice);
  connections_.keep_awake();
  return true;
}

Status NetworkTransport::take_notices() {
  for (uint32_t peer = 0; peer < size(); ++peer) {
    Notice notice;
    while (connections_.take(peer, &notice)) GQ_TRY(take(peer, notice));
  }
  return Status();
}

Status NetworkTransport::take(uint32_t peer, const Notice& notice) {
  if (notice.magic == kNetworkMagic && notice.kind == NoticeKind::leaves) {
    connections_.set_left(peer);
    return Status();
  }
  if (notice.magic == kNetworkMagic && is_word(notice)) {
    registers_.take_word(peer, notice);
    return Status();
  }
  if (notice.magic == kNetworkMagic && notice.kind == NoticeKind::awaited &&
      unpack_awaited(notice.word).peer < size()) {
    peers_[peer].awaited = notice.word;
    peers_[peer].awaited_us = monotonic_us();
    return Status();
  }
  if (notice.magic == kNetworkMagic && notice.kind == NoticeKind::cause &&
      is_cause(notice.word, size())) {
    // One that names this rank as its reporter is one that this rank has had.
    if (unpack_cause(notice.word).reporter != rank()) begin_cause(notice.word);
    return intact();
  }
  abort_group(GQSGD_PROTOCOL, peer);
  return intact();
}

/** False as long as something that is needed of it may come. */
Status NetworkTransport::is_lost(uint32_t peer, bool* is_lost) {
  const uint64_t gone_us = connections_.gone_us(peer);
  Peer& from = peers_[peer];
  // A connection of UCX may fail while this rank has nothing to send by it. Where no packets get to
  // the peer the timeout finds who is cut off: reports of what this rank waits for, which it sends
  // meanwhile, show that. None is sent here at once: where the peer has died and its link comes
  // back, its system would answer by a reset, and what it has yet to deliver of the peer, as that
  // others go on without this rank, would be lost.
  const bool is_suspect = from.failed_us == 0 && group_.engine->has_failed(peer);
  if (is_suspect && from.suspect_us == 0) from.suspect_us = looked_us_;
  if (is_suspect && looked_us_ - from.suspect_us >= kDisconnectedUs &&
      !connections_.is_unreachable(peer)) {
    from.failed_us = from.suspect_us;
  }
  *is_lost = gone_us == 0 && from.failed_us != 0 && looked_us_ - from.failed_us >= kDisconnectedUs;
  if (gone_us == 0) return Status();
  if (looked_us_ - gone_us < kGraceUs) return Status();
  // This rank may have slept all the time: one step of UCX's takes a few messages alone.
  for (uint32_t step = 0; step < kDrainSteps && group_.engine->progress(); ++step) {
  }
  size_t owed_bytes = 0;
  GQ_TRY(count_owed(peer, &owed_bytes));
  const uint64_t tcp_grace_us =
      std::min(kTcpGraceUs + owed_bytes * kTcpGraceUsPerByte, kTcpGraceMaxUs);
  const uint64_t newest_us = std::max(gone_us, from.news_us);
  const bool may_come = from.is_by_tcp && newest_us + tcp_grace_us > looked_us_;
  *is_lost = owed_bytes > 0 ? !may_come : has_blocked(peer);
  return Status();
}

// A rank may leave as soon as its own work is done, while others still finish theirs. It is missed
// only by those to whom it owes a control message or codes. What has come and has not been asked
// for yet is not owed.
Status NetworkTransport::count_owed(uint32_t peer, size_t* owed_bytes) {
  const Peer& from = peers_[peer];
  *owed_bytes = 0;
  if (from.control != nullptr) {
    GQ_TRY(test(from.control));
    if (!from.control->done) *owed_bytes += from.control->size_bytes;
  }
  for (PendingMessage* next = from.receives.front(); next != nullptr; next = next->next) {
    GQ_TRY(test(next));
    if (!next->done) *owed_bytes += next->size_bytes;
  }
  return Status();
}

/** UCX keeps one queue in memory for all messages from ranks of the same machine. Where a rank is
 *  killed after it took a place in there and before it filled that, the queue's owner waits for the
 *  place for ever: it gets nothing more of anyone, and soon all wait for each other. They never do
 *  in a group that is whole. */
bool NetworkTransport::has_blocked(uint32_t peer) const {
  const bool is_dead = connections_.presence(peer) == ControlConnections::Presence::dead;
  const Awaited own = unpack_awaited(awaited_.word());
  if (!is_dead || peers_[peer].is_by_tcp) return false;
  if (own.kind == AwaitedKind::nothing || peers_[own.peer].is_by_tcp) return false;
  uint64_t newest_us = connections_.gone_us(peer);
  for (const Peer& other : peers_) newest_us = std::max(newest_us, other.news_us);
  if (newest_us + kBlockedUs > looked_us_) return false;
  uint32_t waiter = own.peer;
  for (uint32_t link = 0; link < size(); ++link) {
    const uint32_t next = awaited_by(waiter, own.peer);
    if (next == waiter) return false;
    waiter = next;
  }
  return true;
}

void NetworkTransport::came() {
  if (awaited_.end()) connections_.send_unless_full({kNetworkMagic, NoticeKind::awaited, 0});
}

// Ranks that time out at the same time wait for different ranks, which wait for others themselves.
// At the end of the chain is one that waits for nothing, or cannot be reached: the newest notice of
// that one may be old.
uint32_t NetworkTransport::culprit_behind(uint32_t peer) const {
  if (connections_.is_cut_off()) return rank();
  uint32_t culprit = peer;
  for (uint32_t link = 0; link < size(); ++link) {
    const uint32_t next = awaited_by(culprit, peer);
    if (next == culprit || connections_.is_unreachable(culprit)) return culprit;
    if (has_come_here(culprit) && !connections_.is_unreachable(next)) return culprit;
    culprit = next;
  }
  return silent_in_cycle(culprit, peer);
}

/** The rank that `waiter` waits for, as far as is known here; itself if it waits for none. This
 * rank waits for `own`. */
uint32_t NetworkTransport::awaited_by(uint32_t waiter, uint32_t own) const {
  if (waiter == rank()) return own;
  const Awaited awaited = unpack_awaited(peers_[waiter].awaited);
  const bool is_old =
      awaited.kind == AwaitedKind::control && awaited.number != (sequence_ & kAwaitedNumberMask);
  return awaited.kind == AwaitedKind::nothing || is_old ? waiter : awaited.peer;
}

/** Whether `waiter` waits for a control message of a third rank that has come here: that rank sends
 *  it to all, so `waiter` is stopped, or packets are lost between the two. */
bool NetworkTransport::has_come_here(uint32_t waiter) const {
  const Awaited awaited = unpack_awaited(peers_[waiter].awaited);
  return waiter != rank() && awaited.peer != rank() && awaited.kind == AwaitedKind::control &&
         awaited.number == (sequence_ & kAwaitedNumberMask) &&
         peers_[awaited.peer].newest_number == sequence_;
}

/** Ranks that wait for each other: one of them has what it waits for, and was stopped before it
 *  sent a notice of it; or no packets get from one to another. Those that run repeat theirs. */
uint32_t NetworkTransport::silent_in_cycle(uint32_t first, uint32_t own) const {
  uint32_t silent = first;
  for (uint32_t next = awaited_by(first, own); next != first; next = awaited_by(next, own)) {
    const bool is_older = peers_[next].awaited_us < peers_[silent].awaited_us;
    if (next != rank() && (silent == rank() || is_older)) silent = next;
  }
  return silent;
}

}  // namespace gq
