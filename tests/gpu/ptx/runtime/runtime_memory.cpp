// CUDA's memory and devices: one device, whose memory is the host's. With GQ_PTX_OWN_DEVICES it is
// another one for each process.
#include <sys/types.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>

#include "tests/gpu/ptx/global_memory.h"
#include "tests/gpu/ptx/runtime/runtime.h"
#include "tests/support/host_device/enqueue_counts.h"
#include "tests/support/host_device/host_memory.h"

namespace gq::ptx {
namespace {

constexpr size_t kDeviceBytes = size_t{8} << 30;
constexpr int kProcessors = 16;

/** What this process has taken of the device, and of the host for it. */
struct Memory {
  std::mutex mutex;
  std::map<const void*, size_t> of_device, of_host;
  size_t used_bytes = 0;
};

Memory& memory() {
  static Memory* const all = new Memory;
  return *all;
}

/** Whether others than kernels and copies write there, who are not seen to: processes that open
 *  memory of whole units, and with GQ_PTX_TRUST set any code, as a stand-in of NCCL. */
bool is_shared(size_t size_bytes) {
  return size_bytes % kExportUnitBytes == 0 || getenv("GQ_PTX_TRUST") != nullptr;
}

cudaError_t allocate(void** place, size_t size_bytes, bool host) {
  if (is_refused_in_captures()) return noted(cudaErrorStreamCaptureUnsupported);
  Memory& all = memory();
  const std::lock_guard<std::mutex> lock(all.mutex);
  if (size_bytes > kDeviceBytes - all.used_bytes) return noted(cudaErrorMemoryAllocation);
  if (!test::allocate_block(size_bytes, 0, place).ok()) return noted(cudaErrorMemoryAllocation);
  (host ? all.of_host : all.of_device)[*place] = size_bytes;
  all.used_bytes += host ? 0 : size_bytes;
  add_area(*place, size_bytes,
           host ? Use::host : (is_shared(size_bytes) ? Use::shared : Use::device));
  return cudaSuccess;
}

cudaError_t give_back(void* place, bool host) {
  if (place == nullptr) return cudaSuccess;
  wait_for_device();
  Memory& all = memory();
  const std::lock_guard<std::mutex> lock(all.mutex);
  auto& blocks = host ? all.of_host : all.of_device;
  const auto found = blocks.find(place);
  if (found == blocks.end()) return noted(cudaErrorInvalidValue);
  all.used_bytes -= host ? 0 : found->second;
  blocks.erase(found);
  remove_area(place);
  test::release_block(place);
  return cudaSuccess;
}

void copy(void* to, const void* from, size_t size_bytes) {
  const Actor actor = begin_operation();
  read_span(from, size_bytes, actor);
  write_span(to, size_bytes, actor);
  memmove(to, from, size_bytes);
  end_operation(actor.stamp, actor.before);
}

void fill(void* memory, int value, size_t size_bytes) {
  const Actor actor = begin_operation();
  write_span(memory, size_bytes, actor);
  memset(memory, value, size_bytes);
  end_operation(actor.stamp, actor.before);
}

cudaError_t error_of(const Status& status) {
  return status.ok() ? cudaSuccess : noted(cudaErrorInvalidValue);
}

}  // namespace
}  // namespace gq::ptx

using gq::ptx::noted;

