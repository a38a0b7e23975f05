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

/** What CUDA has computed before, of one device: launches need not ask again. */
class KnownOccupancy {
 public:
  /** 0 if it is not known. */
  uint32_t find(const void* kernel) const {
    for (const Slot& slot : slots_) {
      const void* const known = slot.kernel.load(std::memory_order_acquire);
      if (known == kernel) return slot.blocks.load(std::memory_order_acquire);
      if (known == nullptr) return 0;
    }
    return 0;
  }

  /** Kernels beyond the last slot stay unknown. */
  void add(const void* kernel, uint32_t blocks) {
    for (Slot& slot : slots_) {
      const void* known = nullptr;
      if (slot.kernel.compare_exchange_strong(known, kernel) || known == kernel) {
        return slot.blocks.store(blocks, std::memory_order_release);
      }
    }
  }

 private:
  struct Slot {
    std::atomic<const void*> kernel{nullptr};
    std::atomic<uint32_t> blocks{0};
  };
  Slot slots_[128];
};

inline StageError blocks_at_once(const void* kernel, uint32_t threads, uint32_t* blocks) {
  constexpr int kDevicesMax = 16;
  static KnownOccupancy known[kDevicesMax];
  const char* const what = "what the device can run at once";
  int device = 0, processors = 0, per_processor = 0;
  StageError error = checked(cudaGetDevice(&device), what);
  if (failed(error)) return error;
  *blocks = device < kDevicesMax ? known[device].find(kernel) : 0;
  if (*blocks > 0) return {};
  error = checked(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device),
                  what);
  if (failed(error)) return error;
  error = checked(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&per_processor, kernel,
                                                                static_cast<int>(threads), 0),
                  what);
  *blocks = static_cast<uint32_t>(processors * per_processor);
  if (!failed(error) && device < kDevicesMax) known[device].add(kernel, *blocks);
  return error;
}

}  // namespace gq::cuda

#endif
