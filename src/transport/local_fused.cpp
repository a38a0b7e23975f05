// Shares of devices, the memory of fused kernels, and the order of streams around them.
#include "src/transport/local_fused.h"

#include <inttypes.h>

#include <algorithm>
#include <map>
#include <new>

#include "src/support/kept_failure.h"
#include "src/transport/local_streams.h"

namespace gq {
namespace {

/** Blocks on each device that groups of this process count on. */
struct Ledger {
  std::mutex mutex;
  std::map<int32_t, uint32_t> taken;
};

Ledger& ledger() {
  static Ledger* const all = new Ledger;  // groups may outlive static objects
  return *all;
}

uint32_t ranks_on(int32_t ordinal, const LocalSeat* seats, uint32_t ranks) {
  return static_cast<uint32_t>(std::count_if(
      seats, seats + ranks, [=](const LocalSeat& seat) { return seat.ordinal == ordinal; }));
}

const char* what_was_awaited(MeetFor meeting) {
  switch (meeting) {
    case MeetFor::norms:
      return "norms";
    case MeetFor::codes:
      return "codes";
    case MeetFor::sums:
      break;
  }
  return "sums";
}

}  // namespace

FusedSeat::~FusedSeat() {
  if (device == nullptr) return;
  for (EventHandle event : arrived) device->end_event(event);
}

FusedShare::~FusedShare() {
  if (taken_.empty()) return;
  const std::lock_guard<std::mutex> lock(ledger().mutex);
  for (const Taken& one : taken_) ledger().taken[one.ordinal] -= one.blocks;
}

Status FusedShare::block_count(const LocalSeat* seats, uint32_t ranks, uint32_t* count) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!decided_) {
    try {
      GQ_TRY(decide(seats, ranks));
    } catch (const std::bad_alloc&) {
      return fail(GQSGD_NO_MEMORY, "no memory for a group of %u ranks", ranks);
    }
    decided_ = true;
  }
  *count = block_count_;
  return Status();
}

/** Half of what no other group has: kernels of other groups, and of libraries that wait inside of
 *  theirs as these do, must find room beside them. */
Status FusedShare::decide(const LocalSeat* seats, uint32_t ranks) {
  for (uint32_t from = 0; from < ranks; ++from) {
    for (uint32_t to = 0; to < ranks; ++to) {
      bool can = false;
      GQ_TRY(seats[0].fused.device->can_reach(seats[from].ordinal, seats[to].ordinal, &can));
      if (!can) return Status();
    }
  }
  const std::lock_guard<std::mutex> lock(ledger().mutex);
  uint32_t share = kFusedBlocksMax;
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    const int32_t ordinal = seats[rank].ordinal;
    const uint32_t all = seats[rank].fused.blocks_at_once;
    const uint32_t left = all - std::min(all, ledger().taken[ordinal]);
    share = std::min(share, left / 2 / ranks_on(ordinal, seats, ranks));
  }
  taken_.reserve(ranks);
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    taken_.push_back({seats[rank].ordinal, share});
    ledger().taken[seats[rank].ordinal] += share;
  }
  block_count_ = share;
  return Status();
}

LocalFused::~LocalFused() {
  device().end_event(done_);
  device().end_stream(kernels_);
}

FusedSeat& LocalFused::own() const { return seats_[board_.rank()].fused; }

Status LocalFused::reserve() {
  if (!sits_) GQ_TRY(sit_down());
  sits_ = true;
  return Status();
}

Status LocalFused::prepare(uint64_t sequence, StreamHandle stream) {
  GQ_TRY(reserve());
  GQ_TRY(device().wait(stream, done_));
  return device().record(own().arrived[sequence & 1], stream);
}

/** May have failed in the middle before. */
Status LocalFused::sit_down() {
  FusedSeat& seat = own();
  seat.device = &device();
  GQ_TRY(Status(device().fused->blocks_at_once(&seat.blocks_at_once)));
  if (kernels_ == nullptr) GQ_TRY(device().make_stream(&kernels_));
  if (done_ == nullptr) GQ_TRY(device().make_event(&done_));
  for (EventHandle& event : seat.arrived) {
    if (event == nullptr) GQ_TRY(device().make_event(&event));
  }
  GQ_TRY(seat.room.reserve(device(), sizeof(FusedRoom)));
  GQ_TRY(seat.leave.reserve(device(), sizeof(uint64_t)));
  *seat.leave.as<uint64_t>() = 0;
  seat.leave_word.store(seat.leave.as<uint64_t>());
  GQ_TRY(device().clear(&seat.room.as<FusedRoom>()->desk, sizeof(FusedDesk), kernels_));
  return device().record(done_, kernels_);
}

