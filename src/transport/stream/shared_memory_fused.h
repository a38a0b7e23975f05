// Fused kernels of ranks that share control blocks: what threads and processes have in common.
#ifndef GQ_TRANSPORT_STREAM_SHARED_MEMORY_FUSED_H
#define GQ_TRANSPORT_STREAM_SHARED_MEMORY_FUSED_H

#include <memory>

#include "src/transport/stream/fused_kernels.h"
#include "src/transport/stream/shared_memory_streams.h"

namespace gq {

class SharedMemoryFused : public FusedKernels {
 public:
  SharedMemoryFused(const SharedMemoryFused&) = delete;
  SharedMemoryFused& operator=(const SharedMemoryFused&) = delete;

  Status capture(FusedArgs* args, StreamHandle stream) final {
    has_graphs_ = true;
    return enqueue(args, nullptr, stream);
  }
  Status late_failure() final;
  Status too_late() final;

 protected:
  SharedMemoryFused(SharedMemoryTransport& shared_memory, SharedMemoryStreams& streams,
                    const StreamConfig& config)
      : shared_memory_(shared_memory), streams_(streams), config_(config) {}

  /** The word of this rank on which its kernels exit; null before they have one. */
  virtual const uint64_t* leave_word() const = 0;
  /** Fills in the memory of all ranks, and the words on which their kernels exit. */
  virtual void know_peers(FusedArgs* args) const = 0;

  const Device& device() const { return *config_.device; }
  int32_t ordinal() const { return config_.ordinal; }
  SharedMemoryTransport& shared_memory() { return shared_memory_; }
  SharedMemoryStreams& streams() { return streams_; }
  uint32_t rank() const { return streams_.rank(); }
  uint32_t size() const { return streams_.size(); }
  /** What kernels of this rank find in its own memory before the first one; enqueued. */
  Status clear(FusedBuffers* buffers, StreamHandle stream);
  /** The kernel, behind the segments that it reads, if they are many, and the step that is taken
   *  for it if `step` is not null. */
  Status enqueue(FusedArgs* args, TakeStepArgs* step, StreamHandle stream);
  /** What peers read of this rank: their shard of its codes, and its sums. */
  void count_traffic(const FusedArgs& args);

 private:
  /** Unless they are in the rank's memory already. */
  Status write_segments(const FusedArgs& args, StreamHandle stream);
  uint64_t timeout_ns() const;
  uint64_t left_for() const;

  SharedMemoryTransport& shared_memory_;
  SharedMemoryStreams& streams_;
  const StreamConfig config_;
  std::unique_ptr<SegmentPlace[]> written_;  // what the rank's memory has; null: not known
  uint32_t written_count_ = 0;               // 0: not known
  bool has_graphs_ = false;
};

/** Sets the word on which kernels of a rank exit; what a kernel has written there stays. From any
 *  thread, also in a signal handler. */
inline void stop_kernels(uint64_t* leave) {
  uint64_t told = 0;
  (void)std::atomic_ref<uint64_t>(*leave).compare_exchange_strong(told, kLeaveForHost);
}

}  // namespace gq

#endif
