// Converts the C ABI's arguments to those of stages: arrays of pointers, and norms as numbers.
#ifndef GQ_KERNELS_CUDA_NUMBERS_CUH
#define GQ_KERNELS_CUDA_NUMBERS_CUH

#include "kernels/cuda/launch/work.cuh"
#include "kernels/numbers.h"

namespace gq::cuda {

/** A piece of an array, passed as an argument of its kernel: a captured graph keeps a copy. */
struct ListPart : BodyDefaults {
  const void* pointers[kThreads];
  uint32_t count;
  const void** out;

  ListPart(const void* const* list, size_t left, const void** out)
      : count(left < kThreads ? static_cast<uint32_t>(left) : kThreads), out(out) {
    for (uint32_t k = 0; k < kThreads; ++k) pointers[k] = k < count ? list[k] : nullptr;
  }

  template <typename Here>
  GQ_HD void run(Interval<0>, uint32_t, uint32_t, Here local) const {
    if (local.thread < count) out[local.thread] = pointers[local.thread];
  }
};

template <typename Launcher>
StageError write_list_on(Launcher launch, const WriteListArgs& args) {
  for (size_t first = 0; first < args.count; first += ListPart::kThreads) {
    const StageError error =
        launch.run(ListPart(args.list + first, args.count - first, args.out + first));
    if (failed(error)) return error;
  }
  return {};
}

struct Numbers : BodyDefaults {
  NormSource from;
  float* out;
  uint64_t count;

  explicit Numbers(const WriteNumbersArgs& args)
      : from(args.from, 1), out(args.out), count(args.count) {
    iteration_count = static_cast<uint32_t>((count + kThreads - 1) / kThreads);
  }

  template <typename Here>
  GQ_HD void run(Interval<0>, uint32_t iteration, uint32_t, Here local) const {
    const uint64_t number = uint64_t{iteration} * kThreads + local.thread;
    if (number < count) out[number] = from.at(number);
  }
};

template <typename Launcher>
StageError write_numbers_on(Launcher launch, const WriteNumbersArgs& args) {
  return launch.run(Numbers(args));
}

}  // namespace gq::cuda

#endif
