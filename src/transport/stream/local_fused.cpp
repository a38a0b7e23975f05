// Shares of devices, the memory of fused kernels, and the order of streams around them.
#include "src/transport/stream/local_fused.h"

#include <inttypes.h>
#include <string.h>

#include <algorithm>
#include <map>
#include <new>

#include "src/support/immortal.h"
#include "src/transport/stream/local_streams.h"

namespace gq {
namespace {

/** What groups of this process count on of a device. */
struct Shares {
  uint32_t blocks = 0;
  uint32_t ranks = 0;  ///< with kernels that wait
};

struct Ledger {
  std::mutex mutex;
  std::map<int32_t, Shares> taken;
};

Ledger& ledger() { return immortal<Ledger>(); }  // groups may outlive static objects

uint32_t ranks_on(int32_t ordinal, const LocalMember* members, uint32_t ranks) {
  return static_cast<uint32_t>(
      std::count_if(members, members + ranks,
                    [=](const LocalMember& member) { return member.ordinal == ordinal; }));
}

const char* what_was_awaited(BarrierOf kind) {
  switch (kind) {
    case BarrierOf::norms:
      return "norms";
    case BarrierOf::codes:
      return "codes";
    case BarrierOf::sums:
      break;
  }
  return "sums";
}

}  // namespace

FusedMember::~FusedMember() {
  if (device == nullptr) return;
  for (EventHandle event : arrived) device->end_event(event);
}

FusedShare::~FusedShare() {
  if (taken_.empty()) return;
  const std::lock_guard<std::mutex> lock(ledger().mutex);
  for (const Taken& one : taken_) {
    ledger().taken[one.ordinal].blocks -= one.blocks;
    ledger().taken[one.ordinal].ranks -= 1;
  }
}

Status FusedShare::block_count(const LocalMember* members, uint32_t ranks, uint32_t* count) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!decided_) {
    try {
      GQ_TRY(decide(members, ranks));
    } catch (const std::bad_alloc&) {
      return fail(GQSGD_NO_MEMORY, "no memory for a group of %u ranks", ranks);
    }
    decided_ = true;
  }
  *count = block_count_;
  return Status();
}

/** Devices that reach each other. */
Status FusedShare::decide(const LocalMember* members, uint32_t ranks) {
  for (uint32_t from = 0; from < ranks; ++from) {
    for (uint32_t to = 0; to < ranks; ++to) {
      bool can = false;
      GQ_TRY(members[0].fused.device->can_reach(members[from].ordinal, members[to].ordinal, &can));
      if (!can) return Status();
    }
  }
  return divide_blocks(members, ranks);
}

/** Half of the blocks that no other group has: kernels of other groups, and of libraries that wait
 *  inside of theirs as these do, must fit beside them. And a queue for each rank. */
Status FusedShare::divide_blocks(const LocalMember* members, uint32_t ranks) {
  const std::lock_guard<std::mutex> lock(ledger().mutex);
  uint32_t share = kFusedBlocksMax;
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    const int32_t ordinal = members[rank].ordinal;
    const Shares taken = ledger().taken[ordinal];
    const uint32_t here = ranks_on(ordinal, members, ranks);
    const uint32_t all = members[rank].fused.blocks_at_once;
    const uint32_t left = all - std::min(all, taken.blocks);
    share = std::min(share, left / 2 / here);
    if (taken.ranks + here > members[rank].fused.queues) share = 0;
  }
  if (share == 0) return Status();
  taken_.reserve(ranks);
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    taken_.push_back({members[rank].ordinal, share, members[rank].fused.queues});
    ledger().taken[members[rank].ordinal].blocks += share;
    ledger().taken[members[rank].ordinal].ranks += 1;
  }
  block_count_ = share;
  return Status();
}

/** Two streams for each rank, the caller's and that of its kernels outside of graphs. */
Status FusedShare::check_graphs() const {
  const std::lock_guard<std::mutex> lock(ledger().mutex);
  for (const Taken& one : taken_) {
    const uint32_t ranks = ledger().taken[one.ordinal].ranks;
    if (ranks == 1 || 2 * ranks <= one.queues) continue;
    return fail(
        GQSGD_UNSUPPORTED,
        "device %d has %u ranks, whose streams share its %u queues: in graphs their kernels "
        "could wait for each other in one of these; replay with fewer ranks on a device, or "
        "set CUDA_DEVICE_MAX_CONNECTIONS=%u before CUDA begins",
        one.ordinal, ranks, one.queues, std::min(2 * ranks, 32u));
  }
  return Status();
}

LocalFused::~LocalFused() {
  device().end_event(done_);
  device().end_stream(kernels_);
}

FusedMember& LocalFused::own() const { return members_[shared_memory_.rank()].fused; }

Status LocalFused::reserve() {
  if (!attached_) GQ_TRY(attach());
  attached_ = true;
  return Status();
}

Status LocalFused::prepare(uint64_t sequence, StreamHandle stream) {
  GQ_TRY(reserve());
  GQ_TRY(device().wait(stream, done_));
  return device().record(own().arrived[sequence & 1], stream);
}

