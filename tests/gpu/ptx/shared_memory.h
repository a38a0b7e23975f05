// Shared memory of a block. Between two barriers a word belongs to those who read it, or to the one
// who writes it, or to atomic operations. Between threads of one warp its own barriers count, too.
#ifndef GQ_TESTS_GPU_PTX_SHARED_MEMORY_H
#define GQ_TESTS_GPU_PTX_SHARED_MEMORY_H

#include <cstdint>
#include <vector>

#include "tests/gpu/ptx/finding.h"

namespace gq::ptx {

class SharedMemory {
 public:
  static constexpr uint32_t kWarpThreads = 32;
  static constexpr uint32_t kWarpsMax = 32;

  explicit SharedMemory(uint32_t size_bytes);

  /** Where `size_bytes` of an access by `thread` lie. Throws Finding. */
  uint8_t* place(uint64_t offset, uint32_t size_bytes, uint32_t thread, Access access);
  /** All threads have come to a barrier, or all of the warp of thread `first`. */
  void pass_barrier() { ++phase_; }
  void pass_warp_barrier(uint32_t first) { ++warp_phases_[first / kWarpThreads]; }

 private:
  /** Who has touched a word, and when last. */
  struct Touch {
    uint32_t phase = 0;  // 0: never
    uint32_t thread = 0;
    uint32_t warp = 0;
    uint32_t warp_phase = 0;  // of that warp
  };
  struct Word {
    Touch written, read;
    bool atomic = false;  // the write was one
  };
  /** Whether a barrier of the block, or of both threads' warp, is between. */
  bool is_ordered(const Touch& before, uint32_t thread) const;
  /** `together`: beside those that have touched it since the last barrier. */
  void note(Touch* touch, uint32_t thread, bool together) const;
  void touch(Word* word, uint32_t thread, Access access);

  std::vector<uint8_t> bytes_;
  std::vector<Word> words_;
  uint32_t phase_ = 1;
  uint32_t warp_phases_[kWarpsMax] = {};
};

}  // namespace gq::ptx

#endif
