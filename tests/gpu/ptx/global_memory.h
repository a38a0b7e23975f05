// Memory that kernels reach: what was allocated, and which of its bytes have been written.
#ifndef GQ_TESTS_GPU_PTX_GLOBAL_MEMORY_H
#define GQ_TESTS_GPU_PTX_GLOBAL_MEMORY_H

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "tests/gpu/ptx/finding.h"
#include "tests/gpu/ptx/order.h"
#include "tests/support/host_device/zeroed.h"

namespace gq::ptx {

/** One allocation. A byte of `written` each, not 0 for what others may rely on; null: all of it. */
struct Area {
  uint64_t begin;
  uint64_t end;
  std::shared_ptr<test::Zeroed<uint8_t>> written;
  std::shared_ptr<AreaOrder> order;  ///< null where it is not looked at
};

/** Whom memory is for: what others than kernels and copies write there is not seen. */
enum class Use : uint8_t { device, shared, host };

/** Process-wide. All of it counts as written where others may write. */
void add_area(const void* begin, size_t size_bytes, Use use);
void remove_area(const void* begin);
/** Throws Finding if this begins in an area and ends beyond it; memory of no area is the host's. Of
 *  what a copy reads, and of what one writes, which counts as written then. */
void read_span(const void* begin, size_t size_bytes, const Actor& actor);
void write_span(const void* begin, size_t size_bytes, const Actor& actor);
/** Where an address leads: the begin of its area, or null. */
const void* area_begin(const void* address);

/** A launch's way to memory: looks areas up, and throws Finding. */
class Reach {
 public:
  /** Where `size_bytes` of an access lie. All but a write need bytes that were written. */
  void* place(uint64_t address, uint32_t size_bytes, Access access);
  /** For whom it looks from now on. */
  void set_actor(Actor* actor) { actor_ = actor; }
  Actor& actor() { return *actor_; }

 private:
  const Area& area_of(uint64_t address, uint32_t size_bytes);

  Actor* actor_ = nullptr;
  uint64_t generation_ = 0;
  std::vector<Area> known_;  // the last one found comes first
};

}  // namespace gq::ptx

#endif
