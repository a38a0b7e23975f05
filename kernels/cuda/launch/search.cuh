// A search among places in rising order.
#ifndef GQ_KERNELS_CUDA_LAUNCH_SEARCH_CUH
#define GQ_KERNELS_CUDA_LAUNCH_SEARCH_CUH

#include "kernels/codec/portable.h"

namespace gq::cuda {

/** The last of `count` that begins at the value or before, else the first. begin_of(k) rises. */
template <typename Number, typename BeginOf>
GQ_HD Number last_begun(Number count, uint64_t value, BeginOf begin_of) {
  Number low = 0, high = count;
  while (high - low > 1) {
    const Number middle = low + (high - low) / 2;
    (begin_of(middle) <= value ? low : high) = middle;
  }
  return low;
}

}  // namespace gq::cuda

#endif
