// The processors and caches that this thread can use.
#ifndef GQ_EXECUTE_PROCESSORS_H
#define GQ_EXECUTE_PROCESSORS_H

#include <stddef.h>
#include <stdint.h>

namespace gq {

struct Processors {
  uint32_t count = 1;      ///< that this thread may run on
  uint32_t digest = 0;     ///< of which they are: equal for equal sets
  size_t cache_bytes = 0;  ///< of the last level, or the part of it to count on; 0: not known
};

Processors processors_here();

}  // namespace gq

#endif
