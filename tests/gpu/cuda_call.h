// Calls of the CUDA runtime in tests: what fails ends the test.
#ifndef GQ_TESTS_GPU_CUDA_CALL_H
#define GQ_TESTS_GPU_CUDA_CALL_H

#include <cuda_runtime_api.h>

#include <stdexcept>
#include <string>

namespace gq::test {

inline void done(cudaError_t error) {
  if (error == cudaSuccess) return;
  throw std::runtime_error(std::string("CUDA: ") + cudaGetErrorString(error));
}

}  // namespace gq::test

#endif
