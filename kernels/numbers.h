// Converts the C ABI's arguments to those of stages on device memory: arrays of pointers are copied
// there, and norms become numbers there.
#ifndef GQ_KERNELS_NUMBERS_H
#define GQ_KERNELS_NUMBERS_H

#include "kernels/stages.h"

namespace gq {

/** out[k] = list[k], pointers that kernels read from the device's memory. `list` is host memory and
 *  may be freed when the call returns. */
struct WriteListArgs {
  const void* const* list;
  size_t count;
  const void** out;
  void* stream;
};

/** Norms or scales as the C ABI has them: one as it is, blocks' from codes or rounded up to the
 *  grid of codes; out may be the numbers' own place. */
struct WriteNumbersArgs {
  NormView from;
  size_t count;
  float* out;
  void* stream;
};

/** A backend's: they enqueue on args.stream, as stages do. */
struct NumberStages {
  StageError (*write_list)(const WriteListArgs& args);
  StageError (*write_numbers)(const WriteNumbersArgs& args);
};

/** Those of CUDA devices, where the build has them. */
const NumberStages& cuda_number_stages();

}  // namespace gq

#endif
