// Fused kernels of the ranks of one process, and what makes kernels that wait for each other safe
// to enqueue on devices that ranks share.
#ifndef GQ_TRANSPORT_STREAM_LOCAL_FUSED_H
#define GQ_TRANSPORT_STREAM_LOCAL_FUSED_H

#include <atomic>
#include <optional>

#include "src/gpu/device/buffer.h"
#include "src/transport/stream/fused_share.h"
#include "src/transport/stream/shared_memory_fused.h"

namespace gq {

struct LocalMember;

/** What peers see of this rank; it lives as long as the rank's membership. */
struct FusedMember {
  ~FusedMember();

  const Device* device = nullptr;
  FusedPlace place = {};
  EventHandle arrived[2] = {};  ///< of alternate calls: a peer may still wait for the last
  DeviceBuffer buffers;         ///< a FusedBuffers
  PinnedBuffer leave;           ///< a word
  std::atomic<uint64_t*> leave_word{nullptr};  ///< the same, for threads that break the group
};

/** Kernels that wait for each other must never wait for what is not enqueued, nor be enqueued
 *  behind each other. So they have streams of their own; one begins when the callers' streams of
 *  all ranks have got to the call, whose hosts published that before their control messages; and
 * nothing is made to wait for a kernel before hosts know that the kernels of all ranks are
 * enqueued. */
class LocalFused final : public SharedMemoryFused {
 public:
  LocalFused(SharedMemoryTransport& shared_memory, SharedMemoryStreams& streams,
             const StreamConfig& member, LocalMember* members, FusedShare* share)
      : SharedMemoryFused(shared_memory, streams, member), members_(members), share_(*share) {}
  ~LocalFused() override;

  Status reserve() override;
  Status prepare(uint64_t sequence, StreamHandle stream) override;
  Status block_count(uint32_t* count) override;
  Status launch(uint64_t sequence, FusedArgs* args, TakeStepArgs* step,
                StreamHandle stream) override;
  Status check_graphs() override { return share_.check_graphs(); }

 protected:
  const uint64_t* leave_word() const override { return own().leave_word.load(); }
  void know_peers(FusedArgs* args) const override;

 private:
  FusedMember& own() const;
  Status attach();
  Status reach_peers();

  LocalMember* const members_;
  FusedShare& share_;
  std::optional<uint32_t> block_count_;
  StreamHandle kernels_ = nullptr;
  EventHandle done_ = nullptr;  // behind the last kernel
  bool attached_ = false;
  bool reaches_peers_ = false;
};

/** Sets the flag on which kernels under way exit; from any thread. */
void stop_kernels(LocalMember* members, uint32_t ranks);

}  // namespace gq

#endif
