// Control messages, messages and waiting; group_failure.cpp has what happens when a rank is gone.
#include "src/transport/shared_memory/shared_memory_transport.h"

#include <sched.h>
#include <string.h>

#include <algorithm>
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

}  // namespace

Status SharedMemoryTransport::attach(const ControlBlocks& blocks, uint32_t tag, BreakHook hook) {
  controls_seen_.reset(new (std::nothrow) uint64_t[blocks.ranks]());
  if (!controls_seen_)
    return fail(GQSGD_NO_MEMORY, "no memory for what rank %u knows of %u peers", blocks.rank,
                blocks.ranks);
  GQ_TRY(failure_.open(blocks, hook));
  GQ_TRY(signals_.open(blocks, &failure_));
  blocks_ = blocks;
  set_group_rank({blocks.rank, blocks.ranks, tag});
  return Status();
}

Status SharedMemoryTransport::send_control(uint64_t sequence, const ControlMessage& message) {
  GQ_TRY(intact());
  std::atomic<uint32_t>* slot = blocks_.own->control_words[sequence & 1];
  for (uint32_t word = 0; word < kControlWordCount; ++word) {
    slot[word].store(message.words[word], std::memory_order_relaxed);
  }
  controls_sent_ = sequence;
  blocks_.own->controls_sent.store(sequence, std::memory_order_release);
  for (uint32_t peer = 0; peer < blocks_.ranks; ++peer) {
    if (peer != blocks_.rank) wake(blocks_.wakeup_of(peer), blocks_.scope);
  }
  counters_.header_bytes_sent += sizeof message * (blocks_.ranks - 1);
  return Status();
}

Status SharedMemoryTransport::receive_control(uint32_t peer, uint64_t sequence,
                                              ControlMessage* message, bool* there) {
  GQ_TRY(intact());
  const Control& control = blocks_.of(peer);
  const uint64_t controls_sent = control.controls_sent.load(std::memory_order_acquire);
  uint64_t& seen = controls_seen_[peer];
  *there = controls_sent >= sequence;
  if (controls_sent < seen)
    return failure_.protocol_failure(peer, "control message counter", controls_sent, seen);
  seen = controls_sent;
  if (!*there) {
    failure_.await(AwaitedKind::control, peer, sequence);
    return Status();
  }
  // Two ahead would have overwritten the requested control message.
  if (controls_sent > sequence + 1)
    return failure_.protocol_failure(peer, "control message counter", controls_sent, sequence);
  const std::atomic<uint32_t>* slot = control.control_words[sequence & 1];
  for (uint32_t word = 0; word < kControlWordCount; ++word) {
    message->words[word] = slot[word].load(std::memory_order_relaxed);
  }
  return Status();
}

Status SharedMemoryTransport::words_of(uint32_t origin, uint64_t offset_bytes, size_t size_bytes,
                                       const unsigned char** words) {
  GQ_TRY(reach_checked(origin, offset_bytes + size_bytes));
  *words = arena_base(origin) + offset_bytes;
  return Status();
}

/** Peers learn which rank claims more than its arena has. */
Status SharedMemoryTransport::reach_checked(uint32_t origin, uint64_t end_bytes) {
  const Status reached = reach(origin, end_bytes);
  if (reached.code() == GQSGD_PROTOCOL) abort_group(GQSGD_PROTOCOL, origin);
  return reached;
}

/** Like the words, it is there before the signal. */
void SharedMemoryTransport::write_trailer(const Message& message) {
  unsigned char* const own = const_cast<unsigned char*>(arena_base(rank()));
  memcpy(own + message.trailer_bytes, message.trailer, sizeof *message.trailer);
}

Status SharedMemoryTransport::read_trailer(const Message& message) {
  const unsigned char* trailer = nullptr;
  GQ_TRY(words_of(message.peer, message.trailer_bytes, sizeof *message.trailer, &trailer));
  memcpy(message.trailer, trailer, sizeof *message.trailer);
  return Status();
}

Status SharedMemoryTransport::send(const Message& message) {
  if (message.trailer != nullptr) write_trailer(message);
  GQ_TRY(signals_.post(message.peer));
  count_sent(message.size_bytes, message.value_count);
  return Status();
}

