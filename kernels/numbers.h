// What the C ABI needs on device memory beside stages: arrays of pointers are copied there, norms
// become numbers there, and adaptive widths are written for callers to see.
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

/** The widths of all blocks of whole groups: one byte for each, in the order of values, as norms
 *  are. */
struct WriteWidthsArgs {
  Range range;  ///< with `grouped`
  uint32_t mean_half_bits;
  const float* norms;  ///< the global ones
  uint8_t* widths;
  void* stream;
};

/** A backend's: they enqueue on args.stream, as stages do. */
struct NumberStages {
  StageError (*write_list)(const WriteListArgs& args);
  StageError (*write_numbers)(const WriteNumbersArgs& args);
  StageError (*write_widths)(const WriteWidthsArgs& args);
};

/** Those of CUDA devices, where the build has them. */
const NumberStages& cuda_number_stages();

}  // namespace gq

#endif
