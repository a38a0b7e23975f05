// How many blocks of a kernel a device runs at once.
#ifndef GQ_KERNELS_CUDA_LAUNCH_OCCUPANCY_CUH
#define GQ_KERNELS_CUDA_LAUNCH_OCCUPANCY_CUH

#include <cuda_runtime_api.h>

#include <atomic>

#include "kernels/stage_error.h"

namespace gq::cuda {

/** The thread's last error of CUDA stays as a caller left it: one of ours is taken back. */
inline StageError checked(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return {};
  (void)cudaGetLastError();
  return {what, static_cast<int32_t>(error), cudaGetErrorName(error), cudaGetErrorString(error)};
}

/** CUDA is asked once for each kernel and device: launches need not ask again. */
template <auto kKernel>
StageError blocks_at_once(uint32_t threads, uint32_t* blocks) {
  constexpr int kDevicesMax = 16;
  static std::atomic<uint32_t> known[kDevicesMax];
  const char* const what = "what the device can run at once";
  int device = 0, processors = 0, per_processor = 0;
  StageError error = checked(cudaGetDevice(&device), what);
  if (failed(error)) return error;
  *blocks = device < kDevicesMax ? known[device].load(std::memory_order_relaxed) : 0;
  if (*blocks > 0) return {};
  error = checked(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device),
                  what);
  if (failed(error)) return error;
  error = checked(cudaOccupancyMaxActiveBlocksPerMultiprocessor(
                      &per_processor, kKernel, static_cast<int>(threads), 0),
                  what);
  *blocks = static_cast<uint32_t>(processors * per_processor);
  if (!failed(error) && device < kDevicesMax) known[device] = *blocks;
  return error;
}

}  // namespace gq::cuda

#endif
