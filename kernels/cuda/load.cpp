// Loads all kernels, as their first launches would.
#include "kernels/cuda/launch/kernels.cuh"
#include "kernels/stages.h"

namespace gq {

StageError cuda_load_kernels() {
  using cuda::ListedKernel;
  for (const ListedKernel* kernel = cuda::last_listed_kernel; kernel != nullptr;
       kernel = kernel->next) {
    cudaFuncAttributes attributes;
    const StageError error =
        cuda::checked(cudaFuncGetAttributes(&attributes, kernel->entry), "cudaFuncGetAttributes");
    if (failed(error)) return error;
  }
  return {};
}

}  // namespace gq
