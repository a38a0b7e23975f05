// An allreduce by one kernel of each rank: kernels that run at the same time, read each other's
// memory and wait for each other in between (docs/decisions/0019-fused-kernels.md). All that is
// another one at each call is in memory of the device, so that graphs may have them.
#ifndef GQ_KERNELS_FUSED_H
#define GQ_KERNELS_FUSED_H

#include "kernels/agreement.h"
#include "kernels/stages.h"

namespace gq {

inline constexpr uint32_t kFusedRanksMax = 16;
/** Blocks of a rank: so many keep as many bytes under way as a device's memory needs, and with more
 *  of them each waits for more words (docs/decisions/0019-fused-kernels.md). */
inline constexpr uint32_t kFusedBlocksMax = 128;

/** Values that a block takes at once: its tile of a shard (kernels/cuda/fused/tiles.cuh). */
inline constexpr uint32_t kFusedIterationValues = 4096;
constexpr uint32_t fused_tile_values(const Coding& coding) {
  return coding.block > kFusedIterationValues ? coding.block : kFusedIterationValues;
}

/** The capacity, in values of a byte each: a bucket of 25 MiB of float32, and what its last tensor
 *  has beyond. The rest of the kernel has no such limit. */
inline constexpr uint64_t kFusedValuesMax = uint64_t{1} << 23;
/** Of a format: float32 take four times the memory of codes. */
constexpr uint64_t fused_values_max(const Coding& coding) {
  return coding.levels == Levels::none ? kFusedValuesMax / sizeof(float) : kFusedValuesMax;
}
inline constexpr uint64_t kFusedBlockNormsMax = kFusedValuesMax / kValueAlignment;

/** Tensors of a call; those of a list are its segments (docs/FORMAT.md, section 15). More than are
 *  arguments of the kernel are in device memory. */
inline constexpr uint32_t kFusedArgumentSegments = 32;
inline constexpr uint32_t kFusedSegmentsMax = 8192;

/** What blocks wait for: norms of all ranks, then codes, then sums. Where a block reads only what
 *  blocks of its own number have written it waits for those alone: for codes, and for norms of
 *  blocks of values. Without norms the first barrier shows that peers are through with the last
 *  call's sums. */
enum class BarrierOf : uint32_t { norms, codes, sums };
inline constexpr uint32_t kBarrierKinds = 3;

/** A rank's own region of device memory, zeros before the first call. Every block of every rank has
 *  a place at each barrier, where it writes the number of the call and, in the lower half, its
 *  message. No place is cleared: numbers grow. */
struct alignas(256) FusedControl {
  uint64_t flags[kBarrierKinds][kFusedRanksMax][kFusedBlocksMax];
  uint64_t decision;  ///< of this rank's blocks: twice the call's number, and 1 if they leave
  /** The number of this rank's last call, below 2^32; it may come round. The kernel itself counts,
   *  since only the device knows what is replayed. */
  uint64_t calls;
  uint64_t left;  ///< not 0: a kernel of this rank has left, and later ones do not begin
  uint32_t header[kAgreementWords];  ///< of the call at hand, for a sentence on what differs
  /** Of a list in a format with one norm for each tensor: their largest magnitudes on this rank, in
   *  calls of even and of odd numbers, and how many. Zeros before a call. */
  uint32_t tensor_norms[2][kFusedSegmentsMax];
  uint32_t norm_count[2];
};

/** What each rank has on its device. Places are those of the values of a whole call. */
struct FusedBuffers {
  FusedControl control;
  uint16_t norms[kFusedBlockNormsMax];                 ///< of its own blocks
  uint16_t merged[kFusedBlockNormsMax];                ///< of those of all ranks
  uint16_t scales[kFusedBlockNormsMax];                ///< of the sums of its own shard
  SegmentPlace segments[kFusedSegmentsMax];  ///< of its call, if there are so many
  uint32_t words[kFusedValuesMax / sizeof(uint32_t)];  ///< codes or values, and sums of its shard
};

/** A word of host memory for each rank, which its kernels look at while they wait: they leave once
 *  it is not 0, because hosts broke the group, or because a kernel has waited too long. */
inline constexpr uint64_t kLeaveForHost = 1;

struct TooLate {
  uint32_t waiter;
  uint32_t peer;  ///< that it waited for
  BarrierOf kind;
};
GQ_HD constexpr uint64_t leave_word(const TooLate& late) {
  return uint64_t{1} << 63 | uint64_t{static_cast<uint32_t>(late.kind)} << 32 |
         uint64_t{late.waiter} << 16 | late.peer;
}
/** False if the word is none of a kernel's. */
constexpr bool is_too_late(uint64_t word, TooLate* late) {
  if (word >> 63 == 0) return false;
  *late = {static_cast<uint32_t>(word >> 16 & 0xffff), static_cast<uint32_t>(word & 0xffff),
           static_cast<BarrierOf>(word >> 32 & 0xff)};
  return true;
}

/** Values that a rank adds; the first is a multiple of value_alignment(). */
struct FusedShard {
  uint64_t first_value;
  uint64_t value_count;
};

/** A tensor of a call. Its pointers lead to where the call's first value would be, so that a kernel
 *  adds a value's number in the call. */
inline SegmentPlace fused_segment(const SegmentPlace& tensor, int32_t dtype) {
  const uintptr_t before = static_cast<uintptr_t>(tensor.first_value) * dtype_size_bytes(dtype);
  return {tensor.first_value, tensor.value_count,
          reinterpret_cast<const void*>(reinterpret_cast<uintptr_t>(tensor.send) - before),
          reinterpret_cast<void*>(reinterpret_cast<uintptr_t>(tensor.recv) - before)};
}

/** How kernels find out whether their ranks make the same call: replays of graphs may be of
 *  others, and steps may be in memory of devices. */
struct FusedRequest {
  uint32_t words[kAgreementWords];  ///< the header of the call; step and index are filled in
  uint32_t compared;                ///< bit k: word k is the same on all ranks
  uint32_t step_word;
  uint32_t index_word;   ///< in its low half
  uint32_t status_word;  ///< INVALID_ARGUMENT where the index is above kIndexMax
  uint32_t digest;       ///< of the compared words without step and index
  Disagreement* disagreement;
};

/** A digest that differs if two calls differ; always, if they differ only in their steps. */
GQ_HD constexpr uint32_t digest_with(uint32_t digest, uint32_t step, uint32_t index) {
  return digest + step * 0x9E3779B1u + index * 0x85EBCA6Bu;
}

/** Arrays are indexed by rank; this device can access the memory of all of them. Of the call itself
 *  all but `random.rank` and pointers of segments is equal on all ranks. */
struct FusedArgs {
  Coding coding;      ///< has_fused_kernel()
  RandomSite random;  ///< hop 0
  uint32_t ranks;
  uint64_t value_count;
  int32_t dtype;
  int32_t op;
  uint32_t segment_count;                         ///< a call in one piece is one segment
  SegmentPlace segments[kFusedArgumentSegments];  ///< of fused_segment(); unused if there are more
  /** In host memory, if there are more: what is in the rank's buffers before the kernel. */
  const SegmentPlace* more_segments;
  FusedShard shards[kFusedRanksMax];
  FusedBuffers* buffers[kFusedRanksMax];
  uint64_t* leave[kFusedRanksMax];
  FusedRequest request;
  uint32_t block_count;  ///< of each rank
  uint64_t timeout_ns;   ///< UINT64_MAX: kernels wait for ever
  void* stream;
};

/** Float32, and formats whose norms are the largest magnitudes of all ranks and whose codes are as
 *  long as those of their sums: with one norm, or linear in blocks whose sums get scales of their
 *  own. */
constexpr bool has_fused_kernel(const Format& format, const Coding& coding) {
  if (coding.levels == Levels::none) return coding.wide;
  const bool largest = format.q == NormOrder::inf && format.p == NormOrder::inf;
  const bool kind = coding.block == 0 ? has_norm(coding.levels) && !coding.rescale
                                      : coding.levels == Levels::linear && coding.rescale;
  return largest && kind && !coding.rotated && !coding.adaptive() && coding.wide &&
         coding.bits_down == coding.bits && coding.rounding_down == RoundingDown::random;
}

/** A backend's. */
struct FusedStages {
  /** Enqueues this rank's kernel, as other stages do. */
  StageError (*allreduce)(const FusedArgs& args);
  /** Blocks of any of these kernels that the current device runs at the same time. */
  StageError (*blocks_at_once)(uint32_t* count);
  /** Queues that streams of a device are spread over: what waits in one holds up what comes behind
   *  it there, of whatever stream. */
  uint32_t (*queues)();
};

/** Those of CUDA devices, where the build has them. */
const FusedStages& cuda_fused_stages();

}  // namespace gq

#endif
