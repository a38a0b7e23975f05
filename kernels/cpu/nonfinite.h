// Finds NaN and infinity among values in host memory: what nonfinite=error reports. Only called
// once a norm has shown that there are some.
#ifndef GQ_KERNELS_CPU_NONFINITE_H
#define GQ_KERNELS_CPU_NONFINITE_H

#include <stdint.h>

namespace gq {

struct NonfiniteSite {
  uint64_t first_value = 0;  ///< index of the first one
  uint64_t value_count = 0;  ///< how many there are
};

/** A float64 beyond the largest float32 counts as infinite, as it does in the norm. */
NonfiniteSite find_nonfinite(const void* values, uint64_t value_count, int32_t dtype);

}  // namespace gq

#endif
