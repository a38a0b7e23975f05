// How much of a device the fused kernels of a group may have, beside those of other groups of this
// process: kernels that wait for each other must all be resident.
#ifndef GQ_TRANSPORT_STREAM_FUSED_SHARE_H
#define GQ_TRANSPORT_STREAM_FUSED_SHARE_H

#include <mutex>
#include <span>
#include <vector>

#include "src/gpu/device/device.h"

namespace gq {

/** Where the kernels of one rank run. */
struct FusedPlace {
  int32_t ordinal;  ///< of the device
  uint32_t blocks_at_once;
  uint32_t queues;

  /** Of the current device, whose kernels are loaded by this. */
  static Status of(const Device& device, int32_t ordinal, FusedPlace* place);
};

/** How many blocks the kernels of a group may have, once that is known; they are the group's until
 *  its end. */
class FusedShare {
 public:
  FusedShare() = default;
  ~FusedShare();
  FusedShare(const FusedShare&) = delete;
  FusedShare& operator=(const FusedShare&) = delete;

  /** Blocks of the kernel of each rank at `places`, which are all of the group's in this process; 0
   *  where they do not fit, or do not reach each other. The first to call decides for all. */
  Status block_count(const Device& device, std::span<const FusedPlace> places, uint32_t* count);
  /** Kernels of graphs begin when a host likes, without synchronization of hosts, so that streams
   * of ranks must not share a queue of their device: UNSUPPORTED where they may. */
  Status check_graphs() const;
  /** Kernels of the group may never end. */
  void keep() { taken_.clear(); }

 private:
  struct Taken {
    FusedPlace place;
    uint32_t blocks;
  };

  Status decide(const Device& device, std::span<const FusedPlace> places);
  void divide_blocks(std::span<const FusedPlace> places);

  std::mutex mutex_;
  bool decided_ = false;
  uint32_t block_count_ = 0;
  std::vector<Taken> taken_;
};

}  // namespace gq

#endif