extern "C" {

cudaError_t cudaGetDeviceCount(int* count) {
  *count = 1;
  return cudaSuccess;
}
cudaError_t cudaGetDevice(int* device) {
  *device = 0;
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int device) {
  return device == 0 ? cudaSuccess : noted(cudaErrorInvalidDevice);
}
// No function of the driver: what asks for one does without.
#if CUDART_VERSION >= 12050
cudaError_t cudaGetDriverEntryPointByVersion(const char*, void** found, unsigned,
                                             unsigned long long,
                                             cudaDriverEntryPointQueryResult* result) {
#else
cudaError_t cudaGetDriverEntryPoint(const char*, void** found, unsigned long long,
                                    cudaDriverEntryPointQueryResult* result) {
#endif
  *found = nullptr;
  *result = cudaDriverEntryPointSymbolNotFound;
  return cudaSuccess;
}
cudaError_t cudaDeviceCanAccessPeer(int* can, int, int) {
  *can = 0;
  return cudaSuccess;
}
cudaError_t cudaDeviceEnablePeerAccess(int, unsigned) { return noted(cudaErrorInvalidDevice); }

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* device, int) {
  *device = {};
  strcpy(device->name, "none: PTX, carried out");
  device->major = 9;
  device->multiProcessorCount = gq::ptx::kProcessors;
  device->l2CacheSize = 1 << 20;
  device->totalGlobalMem = gq::ptx::kDeviceBytes;
  const pid_t process = getenv("GQ_PTX_OWN_DEVICES") == nullptr ? 0 : getpid();
  memcpy(&device->uuid, &process, sizeof process);
  return cudaSuccess;
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int) {
  if (attribute != cudaDevAttrMultiProcessorCount) return noted(cudaErrorInvalidValue);
  *value = gq::ptx::kProcessors;
  return cudaSuccess;
}

cudaError_t cudaMalloc(void** memory, size_t size_bytes) {
  return gq::ptx::allocate(memory, size_bytes, false);
}
cudaError_t cudaFree(void* memory) { return gq::ptx::give_back(memory, false); }
cudaError_t cudaHostAlloc(void** memory, size_t size_bytes, unsigned) {
  return gq::ptx::allocate(memory, size_bytes, true);
}
cudaError_t cudaFreeHost(void* memory) { return gq::ptx::give_back(memory, true); }
cudaError_t cudaHostRegister(void* memory, size_t size_bytes, unsigned) {
  gq::ptx::add_area(memory, size_bytes, gq::ptx::Use::host);
  return cudaSuccess;
}
cudaError_t cudaHostGetDevicePointer(void** on_device, void* memory, unsigned) {
  *on_device = memory;
  return cudaSuccess;
}
cudaError_t cudaHostUnregister(void* memory) {
  gq::ptx::wait_for_device();
  gq::ptx::remove_area(memory);
  return cudaSuccess;
}
cudaError_t cudaMemGetInfo(size_t* free_bytes, size_t* total_bytes) {
  const std::lock_guard<std::mutex> lock(gq::ptx::memory().mutex);
  *total_bytes = gq::ptx::kDeviceBytes;
  *free_bytes = gq::ptx::kDeviceBytes - gq::ptx::memory().used_bytes;
  return cudaSuccess;
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* pointer) {
  const void* const begin = gq::ptx::area_begin(pointer);
  const std::lock_guard<std::mutex> lock(gq::ptx::memory().mutex);
  *attributes = {};
  attributes->type = cudaMemoryTypeDevice;  // of this process, or opened
  if (begin == nullptr) attributes->type = cudaMemoryTypeUnregistered;
  if (gq::ptx::memory().of_host.count(begin) > 0) attributes->type = cudaMemoryTypeHost;
  return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t size_bytes, cudaMemcpyKind,
                            cudaStream_t stream) {
  gq::test::enqueue_counts().copies += 1;
  return gq::ptx::enqueue(stream, [=] { gq::ptx::copy(to, from, size_bytes); });
}
cudaError_t cudaMemcpy(void* to, const void* from, size_t size_bytes, cudaMemcpyKind kind) {
  const cudaError_t error = cudaMemcpyAsync(to, from, size_bytes, kind, cudaStreamLegacy);
  return error == cudaSuccess ? gq::ptx::wait_for_stream(cudaStreamLegacy) : error;
}
cudaError_t cudaMemsetAsync(void* memory, int value, size_t size_bytes, cudaStream_t stream) {
  gq::test::enqueue_counts().copies += 1;
  return gq::ptx::enqueue(stream, [=] { gq::ptx::fill(memory, value, size_bytes); });
}

cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t* handle, void* memory) {
  static_assert(sizeof *handle == sizeof(gq::IpcHandle));
  return gq::ptx::error_of(
      gq::test::host_ipc().export_memory(memory, reinterpret_cast<gq::IpcHandle*>(handle)));
}
cudaError_t cudaIpcOpenMemHandle(void** memory, cudaIpcMemHandle_t handle, unsigned) {
  gq::IpcHandle given;
  memcpy(&given, &handle, sizeof given);
  const cudaError_t error = gq::ptx::error_of(gq::test::host_ipc().open_memory(given, memory));
  // What others write there is not seen here.
  if (error == cudaSuccess)
    gq::ptx::add_area(*memory, gq::test::shared_size(given), gq::ptx::Use::shared);
  return error;
}
cudaError_t cudaIpcCloseMemHandle(void* memory) {
  gq::ptx::wait_for_device();
  gq::ptx::remove_area(memory);
  gq::test::host_ipc().close_memory(memory);
  return cudaSuccess;
}

}  // extern "C"