Status SharedMemoryTransport::receive(const Message& message, const unsigned char** words) {
  *words = nullptr;
  bool there = false;
  GQ_TRY(signals_.take(message.peer, &there));
  if (!there) return Status();
  const uint64_t workspace_bytes = UINT64_MAX - message.offset_bytes;
  if (message.size_bytes > workspace_bytes) {
    return fail(GQSGD_INTERNAL, "a message of %zu bytes at offset %zu", message.size_bytes,
                message.offset_bytes);
  }
  for (uint32_t origin = message.origin; origin <= message.last_origin; ++origin) {
    GQ_TRY(reach_checked(origin, message.offset_bytes + message.size_bytes));
  }
  if (message.trailer != nullptr) GQ_TRY(read_trailer(message));
  *words = view(message);
  return Status();
}

const unsigned char* SharedMemoryTransport::view(const Message& message) const {
  return arena_base(message.origin) + message.offset_bytes;
}

Status SharedMemoryTransport::flushed(bool* done) {
  // Peers read in place; their next control message shows that they have finished reading.
  *done = true;
  return Status();
}

bool SharedMemoryTransport::was_woken() {
  const uint32_t count = blocks_.wakeup().count.load(std::memory_order_acquire);
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
  failure_.show_awaited();
  const uint64_t now_us = monotonic_us();
  if (now_us >= end_us) return true;
  const uint64_t left_us = end_us - now_us;
  sleep_on(&blocks_.wakeup(), wakeups_seen_,
           left_us < kLookUs ? static_cast<uint32_t>(left_us) : kLookUs, blocks_.scope);
  return !was_woken();
}

Status SharedMemoryTransport::check() {
  GQ_TRY(intact());
  // A peer may have overwritten the counter of failures.
  GQ_TRY(failure_.look_at_peers());
  looked_us_ = monotonic_us();
  find_dead();
  return failure_.look_at_gone(controls_sent_);
}

Status SharedMemoryTransport::wait(uint32_t slice_us) {
  const uint64_t end_us = monotonic_us() + slice_us;
  for (;;) {
    const bool quiet = slept(slice_us);
    const uint64_t now_us = monotonic_us();
    // Dead peers are looked for now and then, even if wakeups never cease.
    GQ_TRY(quiet || now_us - looked_us_ >= kLookUs ? check() : intact());
    if (!quiet || now_us >= end_us) return Status();
    slice_us = static_cast<uint32_t>(end_us - now_us);
  }
}

void SharedMemoryTransport::publish(const RegisterWords& own, bool /*is_last*/) {
  Control& control = *blocks_.own;
  const uint64_t number = control.registers_written.load(std::memory_order_relaxed) + 1;
  std::atomic<uint64_t>* const slot = control.register_words[number & 1];
  // A reader of one of these words sees that the register before is the newest.
  std::atomic_thread_fence(std::memory_order_release);
  for (size_t word = 0; word < kRegisterWords; ++word) {
    slot[word].store(own.words[word], std::memory_order_relaxed);
  }
  control.registers_written.store(number, std::memory_order_release);
  for (uint32_t peer = 0; peer < blocks_.ranks; ++peer) {
    if (peer != blocks_.rank) wake(blocks_.wakeup_of(peer), blocks_.scope);
  }
}

bool SharedMemoryTransport::read(uint32_t peer, RegisterWords* found) {
  const Control& control = blocks_.of(peer);
  for (;;) {
    const uint64_t number = control.registers_written.load(std::memory_order_acquire);
    if (number == 0) return false;
    const std::atomic<uint64_t>* const slot = control.register_words[number & 1];
    for (size_t word = 0; word < kRegisterWords; ++word) {
      found->words[word] = slot[word].load(std::memory_order_relaxed);
    }
    // Its owner writes to this place again once the next one is there.
    std::atomic_thread_fence(std::memory_order_acquire);
    if (control.registers_written.load(std::memory_order_relaxed) == number) return true;
  }
}

bool SharedMemoryTransport::is_gone(uint32_t peer, const UnheardLimits&) {
  return failure_.is_gone(peer);
}

void SharedMemoryTransport::look(uint32_t slice_us) {
  if (slice_us > 0) slept(std::min(slice_us, kLookUs));
  find_dead();
}

}  // namespace gq
