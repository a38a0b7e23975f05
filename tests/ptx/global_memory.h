// Memory that kernels reach: what was allocated, and which of its bytes anybody has written.
#ifndef GQ_TESTS_PTX_GLOBAL_MEMORY_H
#define GQ_TESTS_PTX_GLOBAL_MEMORY_H

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "tests/ptx/finding.h"

namespace gq::ptx {

/** One allocation. A byte of `written` each for what others may rely on. */
struct Area {
  uint64_t begin;
  uint64_t end;
  std::shared_ptr<std::vector<uint8_t>> written;
};

/** Process-wide. `written`: as if all of it had been. */
void add_area(const void* begin, size_t size_bytes, bool written);
void remove_area(const void* begin);
/** Throws Finding if this begins in an area and ends beyond it; memory of no area is the host's. */
void check_span(const void* begin, size_t size_bytes);
/** The same of what is copied or cleared without a kernel, which counts as written then. */
void mark_written(const void* begin, size_t size_bytes);
/** Where an address leads: the begin of its area, or null. */
const void* area_begin(const void* address);

/** A launch's way to memory: looks areas up, and throws Finding. */
class Reach {
 public:
  /** Where `size_bytes` of an access lie. All but a write need bytes that were written. */
  void* place(uint64_t address, uint32_t size_bytes, Access access);

 private:
  const Area& area_of(uint64_t address, uint32_t size_bytes);

  uint64_t generation_ = 0;
  std::vector<Area> known_;  // the last one found comes first
};

}  // namespace gq::ptx

#endif
