// Widths of the blocks of a group, a thread of a block for each (docs/FORMAT.md, section 16).
#ifndef GQ_KERNELS_CUDA_ADAPTIVE_GROUP_WIDTHS_CUH
#define GQ_KERNELS_CUDA_ADAPTIVE_GROUP_WIDTHS_CUH

#include <cub/block/block_scan.cuh>

#include "kernels/codec/widths.h"
#include "kernels/cuda/launch/block.cuh"

namespace gq::cuda {

static_assert(kGroupBlocks == kBlockThreads, "a thread for each block of a group");

using WidthScan = cub::BlockScan<uint32_t, kBlockThreads>;

/** Each bit that a block may get beyond the least width has a mark: the norm's code less the bit's
 *  offset, from 1 on. The threshold is one more than the largest mark for whose bit no planes are
 *  left. It is found digit by digit, each by counts of the marks that have it. */
class GroupWidths {
 public:
  struct Shared {
    typename WidthScan::TempStorage scan;
    uint32_t marks[kBlockThreads];  ///< that have the digit
    uint32_t digit, larger;
    uint16_t place[kGroupBlocks + 1];  ///< planes before a block, and its width behind them
    uint16_t norm[kGroupBlocks];       ///< codes
    uint32_t plane_count;
  };

  /** All threads of the block come here, each with the code of its block's norm, 0 beyond the last
   *  one; afterwards they may read what is shared. */
  GQ_DEVICE GroupWidths(Shared& shared, uint16_t code, uint32_t plane_count) : shared_(shared) {
    const uint16_t norm = has_codes(code) ? code : uint16_t{0};
    const uint32_t more = extra(norm, plane_count);
    shared.norm[threadIdx.x] = code;
    if (threadIdx.x == 0) shared.plane_count = plane_count;
    keep(norm == 0 ? 0 : kWidthMin + more);
  }

  GQ_DEVICE float norm(uint32_t block) const { return norm_from_code(shared_.norm[block]); }
  /** 0 beyond the last block. */
  GQ_DEVICE uint32_t width(uint32_t block) const { return shared_.place[block] >> kPlaneBits; }
  GQ_DEVICE uint32_t first_plane(uint32_t block) const {
    return shared_.place[block] & ((1u << kPlaneBits) - 1);
  }
  /** Planes of all blocks, and those that there is space for. */
  GQ_DEVICE uint32_t end_plane() const { return first_plane(kGroupBlocks); }
  GQ_DEVICE uint32_t plane_count() const { return shared_.plane_count; }

 private:
  static constexpr uint32_t kDigitBits = 8;
  static constexpr uint32_t kPlaneBits = 12;
  static_assert(kGroupBlocks * kWidthMax < 1u << kPlaneBits && kWidthMax < 1u << (16 - kPlaneBits));
  static constexpr uint32_t kNoDigit = kBlockThreads;
  static_assert(kBlockThreads == 1u << kDigitBits, "a thread for each digit");

  /** Marks with one digit, a thread's own, and those with larger ones. */
  struct Marks {
    uint32_t here, larger, total;
  };

  /** Bits beyond the least width; a norm of 0 stands for a block that gets none. */
  GQ_DEVICE uint32_t extra(uint16_t norm, uint32_t plane_count) {
    const Marks high_marks = count(norm, [](uint32_t mark) { return mark >> kDigitBits; });
    uint32_t left = plane_count - high_marks.total / kWidthSteps * kWidthMin;
    if (high_marks.total <= left) return kWidthSteps;  // for all threads
    const uint32_t high = choose(high_marks, &left);
    const Marks low_marks = count(norm, [high](uint32_t mark) {
      return mark >> kDigitBits == high ? mark & ((1u << kDigitBits) - 1) : kNoDigit;
    });
    const uint32_t mark = high << kDigitBits | choose(low_marks, &left);
    const int32_t threshold = static_cast<int32_t>(mark + 1) + kThresholdMin;
    const bool next = norm != 0 && is_next(norm, threshold);
    uint32_t before;
    WidthScan(shared_.scan).ExclusiveSum(next ? 1u : 0u, before);
    __syncthreads();  // the storage is used again
    return extra_bits(norm, threshold) + (next && before < left ? 1 : 0);
  }

  /** Marks by a digit of theirs. */
  template <typename DigitOf>
  GQ_DEVICE Marks count(uint16_t norm, DigitOf digit_of) {
    shared_.marks[threadIdx.x] = 0;
    __syncthreads();
    if (norm != 0) {
      GQ_UNROLL for (uint32_t k = 0; k < kWidthSteps; ++k) {
        const uint32_t digit =
            digit_of(static_cast<uint32_t>(norm - width_offset(k) - kThresholdMin));
        if (digit != kNoDigit) atomicAdd(&shared_.marks[digit], 1u);
      }
    }
    __syncthreads();
    Marks marks;
    marks.here = shared_.marks[digit_of_thread()];
    WidthScan(shared_.scan).ExclusiveSum(marks.here, marks.larger, marks.total);
    __syncthreads();  // the storage is used again
    return marks;
  }

  /** Threads have digits from the largest one on. */
  static GQ_DEVICE uint32_t digit_of_thread() { return kBlockThreads - 1 - threadIdx.x; }

  /** The digit of the first mark, from the largest on, for which `left` bits do not suffice; those
   *  with larger digits are taken off. */
  GQ_DEVICE uint32_t choose(const Marks& marks, uint32_t* left) {
    if (marks.larger <= *left && *left < marks.larger + marks.here) {
      shared_.digit = digit_of_thread();
      shared_.larger = marks.larger;
    }
    __syncthreads();
    *left -= shared_.larger;
    return shared_.digit;
  }

  GQ_DEVICE void keep(uint32_t width) {
    uint32_t before, total;
    WidthScan(shared_.scan).ExclusiveSum(width, before, total);
    shared_.place[threadIdx.x] = static_cast<uint16_t>(width << kPlaneBits | before);
    if (threadIdx.x == 0) shared_.place[kGroupBlocks] = static_cast<uint16_t>(total);
    __syncthreads();
  }

  Shared& shared_;
};

}  // namespace gq::cuda

#endif
