// Shared memory of a block. Between two barriers a word belongs to those who read it, or to the one
// who writes it, or to atomic operations.
#ifndef GQ_TESTS_GPU_PTX_SHARED_MEMORY_H
#define GQ_TESTS_GPU_PTX_SHARED_MEMORY_H

#include <cstdint>
#include <vector>

#include "tests/gpu/ptx/finding.h"

namespace gq::ptx {

class SharedMemory {
 public:
  explicit SharedMemory(uint32_t size_bytes);

  /** Where `size_bytes` of an access by `thread` lie. Throws Finding. */
  uint8_t* place(uint64_t offset, uint32_t size_bytes, uint32_t thread, Access access);
  /** All threads have come to a barrier. */
  void pass_barrier() { ++phase_; }

 private:
  /** Who has touched a word, and in which phase last. */
  struct Word {
    uint32_t written = 0;  // phase; 0: never
    uint32_t read = 0;
    uint32_t writer = 0;
    uint32_t reader = 0;
    bool atomic = false;  // the write was one
  };
  void touch(Word* word, uint32_t thread, Access access);

  std::vector<uint8_t> bytes_;
  std::vector<Word> words_;
  uint32_t phase_ = 1;
};

}  // namespace gq::ptx

#endif
