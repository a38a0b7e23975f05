// Ownership of one stretch of mapped shared memory.
#ifndef GQ_TRANSPORT_PROCESS_MAPPING_H
#define GQ_TRANSPORT_PROCESS_MAPPING_H

#include <stddef.h>
#include <stdint.h>

#include "src/support/status.h"

namespace gq {

enum class Access { read, read_write };

/** Not inherited by children and left out of core dumps: gradients are private to the group. */
class Mapping {
 public:
  Mapping() = default;
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  ~Mapping() { unmap(); }

  /** Maps bytes offset_bytes .. + size_bytes of `descriptor`; offset and size in whole pages. */
  Status map(int descriptor, uint64_t offset_bytes, size_t size_bytes, Access access);
  /** Makes the mapping longer; it may move. The old one stays where that fails. */
  Status grow(size_t size_bytes);
  void unmap();
  /** Forgets the memory without unmapping it: in a forked child there is nothing to unmap. */
  void abandon() { base_ = nullptr, size_bytes_ = 0; }

  unsigned char* base() const { return base_; }
  size_t size_bytes() const { return size_bytes_; }

 private:
  unsigned char* base_ = nullptr;
  size_t size_bytes_ = 0;
};

}  // namespace gq

#endif
