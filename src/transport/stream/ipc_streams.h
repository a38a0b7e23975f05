// Ranks that are processes, on memory of devices: words are copied from one process's memory to
// another's where they can open it, and else go through host memory.
#ifndef GQ_TRANSPORT_STREAM_IPC_STREAMS_H
#define GQ_TRANSPORT_STREAM_IPC_STREAMS_H

#include <memory>
#include <utility>
#include <vector>

#include "src/transport/stream/ipc_fused.h"
#include "src/transport/stream/staged_streams.h"

namespace gq {

/** How words are copied is one decision of all ranks. In the first call that has words every rank
 *  knows from the exchange of control messages which ranks export their memory; each then opens
 * that of all others, and reports whether it could. Where one could not, none uses it.
 *
 *  The arena may grow: the new one is exported before the control messages of the call that needs
 * it. Peers close the old one when that call begins. It is freed when the next one does: by then
 * all peers have ended that call. */
class IpcStreams final : public StagedStreams {
 public:
  IpcStreams(SharedMemoryTransport& shared_memory, const StreamConfig& config, IpcPlaces places)
      : StagedStreams(shared_memory, config),
        fused_(shared_memory, *this, config, places),
        own_(*places.own),
        all_(std::move(places.all)),
        lent_(*places.lent) {}
  ~IpcStreams() override;

  /** May throw std::bad_alloc. */
  Status attach();

  Status begin_call() override;
  FusedKernels* fused() override {
    const bool may_have = device().fused != nullptr && device().ipc != nullptr;
    return may_have && size() > 1 && size() <= kFusedRanksMax ? &fused_ : nullptr;
  }

 protected:
  Status reserve(const Device& device, DeviceBuffer* memory, size_t size_bytes) override;
  bool is_lent() const override { return tried_; }
  void transfer_ownership(DeviceBuffer* memory) override;
  void leak_in_use() override;
  Status show(const unsigned char* base, const Transfer* transfers, size_t transfer_count,
              StreamHandle stream) override;
  Status begin_fetching(uint32_t peer, size_t end_bytes, StreamHandle stream) override;

 private:
  enum class Way : uint8_t { undecided, direct, staged };

  /** Memory of a peer, as of one of its exports. */
  struct Opened {
    uint64_t generation = 0;
    void* memory = nullptr;
    uint64_t size_bytes = 0;
  };

  Status choose_way();
  Status open_all();
  Status open(uint32_t peer);
  void close(Opened* opened);
  void close_all();
  Status export_memory(const DeviceBuffer& memory);
  bool is_exported(const unsigned char* base) const {
    return arena_ != nullptr && base >= arena_ && base < arena_ + arena_bytes_;
  }

  IpcFused fused_;
  IpcArena& own_;
  const std::vector<const IpcArena*> all_;
  LentMemory& lent_;
  std::vector<Opened> opened_;            // of each rank
  const unsigned char* arena_ = nullptr;  // what is exported now
  size_t arena_bytes_ = 0;
  uint64_t export_count_ = 0;
  bool exports_ = false;   // the value of own_.exports
  size_t told_count_ = 0;  // of what is lent: peers close it in the call that began last
  Way way_ = Way::undecided;
  bool tried_ = false;   // peers may have opened the own arena
  bool direct_ = false;  // the exchange under way
  bool leaked_ = false;
};

Status open_ipc_streams(SharedMemoryTransport& shared_memory, const StreamConfig& config,
                        IpcPlaces places, std::unique_ptr<StreamTransport>* out);

}  // namespace gq

#endif
