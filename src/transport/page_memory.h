// Memory of the heap in whole pages: arenas of ranks whose words no other process reads.
#ifndef GQ_TRANSPORT_PAGE_MEMORY_H
#define GQ_TRANSPORT_PAGE_MEMORY_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <memory>
#include <utility>

#include "src/support/status.h"

namespace gq {

class PageMemory {
 public:
  PageMemory() = default;
  PageMemory(PageMemory&& other) noexcept
      : base_(std::move(other.base_)), size_bytes_(std::exchange(other.size_bytes_, 0)) {}
  PageMemory& operator=(PageMemory&& other) noexcept {
    base_ = std::move(other.base_);
    size_bytes_ = std::exchange(other.size_bytes_, 0);
    return *this;
  }

  /** At least `size_bytes` for rank `rank`, in place of what was there. NO_MEMORY: then there is
   *  nothing. */
  Status allocate(uint32_t rank, size_t size_bytes) {
    base_.reset();
    size_bytes_ = 0;
    if (size_bytes <= PTRDIFF_MAX - kPageBytes) {
      const size_t whole_bytes = (size_bytes + kPageBytes - 1) / kPageBytes * kPageBytes;
      base_.reset(static_cast<unsigned char*>(aligned_alloc(kPageBytes, whole_bytes)));
      if (base_) size_bytes_ = whole_bytes;
    }
    if (base_) return Status();
    return fail(GQSGD_NO_MEMORY, "rank %u: no arena of %zu bytes", rank, size_bytes);
  }

  /** The same, all 0: where words travel, so does what no value is written to, such as the space
   *  between tensors. */
  Status allocate_cleared(uint32_t rank, size_t size_bytes) {
    GQ_TRY(allocate(rank, size_bytes));
    memset(base_.get(), 0, size_bytes_);
    return Status();
  }

  unsigned char* base() const { return base_.get(); }
  size_t size_bytes() const { return size_bytes_; }
  /** It stays until the process ends. */
  unsigned char* release() { return base_.release(); }

 private:
  static constexpr size_t kPageBytes = 4096;
  struct FreeDeleter {
    void operator()(unsigned char* memory) const { free(memory); }
  };

  std::unique_ptr<unsigned char, FreeDeleter> base_;
  size_t size_bytes_ = 0;
};

}  // namespace gq

#endif
