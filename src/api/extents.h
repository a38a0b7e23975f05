// Many buffers at once: whether none that is written lies in another.
#ifndef GQ_API_EXTENTS_H
#define GQ_API_EXTENTS_H

#include <stddef.h>
#include <stdint.h>

#include <vector>

#include "src/support/status.h"

namespace gq {

/** Addresses of one buffer that is written or read, number `number` of its array. */
struct Extent {
  uintptr_t begin, end;
  size_t number;
};

inline Extent extent_of(const void* data, size_t number, size_t size_bytes) {
  const uintptr_t begin = reinterpret_cast<uintptr_t>(data);
  return {begin, begin + size_bytes, number};
}

/** No result may lie in another result or in values of another number; in place is where both are
 *  one. `written` are all results, and are sorted; neither array has empty ones. */
Status check_disjoint(std::vector<Extent>* written, const std::vector<Extent>& read);

}  // namespace gq

#endif
