// The kernels that this library launches, and how many blocks of each a device runs at once.
#ifndef GQ_KERNELS_CUDA_LAUNCH_KERNELS_CUH
#define GQ_KERNELS_CUDA_LAUNCH_KERNELS_CUH

#include <cuda_runtime_api.h>

#include <atomic>
#include <utility>

#include "kernels/stage_error.h"

namespace gq::cuda {

/** The thread's last error of CUDA stays as a caller left it: one of ours is taken back. */
inline StageError checked(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return {};
  (void)cudaGetLastError();
  return {what, static_cast<int32_t>(error), cudaGetErrorName(error), cudaGetErrorString(error)};
}

struct ListedKernel;
inline constinit const ListedKernel* last_listed_kernel = nullptr;

/** Lists itself when it is made, so that it can be loaded before a group's first call. */
struct ListedKernel {
  const void* entry;  ///< CUDA's name of the kernel on the host
  const ListedKernel* next;

  explicit ListedKernel(const void* entry)
      : entry(entry), next(std::exchange(last_listed_kernel, this)) {}
};

/** Made when the library is loaded, for each kernel that code names here: a launch does. */
template <auto kKernel>
inline const ListedKernel listed_kernel(reinterpret_cast<const void*>(kKernel));

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
