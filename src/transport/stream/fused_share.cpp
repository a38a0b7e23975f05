// The ledger of a process: what its groups count on of each device.
#include "src/transport/stream/fused_share.h"

#include <algorithm>
#include <map>
#include <new>
#include <set>

#include "src/support/immortal.h"

namespace gq {
namespace {

struct Shares {
  uint32_t blocks = 0;
  uint32_t ranks = 0;  ///< with kernels that wait
};

struct Ledger {
  std::mutex mutex;
  std::map<int32_t, Shares> taken;
};

Ledger& ledger() { return immortal<Ledger>(); }  // groups may outlive static objects

/** Devices that CUDA lets one device read directly, unless a switch of NVLink joins them. */
constexpr size_t kPeersMax = 8;

size_t device_count(std::span<const FusedPlace> places) {
  std::set<int32_t> ordinals;
  for (const FusedPlace& place : places) ordinals.insert(place.ordinal);
  return ordinals.size();
}

uint32_t ranks_on(int32_t ordinal, std::span<const FusedPlace> places) {
  return static_cast<uint32_t>(
      std::count_if(places.begin(), places.end(),
                    [=](const FusedPlace& place) { return place.ordinal == ordinal; }));
}

}  // namespace

Status FusedPlace::of(const Device& device, int32_t ordinal, FusedPlace* place) {
  place->ordinal = ordinal;
  GQ_TRY(Status(device.fused->blocks_at_once(&place->blocks_at_once)));
  place->queues = device.fused->queues();
  return Status();
}

FusedShare::~FusedShare() {
  if (taken_.empty()) return;
  const std::lock_guard<std::mutex> lock(ledger().mutex);
  for (const Taken& one : taken_) {
    Shares& shares = ledger().taken[one.place.ordinal];
    shares.blocks -= one.blocks;
    shares.ranks -= 1;
  }
}

Status FusedShare::block_count(const Device& device, std::span<const FusedPlace> places,
                               uint32_t* count) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!decided_) {
    try {
      GQ_TRY(decide(device, places));
    } catch (const std::bad_alloc&) {
      return fail(GQSGD_NO_MEMORY, "no memory for a group of %zu ranks", places.size());
    }
    decided_ = true;
  }
  *count = block_count_;
  return Status();
}

/** Devices that reach each other. */
Status FusedShare::decide(const Device& device, std::span<const FusedPlace> places) {
  if (device_count(places) > 1 + kPeersMax) return Status();
  for (const FusedPlace& from : places) {
    for (const FusedPlace& to : places) {
      bool can = false;
      GQ_TRY(device.can_reach(from.ordinal, to.ordinal, &can));
      if (!can) return Status();
    }
  }
  divide_blocks(places);
  return Status();
}

/** Half of the blocks that no other group has: kernels of other groups, and of libraries that wait
 *  inside of theirs as these do, must fit beside them. And a queue for each rank. */
void FusedShare::divide_blocks(std::span<const FusedPlace> places) {
  const std::lock_guard<std::mutex> lock(ledger().mutex);
  uint32_t share = kFusedBlocksMax;
  for (const FusedPlace& place : places) {
    const Shares taken = ledger().taken[place.ordinal];
    const uint32_t here = ranks_on(place.ordinal, places);
    const uint32_t left = place.blocks_at_once - std::min(place.blocks_at_once, taken.blocks);
    share = std::min(share, left / 2 / here);
    if (taken.ranks + here > place.queues) share = 0;
  }
  if (share == 0) return;
  taken_.reserve(places.size());
  for (const FusedPlace& place : places) {
    taken_.push_back({place, share});
    ledger().taken[place.ordinal].blocks += share;
    ledger().taken[place.ordinal].ranks += 1;
  }
  block_count_ = share;
}

/** Two streams for each rank, the caller's and that of its kernels outside of graphs. */
Status FusedShare::check_graphs() const {
  const std::lock_guard<std::mutex> lock(ledger().mutex);
  for (const Taken& one : taken_) {
    const uint32_t ranks = ledger().taken[one.place.ordinal].ranks;
    if (ranks == 1 || 2 * ranks <= one.place.queues) continue;
    return fail(
        GQSGD_UNSUPPORTED,
        "device %d has %u ranks, whose streams share its %u queues: in graphs their kernels "
        "could wait for each other in one of these; replay with fewer ranks on a device, or "
        "set CUDA_DEVICE_MAX_CONNECTIONS=%u before CUDA begins",
        one.place.ordinal, ranks, one.place.queues, std::min(2 * ranks, 32u));
  }
  return Status();
}

}  // namespace gq