Status LocalFused::block_count(uint32_t* count) {
  return share_.block_count(seats_, board_.size(), count);
}

Status LocalFused::launch(uint64_t sequence, FusedArgs* args, StreamHandle stream) {
  if (!reaches_peers_) GQ_TRY(reach_peers());
  reaches_peers_ = true;
  know_peers(args);
  for (uint32_t peer = 0; peer < board_.size(); ++peer) {
    GQ_TRY(device().wait(kernels_, seats_[peer].fused.arrived[sequence & 1]));
  }
  GQ_TRY(Status(device().fused->allreduce(*args)));
  count_traffic(*args);
  // A kernel whose peers are not enqueued is told to leave: also then it ends before `stream` goes
  // on.
  const KeptFailure met(streams_.meet("enqueue its kernel"));
  GQ_TRY(device().record(done_, kernels_));
  GQ_TRY(device().wait(stream, done_));
  return met.again();
}

/** CUDA may wait for a device meanwhile, and so for a kernel there that waits for this rank's: no
 *  host enqueues one before all are through with this. */
Status LocalFused::reach_peers() {
  for (uint32_t peer = 0; peer < board_.size(); ++peer) {
    if (seats_[peer].ordinal != seat_.ordinal) GQ_TRY(device().reach(seats_[peer].ordinal));
  }
  return streams_.meet("reach its memory");
}

void LocalFused::know_peers(FusedArgs* args) {
  for (uint32_t peer = 0; peer < board_.size(); ++peer) {
    const FusedSeat& seat = seats_[peer].fused;
    args->rooms[peer] = seat.room.as<FusedRoom>();
    args->leave[peer] = seat.leave.as<uint64_t>();
  }
  const int64_t timeout_ms = seat_.timeout_ms->load(std::memory_order_relaxed);
  args->timeout_ns = timeout_ms < 0 ? UINT64_MAX : static_cast<uint64_t>(timeout_ms) * 1000000;
  args->call = ++calls_;
  args->stream = kernels_;
}

/** What peers read of this rank: their part of its codes, and its sums. */
void LocalFused::count_traffic(const FusedArgs& args) const {
  const auto size_bytes = [&](uint32_t owner) {
    return words_for(args.coding.bits, args.shards[owner].value_count) * sizeof(uint32_t);
  };
  for (uint32_t peer = 0; peer < args.ranks; ++peer) {
    if (peer == board_.rank()) continue;
    board_.count_sent(size_bytes(peer));
    board_.count_sent(size_bytes(board_.rank()));
  }
}

Status LocalFused::late_failure() {
  uint64_t* const leave = own().leave_word.load();
  const uint64_t word = leave == nullptr ? 0 : std::atomic_ref<uint64_t>(*leave).load();
  TooLate late{};
  if (word == 0) return Status();
  if (!is_too_late(word, &late)) return board_.check();
  board_.break_off(GQSGD_TIMEOUT, late.peer);
  return fail(GQSGD_TIMEOUT,
              "an allreduce that had returned: the kernel of rank %u waited %" PRId64
              " ms for %s of rank %u; its device is stopped, or busy with kernels that do not end "
              "(timeout_ms sets the limit; schedule hierarchical has no kernels that wait)",
              late.waiter, seat_.timeout_ms->load(std::memory_order_relaxed),
              what_was_awaited(late.meeting), late.peer);
}

void tell_kernels_to_leave(LocalSeat* seats, uint32_t ranks) {
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    uint64_t* const leave = seats[rank].fused.leave_word.load();
    uint64_t told = 0;  // what a kernel has said stays
    if (leave == nullptr) continue;
    (void)std::atomic_ref<uint64_t>(*leave).compare_exchange_strong(told, kLeaveForHost);
  }
}

}  // namespace gq
