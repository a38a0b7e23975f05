// Fused kernels of the ranks of one process: who may have how much of a device, and what makes
// kernels that wait for each other safe to enqueue.
#ifndef GQ_TRANSPORT_LOCAL_FUSED_H
#define GQ_TRANSPORT_LOCAL_FUSED_H

#include <atomic>
#include <mutex>
#include <vector>

#include "src/device/buffer.h"
#include "src/transport/board_streams.h"
#include "src/transport/fused_kernels.h"

namespace gq {

struct LocalSeat;

/** What a rank shows its peers of this; it goes with its seat. */
struct FusedSeat {
  ~FusedSeat();

  const Device* device = nullptr;
  uint32_t blocks_at_once = 0;  ///< of its device
  EventHandle arrived[2] = {};  ///< of calls by turns: a peer may still wait for the last
  DeviceBuffer room;            ///< a FusedRoom
  PinnedBuffer leave;           ///< a word
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

  /** Of each rank; the first to ask decides for all. */
  Status block_count(const LocalSeat* seats, uint32_t ranks, uint32_t* count);
  /** Kernels of the group may never end. */
  void keep() { taken_.clear(); }

 private:
  struct Taken {
    int32_t ordinal;
    uint32_t blocks;
  };

  Status decide(const LocalSeat* seats, uint32_t ranks);

  std::mutex mutex_;
  bool decided_ = false;
  uint32_t block_count_ = 0;
  std::vector<Taken> taken_;
};

/** Kernels that wait for each other must never wait for what is not enqueued, nor be enqueued
 *  behind each other. So they have streams of their own; one begins when the callers' streams of
 *  all ranks have got to the call, whose hosts said so before their headers; and nothing is made to
 *  wait for a kernel before hosts know that the kernels of all ranks are enqueued. */
class LocalFused final : public FusedKernels {
 public:
  LocalFused(BoardTransport& board, BoardStreams& streams, const StreamSeat& seat, LocalSeat* seats,
             FusedShare* share)
      : board_(board), streams_(streams), seat_(seat), seats_(seats), share_(*share) {}
  ~LocalFused() override;
  LocalFused(const LocalFused&) = delete;
  LocalFused& operator=(const LocalFused&) = delete;

  Status reserve() override;
  Status prepare(uint64_t sequence, StreamHandle stream) override;
  Status block_count(uint32_t* count) override;
  Status launch(uint64_t sequence, FusedArgs* args, StreamHandle stream) override;
  Status late_failure() override;

 private:
  const Device& device() const { return *seat_.device; }
  FusedSeat& own() const;
  Status sit_down();
  Status reach_peers();
  void know_peers(FusedArgs* args);
  void count_traffic(const FusedArgs& args) const;

  BoardTransport& board_;
  BoardStreams& streams_;
  const StreamSeat seat_;
  LocalSeat* const seats_;
  FusedShare& share_;
  StreamHandle kernels_ = nullptr;
  EventHandle done_ = nullptr;  // behind the last kernel
  bool sits_ = false;
  bool reaches_peers_ = false;
  uint32_t calls_ = 0;
};

/** Tells kernels under way to leave; from any thread. */
void tell_kernels_to_leave(LocalSeat* seats, uint32_t ranks);

}  // namespace gq

#endif
