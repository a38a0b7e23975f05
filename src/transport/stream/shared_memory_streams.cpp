// The three steps of an operation, and the hosts' waits between them.
#include "src/transport/stream/shared_memory_streams.h"

#include <inttypes.h>

#include <algorithm>

#include "src/support/clock.h"
#include "src/transport/culprit.h"

namespace gq {
Status SharedMemoryStreams::open() {
  roles_.resize(size());
  gathered_.reserve(2 * size_t{size()});
  return broken_.open(device());
}

void SharedMemoryStreams::abort_group(gqsgd_status cause, uint32_t culprit) {
  broken_.set();
  shared_memory_.abort_group(cause, culprit);
}

Status SharedMemoryStreams::gather(const void* own, void* all, size_t size_bytes,
                                   StreamHandle stream) {
  auto* const to = static_cast<unsigned char*>(all);
  // One base for both, as far from `own` on every rank.
  const uintptr_t own_at = reinterpret_cast<uintptr_t>(own);
  const uintptr_t all_at = reinterpret_cast<uintptr_t>(all);
  const uintptr_t base = std::min(own_at, all_at);
  gathered_.clear();
  for (uint32_t peer = 0; peer < size(); ++peer) {
    if (peer == rank()) continue;
    gathered_.push_back({peer, true, own_at - base, size_bytes});
    gathered_.push_back(
        {peer, false, all_at - base + peer * size_bytes, size_bytes, own_at - base});
  }
  GQ_TRY(device().copy(to + rank() * size_bytes, own, size_bytes, stream));
  return pass(reinterpret_cast<unsigned char*>(base), gathered_.data(), gathered_.size(), stream);
}

Status SharedMemoryStreams::exchange(unsigned char* arena, const Transfer* transfers,
                                     size_t transfer_count, StreamHandle stream) {
  for (size_t k = 0; k < transfer_count; ++k) {
    if (!transfers[k].sends) continue;
    shared_memory_.count_sent(transfers[k].size_bytes, transfers[k].value_count);
  }
  return pass(arena, transfers, transfer_count, stream);
}

Status SharedMemoryStreams::pass(unsigned char* base, const Transfer* transfers,
                                 size_t transfer_count, StreamHandle stream) {
  std::fill(roles_.begin(), roles_.end(), uint8_t{0});
  for (size_t k = 0; k < transfer_count; ++k) {
    roles_[transfers[k].peer] |= transfers[k].sends ? kTakes : kGives;
  }
  GQ_TRY(show(base, transfers, transfer_count, stream));
  GQ_TRY(signal_all(kTakes));
  GQ_TRY(fetch_all(base, transfers, transfer_count, stream));
  GQ_TRY(end_fetching(stream));
  GQ_TRY(signal_all(kGives));
  for (uint32_t peer = 0; peer < size(); ++peer) {
    if ((roles_[peer] & kTakes) == 0) continue;
    GQ_TRY(await(peer, "fetch words"));
    GQ_TRY(let_go(peer, stream));
  }
  return Status();
}

/** Every rank begins with the one after it, so that they do not all read from the same one. */
Status SharedMemoryStreams::fetch_all(unsigned char* base, const Transfer* transfers,
                                      size_t transfer_count, StreamHandle stream) {
  for (uint32_t k = 1; k < size(); ++k) {
    const uint32_t peer = (rank() + k) % size();
    if (!fetches_from(peer)) continue;
    GQ_TRY(await(peer, "show words"));
    GQ_TRY(fetch_from(peer, base, transfers, transfer_count, stream));
  }
  return Status();
}

Status SharedMemoryStreams::fetch_from(uint32_t peer, unsigned char* base,
                                       const Transfer* transfers, size_t transfer_count,
                                       StreamHandle stream) {
  const Transfer* const end = transfers + transfer_count;
  const auto is_wanted = [=](const Transfer& one) { return !one.sends && one.peer == peer; };
  size_t end_bytes = 0;
  for (const Transfer* one = transfers; one != end; ++one) {
    if (is_wanted(*one)) end_bytes = std::max(end_bytes, one->there_bytes + one->size_bytes);
  }
  GQ_TRY(begin_fetching(peer, end_bytes, stream));
  for (const Transfer* one = transfers; one != end; ++one) {
    if (!is_wanted(*one)) continue;
    GQ_TRY(fetch(*one, base + one->here_bytes, stream));
    shared_memory_.count_copied(one->size_bytes);
  }
  return Status();
}

Status SharedMemoryStreams::signal_all(uint8_t role) {
  for (uint32_t peer = 0; peer < size(); ++peer) {
    if ((roles_[peer] & role) != 0) GQ_TRY(shared_memory_.signals().post(peer));
  }
  return Status();
}

Status SharedMemoryStreams::wait_for_hosts(const char* what) {
  std::fill(roles_.begin(), roles_.end(), uint8_t{0});
  for (uint32_t k = 1; k < size(); ++k) roles_[(rank() + k) % size()] = kGives;
  GQ_TRY(signal_all(kGives));
  for (uint32_t peer = 0; peer < size(); ++peer) {
    if (fetches_from(peer)) GQ_TRY(await(peer, what));
  }
  return Status();
}

Status SharedMemoryStreams::await(uint32_t peer, const char* what) {
  const int64_t timeout_ms = config_.timeout_ms->load(std::memory_order_relaxed);
  const uint64_t begun_us = monotonic_us();
  const uint64_t deadline_us = deadline_after_ms(timeout_ms);
  for (;;) {
    bool there = false;
    GQ_TRY(shared_memory_.signals().take(peer, &there));
    if (there) break;
    if (monotonic_us() >= deadline_us) {
      const Culprit found(shared_memory_, peer, kStoppedOrSlow);
      shared_memory_.abort_group(GQSGD_TIMEOUT, found.rank());
      return fail(GQSGD_TIMEOUT,
                  "call %" PRIu64 ": rank %u waited %" PRId64
                  " ms for rank %u to %s; %s (timeout_ms sets the limit)",
                  shared_memory_.newest_call(), rank(), timeout_ms, peer, what, found.clause());
    }
    GQ_TRY(shared_memory_.wait(kWaitSliceUs));
  }
  *config_.wait_ns += (monotonic_us() - begun_us) * 1000;
  return Status();
}

Status SharedMemoryStreams::wait_for_device(EventHandle event) {
  const int64_t timeout_ms = config_.timeout_ms->load(std::memory_order_relaxed);
  const uint64_t begun_us = monotonic_us();
  const auto look = [](void* self) { return static_cast<SharedMemoryStreams*>(self)->check(); };
  bool done = false;
  GQ_TRY(wait_for(device(), event, deadline_after_ms(timeout_ms), look, this, &done));
  *config_.wait_ns += (monotonic_us() - begun_us) * 1000;
  if (done) return Status();
  shared_memory_.abort_group(GQSGD_TIMEOUT, rank());
  return fail(
      GQSGD_TIMEOUT,
      "call %" PRIu64 ": rank %u waited %" PRId64
      " ms for its own stream: earlier work of it takes as long (timeout_ms sets the limit)",
      shared_memory_.newest_call(), rank(), timeout_ms);
}

}  // namespace gq
