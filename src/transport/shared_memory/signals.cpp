// Posting and taking a signal.
#include "src/transport/shared_memory/signals.h"

#include <new>

namespace gq {
namespace {

// A counter that is further ahead, or behind, was not written by a rank that sends messages.
constexpr uint64_t kMessagesAheadMax = kAwaitedNumberMask / 2;

}  // namespace

Status Signals::open(const ControlBlocks& blocks, GroupFailure* failure) {
  peers_.reset(new (std::nothrow) Peer[blocks.ranks]);
  if (!peers_)
    return fail(GQSGD_NO_MEMORY, "no memory for what rank %u knows of %u peers", blocks.rank,
                blocks.ranks);
  blocks_ = blocks;
  failure_ = failure;
  return Status();
}

Status Signals::post(uint32_t peer) {
  GQ_TRY(failure_->intact());
  posted_of(blocks_.own)[peer].store(++peers_[peer].posted, std::memory_order_release);
  wake(blocks_.wakeup_of(peer), blocks_.scope);
  return Status();
}

Status Signals::take(uint32_t peer, bool* there) {
  *there = false;
  GQ_TRY(failure_->intact());
  uint64_t& taken = peers_[peer].taken;
  const uint64_t posted =
      posted_of(&blocks_.of(peer))[blocks_.rank].load(std::memory_order_acquire);
  if (posted == taken) {
    failure_->await(AwaitedKind::message, peer, taken + 1);
    return Status();
  }
  if (posted - taken > kMessagesAheadMax) {
    return failure_->protocol_failure(peer, "message counter", posted, taken);
  }
  taken += 1;
  *there = true;
  return Status();
}

}  // namespace gq
