// What codes of 4 bits stand for, in shared memory: sixteen numbers that a block of threads
// computes once.
#ifndef GQ_KERNELS_CUDA_SHARED_LEVELS_CUH
#define GQ_KERNELS_CUDA_SHARED_LEVELS_CUH

#include "kernels/codec/words.h"
#include "kernels/cuda/launch/block.cuh"

namespace gq::cuda {

/** For codes of 8 bits none. */
template <uint32_t kBits>
struct SharedLevels {};

/** A row for each code, and in it the same number for each bank of the memory: threads of a warp
 *  look up different codes at once, each in a bank of its own. A row is followed by as much that is
 *  of no use, so that a code is the upper byte of its row's place. */
template <>
struct SharedLevels<4> {
  static constexpr uint32_t kBanks = 32;
  static constexpr uint32_t kThreadsOfRow = kBlockThreads / 16;
  float row[16][2 * kBanks];

  /** The code of which a thread writes the level, which it has computed. */
  GQ_HD static uint32_t code_of(uint32_t thread) { return thread / kThreadsOfRow; }
  GQ_HD void fill(uint32_t thread, float level) {
    const uint32_t first = code_of(thread) * kThreadsOfRow;  // two rows of a warp: other banks
    GQ_UNROLL for (uint32_t k = 0; k < kBanks; k += kThreadsOfRow) {
      row[code_of(thread)][(first + thread % kThreadsOfRow + k) % kBanks] = level;
    }
  }

  GQ_HD float at(uint32_t offset_bytes) const {
#if defined(__CUDA_ARCH__)
    return *reinterpret_cast<const float*>(reinterpret_cast<const char*>(row) + offset_bytes);
#else
    return row[offset_bytes / (8 * kBanks)][offset_bytes / 4 % (2 * kBanks)];
#endif
  }

  /** Of four lanes; the upper half of `lanes` is zero. */
  GQ_HD void look_up_four(uint32_t lanes, uint32_t thread, float (&level)[4]) const {
    const uint32_t bank = thread % kBanks * 4;
    const uint32_t codes = (lanes | lanes << 12) & 0x0f0f0f0fu;  // 0, 2, 1, 3
    level[0] = at(byte_permute(codes, bank, 0x7704));
    level[1] = at(byte_permute(codes, bank, 0x7724));
    level[2] = at(byte_permute(codes, bank, 0x7714));
    level[3] = at(byte_permute(codes, bank, 0x7734));
  }
};

}  // namespace gq::cuda

#endif
