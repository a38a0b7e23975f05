// The memory of fused kernels of threads, and the order of streams around them.
#include "src/transport/stream/local_fused.h"

#include <new>
#include <vector>

#include "src/transport/stream/local_streams.h"

namespace gq {

FusedMember::~FusedMember() {
  if (device == nullptr) return;
  for (EventHandle event : arrived) device->end_event(event);
}

LocalFused::~LocalFused() {
  device().end_event(done_);
  device().end_stream(kernels_);
}

FusedMember& LocalFused::own() const { return members_[rank()].fused; }

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
  GQ_TRY(FusedPlace::of(device(), ordinal(), &member.place));
  if (kernels_ == nullptr) GQ_TRY(device().make_stream(&kernels_));
  if (done_ == nullptr) GQ_TRY(device().make_event(&done_));
  for (EventHandle& event : member.arrived) {
    if (event == nullptr) GQ_TRY(device().make_event(&event));
  }
  GQ_TRY(member.buffers.reserve(device(), sizeof(FusedBuffers)));
  GQ_TRY(member.leave.reserve(device(), sizeof(uint64_t)));
  *member.leave.as<uint64_t>() = 0;
  member.leave_word.store(member.leave.as<uint64_t>());
  GQ_TRY(clear(member.buffers.as<FusedBuffers>(), kernels_));
  return device().record(done_, kernels_);
}

Status LocalFused::block_count(uint32_t* count) {
  if (!block_count_) {
    try {
      std::vector<FusedPlace> places;
      for (uint32_t k = 0; k < size(); ++k) places.push_back(members_[k].fused.place);
      uint32_t found = 0;
      GQ_TRY(share_.block_count(device(), places, &found));
      block_count_ = found;
    } catch (const std::bad_alloc&) {
      return fail(GQSGD_NO_MEMORY, "no memory for a group of %u ranks", size());
    }
  }
  *count = *block_count_;
  return Status();
}

Status LocalFused::launch(uint64_t sequence, FusedArgs* args, TakeStepArgs* step,
                          StreamHandle stream) {
  if (!reaches_peers_) GQ_TRY(reach_peers());
  reaches_peers_ = true;
  for (uint32_t peer = 0; peer < size(); ++peer) {
    GQ_TRY(device().wait(kernels_, members_[peer].fused.arrived[sequence & 1]));
  }
  GQ_TRY(enqueue(args, step, kernels_));
  count_traffic(*args);
  // A kernel whose peers are not enqueued gets the flag to exit: also then it ends before `stream`
  // continues.
  const Status met = streams().wait_for_hosts("enqueue its kernel");
  GQ_TRY(device().record(done_, kernels_));
  GQ_TRY(device().wait(stream, done_));
  return met;
}

/** CUDA may wait for a device meanwhile, and so for a kernel there that waits for this rank's: no
 *  host enqueues one before all have passed this point. */
Status LocalFused::reach_peers() {
  for (uint32_t peer = 0; peer < size(); ++peer) {
    const int32_t there = members_[peer].ordinal;
    bool direct = true;
    if (there != ordinal()) GQ_TRY(device().reach(there, &direct));
    if (direct) continue;
    return fail(GQSGD_BACKEND,
                "rank %u on device %d cannot read the memory of device %d: this process has given "
                "it all the peers that CUDA allows a device; schedule hierarchical copies instead",
                rank(), ordinal(), there);
  }
  return streams().wait_for_hosts("reach its memory");
}

void LocalFused::know_peers(FusedArgs* args) const {
  for (uint32_t peer = 0; peer < size(); ++peer) {
    const FusedMember& member = members_[peer].fused;
    args->buffers[peer] = member.buffers.as<FusedBuffers>();
    args->leave[peer] = member.leave.as<uint64_t>();
  }
}

void stop_kernels(LocalMember* members, uint32_t ranks) {
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    uint64_t* const leave = members[rank].fused.leave_word.load();
    if (leave != nullptr) stop_kernels(leave);
  }
}

}  // namespace gq
