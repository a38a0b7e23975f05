// Fused kernels of the ranks of one process: who may have how much of a device, and what makes
// kernels that wait for each other safe to enqueue.
#ifndef GQ_TRANSPORT_STREAM_LOCAL_FUSED_H
#define GQ_TRANSPORT_STREAM_LOCAL_FUSED_H

#include <atomic>
#include <mutex>
#include <vector>

#include "src/gpu/device/buffer.h"
#include "src/transport/stream/fused_kernels.h"
#include "src/transport/stream/shared_memory_streams.h"

namespace gq {

struct LocalMember;

/** What peers see of this rank; it lives as long as the rank's membership. */
struct FusedMember {
  ~FusedMember();

  const Device* device = nullptr;
  uint32_t blocks_at_once = 0;  ///< of its device
  uint32_t queues = 0;          ///< of its device
  EventHandle arrived[2] = {};  ///< of alternate calls: a peer may still wait for the last
  DeviceBuffer buffers;         ///< a FusedBuffers
  PinnedBuffer leave;           ///< a word, and one that is never read
  std::atomic<uint64_t*> leave_word{nullptr};  ///< the same, for threads that break the group
};

/** How many blocks the kernels of a group may have, once that is known; they are the group's until
 *  its end. */
class FusedShare {
 public:
  FusedShare() = default;
  ~FusedShare();
  FusedShare(const FusedShare&) = delete;
  FusedShare& operator=(const FusedShare&) = delete;

  /** Of each rank; the first to call decides for all. */
  Status block_count(const LocalMember* members, uint32_t ranks, uint32_t* count);
  /** Kernels of graphs begin when a host likes, without synchronization of hosts, so that streams
   * of ranks must not share a queue of their device: UNSUPPORTED where they may. */
  Status check_graphs() const;
  /** Kernels of the group may never end. */
  void keep() { taken_.clear(); }

 private:
  struct Taken {
    int32_t ordinal;  ///< of a rank's device
    uint32_t blocks;
    uint32_t queues;  ///< that the device has
  };

  Status decide(const LocalMember* members, uint32_t ranks);
  Status divide_blocks(const LocalMember* members, uint32_t ranks);

  std::mutex mutex_;
  bool decided_ = false;
  uint32_t block_count_ = 0;
  std::vector<Taken> taken_;
};

/** Kernels that wait for each other must never wait for what is not enqueued, nor be enqueued
 *  behind each other. So they have streams of their own; one begins when the callers' streams of
 *  all ranks have got to the call, whose hosts published that before their control messages; and
 * nothing is made to wait for a kernel before hosts know that the kernels of all ranks are
 * enqueued. */
class LocalFused final : public FusedKernels {
 public:
  LocalFused(SharedMemoryTransport& shared_memory, SharedMemoryStreams& streams,
             const StreamConfig& member, LocalMember* members, FusedShare* share)
      : shared_memory_(shared_memory),
        streams_(streams),
        config_(member),
        members_(members),
        share_(*share) {}
  ~LocalFused() override;
  LocalFused(const LocalFused&) = delete;
  LocalFused& operator=(const LocalFused&) = delete;

  Status reserve() override;
  Status prepare(uint64_t sequence, StreamHandle stream) override;
  Status block_count(uint32_t* count) override;
  Status launch(uint64_t sequence, FusedArgs* args, TakeStepArgs* step,
                StreamHandle stream) override;
  Status check_graphs() override { return share_.check_graphs(); }
  Status capture(FusedArgs* args, StreamHandle stream) override;
  Status late_failure() override;
  Status too_late() override;

 private:
  const Device& device() const { return *config_.device; }
  FusedMember& own() const;
  uint64_t leave_word() const;
  Status attach();
  Status load_take_step();
  Status reach_peers();
  void know_peers(FusedArgs* args) const;
  void count_traffic(const FusedArgs& args) const;

  SharedMemoryTransport& shared_memory_;
  SharedMemoryStreams& streams_;
  const StreamConfig config_;
  LocalMember* const members_;
  FusedShare& share_;
  StreamHandle kernels_ = nullptr;
  EventHandle done_ = nullptr;  // behind the last kernel
  bool attached_ = false;
  bool reaches_peers_ = false;
};

/** Sets the flag on which kernels under way exit; from any thread. */
void stop_kernels(LocalMember* members, uint32_t ranks);

}  // namespace gq

#endif
