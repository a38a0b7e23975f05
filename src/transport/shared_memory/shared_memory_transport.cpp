// Headers, messages and waiting at the control blocks; what happens when a rank is gone is in
// shared_memory_failure.cpp.
#include "src/transport/shared_memory/shared_memory_transport.h"

#include <inttypes.h>
#include <sched.h>

#include <new>

#include "src/support/clock.h"
#include "src/support/relax.h"

namespace gq {
namespace {

// Shorter than a system call pair: long enough for a peer on another core that is just finishing,
// short enough to leave the core to peers that share it.
constexpr uint64_t kSpinUs = 20;
// A dead peer wakes no rank: sleepers look for it this often.
constexpr uint32_t kLookUs = 2000;
// A counter that is further ahead, or behind, was not written by a rank that sends messages.
constexpr uint64_t kMessagesAheadMax = kAwaitedNumberMask / 2;

}  // namespace

Status SharedMemoryTransport::attach(const Attachment& group) {
  peers_.reset(new (std::nothrow) Peer[group.ranks]);
  if (!peers_)
    return fail(GQSGD_NO_MEMORY, "no memory for what rank %u knows of %u peers", group.rank,
                group.ranks);
  group_ = group;
  return Status();
}

Status SharedMemoryTransport::publish(uint64_t sequence, const Header& header) {
  GQ_TRY(intact());
  std::atomic<uint32_t>* slot = group_.control->headers[sequence & 1];
  for (uint32_t word = 0; word < 16; ++word) {
    slot[word].store(header.words[word], std::memory_order_relaxed);
  }
  published_ = sequence;
  group_.control->published.store(sequence, std::memory_order_release);
  for (uint32_t peer = 0; peer < group_.ranks; ++peer) {
    if (peer != group_.rank) wake(group_.places[peer].wakeup, group_.scope);
  }
  counters_.header_bytes_sent += sizeof header * (group_.ranks - 1);
  return Status();
}

Status SharedMemoryTransport::peer_header(uint32_t peer, uint64_t sequence, Header* header,
                                          bool* there) {
  GQ_TRY(intact());
  const Control& control = control_of(peer);
  const uint64_t published = control.published.load(std::memory_order_acquire);
  uint64_t& seen = peers_[peer].published;
  *there = published >= sequence;
  if (published < seen) return protocol_failure(peer, "control message counter", published, seen);
  seen = published;
  if (!*there) {
    await(AwaitedKind::header, peer, sequence);
    return Status();
  }
  // Two ahead would have overwritten the requested header.
  if (published > sequence + 1)
    return protocol_failure(peer, "control message counter", published, sequence);
  const std::atomic<uint32_t>* slot = control.headers[sequence & 1];
  for (uint32_t word = 0; word < 16; ++word) {
    header->words[word] = slot[word].load(std::memory_order_relaxed);
  }
  return Status();
}

Status SharedMemoryTransport::signal(uint32_t peer) {
  GQ_TRY(intact());
  posted_of(group_.control)[peer].store(++peers_[peer].posted, std::memory_order_release);
  wake(group_.places[peer].wakeup, group_.scope);
  return Status();
}

Status SharedMemoryTransport::take_signal(uint32_t peer, bool* there) {
  *there = false;
  GQ_TRY(intact());
  uint64_t& received = peers_[peer].received;
  const uint64_t posted = posted_of(&control_of(peer))[group_.rank].load(std::memory_order_acquire);
  if (posted == received) {
    await(AwaitedKind::message, peer, received + 1);
    return Status();
  }
  if (posted - received > kMessagesAheadMax) {
    return protocol_failure(peer, "message counter", posted, received);
  }
  received += 1;
  *there = true;
  return Status();
}

Status SharedMemoryTransport::words_of(uint32_t origin, uint64_t offset_bytes, size_t size_bytes,
                                       const unsigned char** words) {
  GQ_TRY(reach_checked(origin, offset_bytes + size_bytes));
  *words = arena_base(origin) + offset_bytes;
  return Status();
}

uint64_t SharedMemoryTransport::newest_call() const { return published_; }

/** Peers learn which rank claims more than its arena has. */
Status SharedMemoryTransport::reach_checked(uint32_t origin, uint64_t end_bytes) {
  const Status reached = reach(origin, end_bytes);
  if (reached.code() == GQSGD_PROTOCOL) abort_group(GQSGD_PROTOCOL, origin);
  return reached;
}

Status SharedMemoryTransport::send(const Message& message) {
  GQ_TRY(signal(message.peer));
  count_sent(message.size_bytes, message.value_count);
  return Status();
}

Status SharedMemoryTransport::receive(const Message& message, const unsigned char** words) {
  *words = nullptr;
  bool there = false;
  GQ_TRY(take_signal(message.peer, &there));
  if (!there) return Status();
  const uint64_t workspace_bytes = UINT64_MAX - message.offset_bytes;
  if (message.size_bytes > workspace_bytes) {
    return fail(GQSGD_INTERNAL, "a message of %zu bytes at offset %zu", message.size_bytes,
                message.offset_bytes);
  }
  for (uint32_t origin = message.origin; origin <= message.last_origin; ++origin) {
    GQ_TRY(reach_checked(origin, message.offset_bytes + message.size_bytes));
  }
  *words = view(message);
  return Status();
}

const unsigned char* SharedMemoryTransport::view(const Message& message) const {
  return arena_base(message.origin) + message.offset_bytes;
}

Status SharedMemoryTransport::flushed(bool* done) {
  // Peers read in place; their next header shows that they have finished reading.
  *done = true;
  return Status();
}

void SharedMemoryTransport::await(AwaitedKind kind, uint32_t peer, uint64_t number) {
  awaited_ = pack(Awaited{kind, peer, number});
  peers_[peer].awaited = awaited_;
}

bool SharedMemoryTransport::was_woken() {
  const uint32_t count = wakeup().count.load(std::memory_order_acquire);
  if (count == wakeups_seen_) return false;
  wakeups_seen_ = count;
  return true;
}

bool SharedMemoryTransport::slept(uint32_t slice_us) {
  if (was_woken()) return false;
  const uint64_t begin_us = monotonic_us();
  const uint64_t end_us = begin_us + slice_us;
  const uint64_t spin_end_us = begin_us + (slice_us < kSpinUs ? slice_us : kSpinUs);
  do {
    for (int turn = 0; turn < 16; ++turn) relax();
    if (was_woken()) return false;
    sched_yield();  // the peer may be waiting for this very core
  } while (monotonic_us() < spin_end_us);
  // Peers that time out follow this to the rank that all wait for.
  group_.control->awaited.store(awaited_, std::memory_order_release);
  const uint64_t now_us = monotonic_us();
  if (now_us >= end_us) return true;
  const uint64_t left_us = end_us - now_us;
  sleep_on(&wakeup(), wakeups_seen_, left_us < kLookUs ? static_cast<uint32_t>(left_us) : kLookUs,
           group_.scope);
  return !was_woken();
}

Status SharedMemoryTransport::wait(uint32_t slice_us) {
  const uint64_t end_us = monotonic_us() + slice_us;
  for (;;) {
    const bool quiet = slept(slice_us);
    const uint64_t now_us = monotonic_us();
    // Also where wakeups never stop ringing, a dead peer is looked for now and then.
    GQ_TRY(quiet || now_us - looked_us_ >= kLookUs ? check() : intact());
    if (!quiet || now_us >= end_us) return Status();
    slice_us = static_cast<uint32_t>(end_us - now_us);
  }
}

}  // namespace gq
