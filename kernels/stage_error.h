// What a stage returns: nothing, or why its device refused it. Plain data, so that objects built
// for one instruction set define no function of it.
#ifndef GQ_KERNELS_STAGE_ERROR_H
#define GQ_KERNELS_STAGE_ERROR_H

#include <stdint.h>

namespace gq {

/** Nothing failed if `call` is null. All strings are valid for ever. */
struct StageError {
  const char* call = nullptr;  ///< what failed: "a kernel's launch", "cudaMemsetAsync"
  int32_t number = 0;          ///< CUDA's number of the error
  const char* name = nullptr;  ///< its name; null for a fault of this library
  const char* text = nullptr;  ///< its meaning
};

__attribute__((always_inline)) inline bool failed(const StageError& error) {
  return error.call != nullptr;
}

}  // namespace gq

#endif