/** May have failed in the middle before. */
Status LocalFused::attach() {
  FusedMember& member = own();
  member.device = &device();
  GQ_TRY(Status(device().fused->blocks_at_once(&member.blocks_at_once)));
  member.queues = device().fused->queues();
  if (kernels_ == nullptr) GQ_TRY(device().make_stream(&kernels_));
  if (done_ == nullptr) GQ_TRY(device().make_event(&done_));
  for (EventHandle& event : member.arrived) {
    if (event == nullptr) GQ_TRY(device().make_event(&event));
  }
  GQ_TRY(member.buffers.reserve(device(), sizeof(FusedBuffers)));
  GQ_TRY(member.leave.reserve(device(), 2 * sizeof(uint64_t)));
  memset(member.leave.data(), 0, 2 * sizeof(uint64_t));
  member.leave_word.store(member.leave.as<uint64_t>());
  GQ_TRY(
      device().clear(&member.buffers.as<FusedBuffers>()->control, sizeof(FusedControl), kernels_));
  GQ_TRY(load_take_step());
  return device().record(done_, kernels_);
}

/** As the kernels are loaded that wait: later, in a graph, it may not wait for the device. */
Status LocalFused::load_take_step() {
  TakeStepArgs args{};
  args.counter = own().leave.as<uint64_t>() + 1;
  args.step = own().buffers.as<FusedBuffers>()->words;  // of no call yet
  args.stream = kernels_;
  return Status(device().agreement->take_step(args));
}

Status LocalFused::block_count(uint32_t* count) {
  return share_.block_count(members_, shared_memory_.size(), count);
}

Status LocalFused::launch(uint64_t sequence, FusedArgs* args, TakeStepArgs* step,
                          StreamHandle stream) {
  if (!reaches_peers_) GQ_TRY(reach_peers());
  reaches_peers_ = true;
  know_peers(args);
  args->stream = kernels_;
  for (uint32_t peer = 0; peer < shared_memory_.size(); ++peer) {
    GQ_TRY(device().wait(kernels_, members_[peer].fused.arrived[sequence & 1]));
  }
  if (step != nullptr) {
    step->stream = kernels_;
    GQ_TRY(Status(device().agreement->take_step(*step)));
  }
  GQ_TRY(Status(device().fused->allreduce(*args)));
  count_traffic(*args);
  // A kernel whose peers are not enqueued gets the flag to exit: also then it ends before `stream`
  // continues.
  const Status met = streams_.wait_for_hosts("enqueue its kernel");
  GQ_TRY(device().record(done_, kernels_));
  GQ_TRY(device().wait(stream, done_));
  return met;
}

Status LocalFused::capture(FusedArgs* args, StreamHandle stream) {
  know_peers(args);
  args->stream = stream;
  return Status(device().fused->allreduce(*args));
}

/** CUDA may wait for a device meanwhile, and so for a kernel there that waits for this rank's: no
 *  host enqueues one before all have passed this point. */
Status LocalFused::reach_peers() {
  for (uint32_t peer = 0; peer < shared_memory_.size(); ++peer) {
    if (members_[peer].ordinal != config_.ordinal) GQ_TRY(device().reach(members_[peer].ordinal));
  }
  return streams_.wait_for_hosts("reach its memory");
}

void LocalFused::know_peers(FusedArgs* args) const {
  for (uint32_t peer = 0; peer < shared_memory_.size(); ++peer) {
    const FusedMember& member = members_[peer].fused;
    args->buffers[peer] = member.buffers.as<FusedBuffers>();
    args->leave[peer] = member.leave.as<uint64_t>();
  }
  const int64_t timeout_ms = config_.timeout_ms->load(std::memory_order_relaxed);
  args->timeout_ns = timeout_ms < 0 ? UINT64_MAX : static_cast<uint64_t>(timeout_ms) * 1000000;
}

/** What peers read of this rank: their shard of its codes, and its sums. */
void LocalFused::count_traffic(const FusedArgs& args) const {
  const auto count_shard = [&](uint32_t owner) {
    const uint64_t value_count = args.shards[owner].value_count;
    shared_memory_.count_sent(words_for(args.coding.bits, value_count) * sizeof(uint32_t),
                              value_count);
  };
  for (uint32_t peer = 0; peer < args.ranks; ++peer) {
    if (peer == shared_memory_.rank()) continue;
    count_shard(peer);
    count_shard(shared_memory_.rank());
  }
}

uint64_t LocalFused::leave_word() const {
  uint64_t* const leave = own().leave_word.load();
  return leave == nullptr ? 0 : std::atomic_ref<uint64_t>(*leave).load();
}

Status LocalFused::late_failure() {
  GQ_TRY(too_late());
  return leave_word() == 0 ? Status() : shared_memory_.check();
}

Status LocalFused::too_late() {
  TooLate late{};
  if (!is_too_late(leave_word(), &late)) return Status();
  shared_memory_.abort_group(GQSGD_TIMEOUT, late.peer);
  return fail(GQSGD_TIMEOUT,
              "an allreduce that had returned, or a replay: the kernel of rank %u waited %" PRId64
              " ms for %s of rank %u; its device is stopped, or busy with kernels that do not end, "
              "or the rank has not replayed the graph (timeout_ms sets the limit; schedule "
              "hierarchical has no kernels that wait)",
              late.waiter, config_.timeout_ms->load(std::memory_order_relaxed),
              what_was_awaited(late.kind), late.peer);
}

void stop_kernels(LocalMember* members, uint32_t ranks) {
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    uint64_t* const leave = members[rank].fused.leave_word.load();
    uint64_t told = 0;  // what a kernel has written stays
    if (leave == nullptr) continue;
    (void)std::atomic_ref<uint64_t>(*leave).compare_exchange_strong(told, kLeaveForHost);
  }
}

}  // namespace gq
