// Messages of calls; nothing here waits but wait().
#include "src/transport/network/network_transport.h"

#include <inttypes.h>
#include <sched.h>
#include <stdint.h>
#include <string.h>

#include <new>
#include <string>
#include <utility>

#include "src/support/clock.h"
#include "src/support/log.h"
#include "src/support/relax.h"

namespace gq {
namespace {

constexpr uint32_t kControlChannel = 0;
constexpr uint32_t kWordChannel = 1;
// Sends that are done are looked for when so many have piled up.
constexpr size_t kSendsMax = 64;

// Messages of a network take tens of microseconds. After a wait that was longer than the spin the
// next one is short, so that ranks that share cores leave them to each other.
constexpr uint64_t kSpinUs = 200;
constexpr uint64_t kShortSpinUs = 20;
// Notices are looked for this often where messages never cease.
constexpr uint64_t kLookUs = 2000;
// What is sent leaves this process in microseconds, unless a peer has stopped taking it.
constexpr int64_t kFinishMs = 50;
// So many bytes are taken by the buffer of any TCP socket that has few others (tcp(7), tcp_wmem).
constexpr uint64_t kSocketBytes = 4096;

}  // namespace

Status NetworkTransport::open(NetworkGroup group) {
  group_ = std::move(group);
  set_group_rank({group_.rank, group_.size, group_.tag});
  spin_us_ = kShortSpinUs;
  peers_ = std::vector<Peer>(group_.size);
  packets_.open(group_.rank, group_.size);
  sends_.reserve(2 * kSendsMax);
  for (uint32_t peer = 0; peer < group_.size; ++peer) {
    const std::string by = peer == rank() ? "" : group_.engine->transports_to(peer);
    peers_[peer].is_by_tcp = by.find("tcp") != std::string::npos;
  }
  registers_.open(group_.rank, group_.size, group_.engine->event_fd());
  return connections_.open(std::move(group_.links), group_.engine->event_fd());
}

NetworkTransport::~NetworkTransport() {
  if (generation_ != fork_generation() || !group_.engine) return;
  if (cause_.load(std::memory_order_acquire) == 0) finish_sends();
  connections_.send_to_all(Notice());
  group_.engine.reset();  // before the memory of its messages
}

/** What peers are owed of a call that has ended here. */
void NetworkTransport::finish_sends() {
  const uint64_t deadline_us = deadline_after_ms(kFinishMs);
  for (bool done = false; !done;) {
    if (!flushed(&done).ok() || monotonic_us() >= deadline_us) return;
    if (!done) group_.engine->progress();
  }
}

Status NetworkTransport::arena(size_t size_bytes, unsigned char** base) {
  GQ_TRY(intact());
  if (size_bytes > arena_.size_bytes()) {
    if (!sends_.empty()) {
      try {
        retired_arenas_.reserve(retired_arenas_.size() + 1);
      } catch (const std::bad_alloc&) {
        return fail(GQSGD_NO_MEMORY, "rank %u: no memory for a second arena", rank());
      }
      retired_arenas_.push_back(std::move(arena_));
    }
    GQ_TRY(arena_.allocate_cleared(rank(), size_bytes));
  }
  *base = arena_.base();
  return Status();
}

/** Returns `message` to the pool if it could not be sent, also to a rank that is gone: a rank that
 *  is missed is found by what does not come of it. */
Status NetworkTransport::start_send(uint32_t peer, uint32_t channel, const void* bytes,
                                    size_t size_bytes, PendingMessage* message,
                                    uint32_t checksum) {
  message->peer = peer;
  const Status sent =
      group_.engine->start_send(peer, channel, bytes, size_bytes, &message->request, checksum);
  if (!sent.ok()) {
    pool_.give_back(message);
    return failed(peer, sent);
  }
  Peer& to = peers_[peer];
  to.sent_bytes += size_bytes;
  to.is_flushed = to.is_flushed && to.newest_leaves_at_once();
  sends_.push_back(message);
  return Status();
}

/** The call before the newest has ended, so the peer's control message of that call has come, and
 *  the peer has received all bytes of the calls before that one: what the socket holds is of two
 *  calls. */
bool NetworkTransport::Peer::newest_leaves_at_once() const {
  return is_by_tcp && sent_before_bytes + sent_bytes <= kSocketBytes;
}

Status NetworkTransport::start_receive(uint32_t peer, uint32_t channel, void* bytes,
                                       size_t least_bytes, size_t most_bytes,
                                       PendingMessage* message) {
  message->peer = peer;
  message->place = static_cast<unsigned char*>(bytes);
  message->size_bytes = least_bytes;
  const Status begun = group_.engine->start_receive(peer, channel, bytes, least_bytes, most_bytes,
                                                    &message->request);
  message->failed = !begun.ok();
  return begun.ok() ? Status() : failed(peer, begun);
}

/** A connection that has failed shows its peer's death before the notice of it comes, or an abort:
 *  check() waits for that. Anything else is a failure of this call. */
Status NetworkTransport::failed(uint32_t peer, Status status) {
  if (status.code() == GQSGD_PEER_LOST) {
    if (peers_[peer].failed_us == 0) {
      peers_[peer].failed_us = monotonic_us();
      log_line(GQSGD_LOG_INFO, {tag(), rank()}, "%s", status.sentence());
    }
    return Status();
  }
  abort_group(status.code(), status.code() == GQSGD_PROTOCOL ? peer : rank());
  return status;
}

Status NetworkTransport::test(PendingMessage* message) {
  if (message->done || message->failed) return Status();
  const Status tested = group_.engine->test(&message->request, &message->done);
  if (message->done && connections_.any_gone()) peers_[message->peer].news_us = monotonic_us();
  if (tested.ok()) return tested;
  message->failed = true;
  return failed(message->peer, tested);
}

Status NetworkTransport::send_control(uint64_t sequence, const ControlMessage& message) {
  GQ_TRY(intact());
  if (sequence != sequence_) {
    for (Peer& peer : peers_) peer.sent_before_bytes = std::exchange(peer.sent_bytes, 0);
  }
  sequence_ = sequence;
  const Enclosed values = packets_.begin(message);
  const ControlPacket& packet = packets_.of(rank());
  counters_.header_bytes_sent += sizeof message * (size() - 1);
  try {
    for (uint32_t distance = 1; distance < size(); ++distance) {
      const uint32_t peer = (rank() + size() - distance) % size();
      PendingMessage* const receive = pool_.take();
      peers_[peer].control = receive;
      GQ_TRY(start_receive(peer, kControlChannel, &packets_.of(peer), ControlPacket::kLeastBytes,
                           sizeof packet, receive));
    }
    for (uint32_t distance = 1; distance < size(); ++distance) {
      PendingMessage* const sent = pool_.take();
      const size_t size_bytes = ControlPacket::kLeastBytes + values.size_bytes;
      memcpy(&sent->packet, &packet, size_bytes);
      GQ_TRY(start_send((rank() + distance) % size(), kControlChannel, &sent->packet, size_bytes,
                        sent, values.checksum));
      if (values.size_bytes > 0) counters_.count_sent(values.size_bytes, packets_.value_count());
    }
  } catch (const std::bad_alloc&) {
    return fail(GQSGD_NO_MEMORY, "rank %u: no memory for control messages", rank());
  }
  return Status();
}

Status NetworkTransport::receive_control(uint32_t peer, uint64_t sequence, ControlMessage* message,
                                         bool* there) {
  Peer& from = peers_[peer];
  *there = peer == rank() || from.newest_number == sequence;
  if (!*there) {
    GQ_TRY(intact());
    GQ_TRY(test(from.control));
    if (!from.control->done) {
      awaited_.begin({AwaitedKind::control, peer, sequence});
      return Status();
    }
    const UcxRequest& request = from.control->request;
    packets_.came(peer, request.received_bytes(), request.checksum());
    pool_.give_back(from.control);
    from.control = nullptr;
    from.newest_number = sequence;
    *there = true;
    came();
  }
  *message = packets_.of(peer).control;
  if (message->words[kControlMagicVersion] >> 16 == kControlMagic >> 16 &&
      message->words[kControlSequence] == static_cast<uint32_t>(sequence)) {
    return Status();
  }
  if (has_checksum(packets_.of(rank()).control) && !is_intact(*message)) return Status();
  abort_group(GQSGD_PROTOCOL, peer);
  return fail(GQSGD_PROTOCOL,
              "call %" PRIu64
              ": rank %u got %zu bytes from rank %u that are not its control "
              "message of this call",
              sequence, rank(), sizeof *message, peer);
}

Status NetworkTransport::send(const Message& message) {
  GQ_TRY(intact());
  try {
    // A mark is not needed: peers get a notice of a rank that fails.
    GQ_TRY(start_send(message.peer, kWordChannel, arena_.base() + message.here_bytes,
                      message.size_bytes, pool_.take(),
                      message.trailer == nullptr ? 0 : message.trailer->checksum));
  } catch (const std::bad_alloc&) {
    return fail(GQSGD_NO_MEMORY, "rank %u: no memory for %zu sends", rank(), sends_.size() + 1);
  }
  counters_.count_sent(message.size_bytes, message.value_count);
  // Stages take longer than a wire's buffers last: what is under way is helped on between them.
  group_.engine->progress();
  return sends_.size() < kSendsMax ? Status() : reap_sends();
}

Status NetworkTransport::expect(const Message& message) {
  GQ_TRY(intact());
  try {
    PendingMessage* const receive = pool_.take();
    peers_[message.peer].receives.push(receive);
    return start_receive(message.peer, kWordChannel, arena_.base() + message.here_bytes,
                         message.size_bytes, message.size_bytes, receive);
  } catch (const std::bad_alloc&) {
    return fail(GQSGD_NO_MEMORY, "rank %u: no memory for more receives", rank());
  }
}

Status NetworkTransport::receive(const Message& message, const unsigned char** words) {
  GQ_TRY(intact());
  *words = nullptr;
  Peer& from = peers_[message.peer];
  PendingMessage* const first = from.receives.front();
  if (first == nullptr || first->size_bytes != message.size_bytes) {
    abort_group(GQSGD_INTERNAL, rank());
    return fail(GQSGD_INTERNAL, "rank %u: %zu bytes from rank %u were not announced", rank(),
                message.size_bytes, message.peer);
  }
  GQ_TRY(test(first));
  if (!first->done) {
    awaited_.begin({AwaitedKind::message, message.peer, from.received_count + 1});
    return Status();
  }
  *words = first->place;
  if (message.trailer != nullptr) *message.trailer = {first->request.checksum(), 0};
  from.received_count += 1;
  pool_.give_back(from.receives.pop());
  came();
  return Status();
}

Status NetworkTransport::reap_sends() {
  for (size_t k = sends_.size(); k-- > 0;) {
    GQ_TRY(test(sends_[k]));
    if (!sends_[k]->done && !sends_[k]->failed) continue;
    pool_.give_back(sends_[k]);
    sends_[k] = sends_.back();
    sends_.pop_back();
  }
  return Status();
}

Status NetworkTransport::flush(uint32_t peer) {
  Peer& to = peers_[peer];
  bool done = false;
  Status status;
  if (!to.flush.is_pending()) status = group_.engine->start_flush(peer, &to.flush);
  if (status.ok()) status = group_.engine->test(&to.flush, &done);
  to.is_flushed = done || !status.ok();
  return status.ok() ? status : failed(peer, status);
}

/** Nothing that is sent to it arrives any more: no call waits for that. */
bool NetworkTransport::is_unreachable(uint32_t peer) const {
  return peers_[peer].failed_us != 0 || connections_.gone_us(peer) != 0;
}

Status NetworkTransport::flushed(bool* done) {
  GQ_TRY(intact());
  GQ_TRY(reap_sends());
  *done = true;
  for (uint32_t peer = 0; peer < size(); ++peer) {
    if (peers_[peer].is_flushed) continue;
    GQ_TRY(flush(peer));
    if (!peers_[peer].is_flushed && !is_unreachable(peer)) *done = false;
  }
  for (const PendingMessage* message : sends_) {
    if (!is_unreachable(message->peer)) *done = false;
  }
  if (*done) {
    came();
  } else {
    awaited_.begin({AwaitedKind::taken, unflushed_peer(), 0});
  }
  return Status();
}

uint32_t NetworkTransport::unflushed_peer() const {
  for (uint32_t peer = 0; peer < size(); ++peer) {
    if (!peers_[peer].is_flushed && !is_unreachable(peer)) return peer;
  }
  return sends_.empty() ? rank() : sends_[0]->peer;
}

/** True if something has happened before the spin was over. */
bool NetworkTransport::spun(uint64_t end_us) {
  const uint64_t begin_us = monotonic_us();
  const uint64_t spin_end_us = begin_us + spin_us_ < end_us ? begin_us + spin_us_ : end_us;
  do {
    if (group_.engine->progress() || cause_.load(std::memory_order_acquire) != 0) {
      spin_us_ = kSpinUs;
      return true;
    }
    relax();
    sched_yield();  // the peer may be waiting for this very core
  } while (monotonic_us() < spin_end_us);
  spin_us_ = kShortSpinUs;
  return false;
}

Status NetworkTransport::wait(uint32_t slice_us) {
  GQ_TRY(intact());
  const uint64_t end_us = monotonic_us() + slice_us;
  const bool has_news = spun(end_us);
  if (has_news && monotonic_us() - looked_us_ < kLookUs) return intact();
  if (awaited_.is_due(monotonic_us())) {
    connections_.send_unless_full({kNetworkMagic, NoticeKind::awaited, awaited_.word()});
    connections_.look_at_links();
  }
  if (!has_news) {
    bool may_sleep = false;
    GQ_TRY(group_.engine->arm(&may_sleep));
    GQ_TRY(connections_.sleep(may_sleep ? poll_ms_until(end_us, INT32_MAX) : 0));
  }
  return check();
}

/** Between calls no thread makes progress: the query has to. */
Status NetworkTransport::check() {
  GQ_TRY(intact());
  looked_us_ = monotonic_us();
  GQ_TRY(connections_.sleep(0));
  group_.engine->progress();
  GQ_TRY(take_notices());
  for (uint32_t peer = 0; peer < size(); ++peer) {
    bool is_lost = false;
    GQ_TRY(this->is_lost(peer, &is_lost));
    if (is_lost) abort_group(GQSGD_PEER_LOST, peer);
    if (is_lost) break;
  }
  return intact();
}

}  // namespace gq
