// The loop over the ranks, which ends when none can continue without another.
#include "src/call/virtual/virtual_ranks.h"

#include <new>
#include <utility>

#include "src/transport/shared_memory/local.h"

namespace gq {

Status VirtualRanks::open(uint32_t ranks) {
  std::unique_ptr<std::unique_ptr<HostTransport>[]> transports(
      new (std::nothrow) std::unique_ptr<HostTransport>[ranks]);
  if (!transports) return fail(GQSGD_NO_MEMORY, "no memory for %u virtual ranks", ranks);
  GQ_TRY(create_virtual(ranks, transports.get()));  // not for any number of them
  return open(ranks, transports.get());
}

Status VirtualRanks::open(uint32_t ranks, std::unique_ptr<HostTransport>* transports) {
  ranks_.reset(new (std::nothrow) VirtualRank[ranks]);
  if (!ranks_) return fail(GQSGD_NO_MEMORY, "no memory for %u virtual ranks", ranks);
  size_ = ranks;
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    ranks_[rank].endpoint.host = std::move(transports[rank]);
  }
  return Status();
}

Status VirtualRanks::allreduce() {
  for (uint32_t rank = 0; rank < size_; ++rank) {
    VirtualRank& one = ranks_[rank];
    GQ_TRY(one.operation.begin(one.endpoint, one.call, Status()));
  }
  for (uint32_t finished = 0; finished < size_;) {
    uint64_t events = 0;
    finished = 0;
    for (uint32_t rank = 0; rank < size_; ++rank) {
      Allreduce& operation = ranks_[rank].operation;
      const uint64_t before = operation.progress();
      bool done = false;
      GQ_TRY(operation.advance(&done));
      events += operation.progress() - before;
      finished += done ? 1 : 0;
    }
    if (finished < size_ && events == 0) {
      return fail(GQSGD_INTERNAL, "schedule stuck: %u of %u virtual ranks finished", finished,
                  size_);
    }
  }
  return Status();
}

}  // namespace gq
