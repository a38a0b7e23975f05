// Fused kernels of ranks that are processes, each with a device of its own: they open each other's
// memory, and what hosts tell kernels is in pages that all processes share.
#ifndef GQ_TRANSPORT_STREAM_IPC_FUSED_H
#define GQ_TRANSPORT_STREAM_IPC_FUSED_H

#include <vector>

#include "src/transport/stream/fused_share.h"
#include "src/transport/stream/ipc_arena.h"
#include "src/transport/stream/ipc_lent_memory.h"
#include "src/transport/stream/shared_memory_fused.h"

namespace gq {

/** What a rank shows and sees of memory on devices; all of it outlives the end that uses it. */
struct IpcPlaces {
  IpcArena* own;
  std::vector<const IpcArena*> all;  ///< of each rank, the own one included
  std::vector<uint64_t*> leave;      ///< the word of each rank on which its kernels exit
  LentMemory* lent;                  ///< takes over what peers may still have open
};

/** A kernel waits for those of other devices alone, which begin whatever it does: what a rank has
 *  enqueued before its kernel of a call waits for nothing behind the kernels of that call. So it is
 *  on the caller's stream, and no host waits for another one but to agree on the call. Processes
 *  that share a device take turns on it, and a kernel that waits would use up its turn: there is
 *  none, which is decided in the first call that could have one.
 *
 *  Hosts look for deaths while they wait. Where no deadline ends a kernel its host therefore waits
 *  for it. */
class IpcFused final : public SharedMemoryFused {
 public:
  IpcFused(SharedMemoryTransport& shared_memory, SharedMemoryStreams& streams,
           const StreamConfig& config, const IpcPlaces& places)
      : SharedMemoryFused(shared_memory, streams, config),
        own_(places.own->fused),
        all_(places.all),
        leave_(places.leave),
        lent_(*places.lent),
        buffers_(places.all.size()),
        leave_on_device_(places.all.size()) {}
  ~IpcFused() override;

  /** Memory of the group cannot be opened: there will be no kernels. */
  void refuse();
  /** Kernels may still run: what they use is never given back. */
  void leak_in_use() { leaked_ = true; }

  Status reserve() override;
  Status prepare(uint64_t sequence, StreamHandle stream) override;
  Status block_count(uint32_t* count) override;
  Status launch(uint64_t sequence, FusedArgs* args, TakeStepArgs* step,
                StreamHandle stream) override;
  Status check_graphs() override { return share_.check_graphs(); }

 protected:
  const uint64_t* leave_word() const override { return leave_[rank()]; }
  void know_peers(FusedArgs* args) const override;

 private:
  enum class State : uint8_t { unknown, shown, decided };

  Status show();
  Status make_buffers();
  Status find_kernels();
  Status decide();
  bool all_have_kernels(char (&why)[sizeof IpcReply::why]) const;
  bool is_device_of_others(uint32_t peer) const;
  Status open_all();
  void close_all();
  void give_up();
  static bool waits(void* self);

  IpcFusedPart& own_;
  const std::vector<const IpcArena*> all_;
  const std::vector<uint64_t*> leave_;
  LentMemory& lent_;
  FusedShare share_;
  DeviceBuffer memory_;
  std::vector<FusedBuffers*> buffers_;      // of each rank; null: not open
  std::vector<uint64_t*> leave_on_device_;  // the same words; null: not registered
  EventHandle done_ = nullptr;              // behind the last kernel outside of graphs
  State state_ = State::unknown;
  uint32_t block_count_ = 0;
  bool tried_ = false;  // peers may have opened the own memory
  bool leaked_ = false;
};

}  // namespace gq

#endif
