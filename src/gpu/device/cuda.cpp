// The device table of CUDA: its runtime, called with the thread's current device.
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "src/gpu/device/device.h"

namespace gq {
namespace {

/** The thread's last error of CUDA stays as a caller left it: one that is not sticky is taken back.
 */
Status checked(cudaError_t error, const char* call) {
  if (error == cudaSuccess) return Status();
  (void)cudaGetLastError();
  const gqsgd_status code = error == cudaErrorMemoryAllocation ? GQSGD_NO_MEMORY : GQSGD_BACKEND;
  return fail(code, "%s: CUDA error %d (%s): %s", call, static_cast<int>(error),
              cudaGetErrorName(error), cudaGetErrorString(error));
}

cudaStream_t stream_of(StreamHandle stream) { return static_cast<cudaStream_t>(stream); }
cudaEvent_t event_of(EventHandle event) { return static_cast<cudaEvent_t>(event); }

/** The calling thread's capture mode for as long as this lives. In mode global, the default, CUDA
 *  refuses to map memory and queries of events while any thread captures a stream in that mode, as
 *  PyTorch does, and invalidates the capture. In mode thread-local only the thread's own captures
 *  count, in mode relaxed none. */
class CaptureMode {
 public:
  explicit CaptureMode(cudaStreamCaptureMode mode) : other_(mode), changed_(exchange()) {}
  ~CaptureMode() {
    if (changed_) (void)exchange();
  }
  CaptureMode(const CaptureMode&) = delete;
  CaptureMode& operator=(const CaptureMode&) = delete;

 private:
  bool exchange() {
    const bool done = cudaThreadExchangeStreamCaptureMode(&other_) == cudaSuccess;
    if (!done) (void)cudaGetLastError();
    return done;
  }

  cudaStreamCaptureMode other_;
  const bool changed_;
};

Status current(int32_t* ordinal) { return checked(cudaGetDevice(ordinal), "cudaGetDevice"); }
Status set_current(int32_t ordinal) { return checked(cudaSetDevice(ordinal), "cudaSetDevice"); }

Status allocate(size_t size_bytes, void** memory) {
  const CaptureMode mode(cudaStreamCaptureModeThreadLocal);
  return checked(cudaMalloc(memory, size_bytes), "cudaMalloc");
}
void release(void* memory) {
  const CaptureMode mode(cudaStreamCaptureModeThreadLocal);
  (void)cudaFree(memory);
}

Status allocate_pinned(size_t size_bytes, void** memory) {
  const CaptureMode mode(cudaStreamCaptureModeThreadLocal);
  return checked(cudaHostAlloc(memory, size_bytes, cudaHostAllocMapped | cudaHostAllocPortable),
                 "cudaHostAlloc");
}
void release_pinned(void* memory) {
  const CaptureMode mode(cudaStreamCaptureModeThreadLocal);
  (void)cudaFreeHost(memory);
}

Status memory_kind(const void* pointer, MemoryKind* kind) {
  cudaPointerAttributes attributes{};
  GQ_TRY(checked(cudaPointerGetAttributes(&attributes, pointer), "cudaPointerGetAttributes"));
  int here = 0;
  GQ_TRY(current(&here));
  *kind = MemoryKind::device;
  if (attributes.type == cudaMemoryTypeUnregistered) *kind = MemoryKind::host;
  if (attributes.type == cudaMemoryTypeDevice && attributes.device != here) {
    *kind = MemoryKind::other;
  }
  return Status();
}

Status copy(void* to, const void* from, size_t size_bytes, StreamHandle stream) {
  return checked(cudaMemcpyAsync(to, from, size_bytes, cudaMemcpyDefault, stream_of(stream)),
                 "cudaMemcpyAsync");
}
Status clear(void* memory, size_t size_bytes, StreamHandle stream) {
  return checked(cudaMemsetAsync(memory, 0, size_bytes, stream_of(stream)), "cudaMemsetAsync");
}

Status make_stream(StreamHandle* stream) {
  int least = 0, greatest = 0;
  GQ_TRY(checked(cudaDeviceGetStreamPriorityRange(&least, &greatest),
                 "cudaDeviceGetStreamPriorityRange"));
  cudaStream_t made = nullptr;
  GQ_TRY(checked(cudaStreamCreateWithPriority(&made, cudaStreamNonBlocking, greatest),
                 "cudaStreamCreateWithPriority"));
  *stream = made;
  return Status();
}
void end_stream(StreamHandle stream) {
  if (stream != nullptr) (void)cudaStreamDestroy(stream_of(stream));
}

Status is_capturing(StreamHandle stream, bool* capturing) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  const cudaError_t error = cudaStreamIsCapturing(stream_of(stream), &status);
  const bool by_another = error == cudaErrorStreamCaptureImplicit;
  if (!by_another) GQ_TRY(checked(error, "cudaStreamIsCapturing"));
  *capturing = by_another || status != cudaStreamCaptureStatusNone;
  if (!by_another && status != cudaStreamCaptureStatusInvalidated) return Status();
  (void)cudaGetLastError();
  return fail(GQSGD_UNSUPPORTED, "stream %p takes nothing now: %s", stream,
              by_another ? "a stream that waits for this default stream is being captured"
                         : "an error has ended its capture; end that by cudaStreamEndCapture");
}

Status make_event(EventHandle* event) {
  cudaEvent_t made = nullptr;
  GQ_TRY(
      checked(cudaEventCreateWithFlags(&made, cudaEventDisableTiming), "cudaEventCreateWithFlags"));
  *event = made;
  return Status();
}
void end_event(EventHandle event) {
  if (event != nullptr) (void)cudaEventDestroy(event_of(event));
}
Status record(EventHandle event, StreamHandle stream) {
  return checked(cudaEventRecord(event_of(event), stream_of(stream)), "cudaEventRecord");
}
Status wait(StreamHandle stream, EventHandle event) {
  return checked(cudaStreamWaitEvent(stream_of(stream), event_of(event), 0), "cudaStreamWaitEvent");
}
Status record_in_graph(EventHandle event, StreamHandle stream) {
  return checked(
      cudaEventRecordWithFlags(event_of(event), stream_of(stream), cudaEventRecordExternal),
      "cudaEventRecordWithFlags");
}
Status wait_in_graph(StreamHandle stream, EventHandle event) {
  return checked(cudaStreamWaitEvent(stream_of(stream), event_of(event), cudaEventWaitExternal),
                 "cudaStreamWaitEvent");
}
/** No event that is queried was recorded in a capture, but as an external one. */
Status query(EventHandle event, bool* done) {
  const CaptureMode mode(cudaStreamCaptureModeRelaxed);
  const cudaError_t error = cudaEventQuery(event_of(event));
  *done = error == cudaSuccess;
  if (error != cudaErrorNotReady) return checked(error, "cudaEventQuery");
  (void)cudaGetLastError();
  return Status();
}

Status can_reach(int32_t from, int32_t to, bool* can) {
  int direct = 1;
  if (from != to) {
    GQ_TRY(checked(cudaDeviceCanAccessPeer(&direct, from, to), "cudaDeviceCanAccessPeer"));
  }
  *can = direct != 0;
  return Status();
}

/** A function of the driver, which the library does not link; null if the driver lacks it.
 *  `version` is that of CUDA which has it in this form. */
void* driver_function(const char* name, [[maybe_unused]] unsigned version) {
  void* found = nullptr;
  cudaDriverEntryPointQueryResult result = cudaDriverEntryPointSymbolNotFound;
#if CUDART_VERSION >= 12050
  const cudaError_t error =
      cudaGetDriverEntryPointByVersion(name, &found, version, cudaEnableDefault, &result);
#else
  const cudaError_t error = cudaGetDriverEntryPoint(name, &found, cudaEnableDefault, &result);
#endif
  if (error == cudaSuccess && result == cudaDriverEntryPointSuccess) return found;
  if (error != cudaSuccess) (void)cudaGetLastError();
  return nullptr;
}

/** As the runtime is: by the device's primary context. True where the driver does not say. */
bool is_in_use(int32_t ordinal) {
  static const auto state = reinterpret_cast<CUresult (*)(CUdevice, unsigned*, int*)>(
      driver_function("cuDevicePrimaryCtxGetState", 7000));
  unsigned flags = 0;
  int active = 1;
  if (state != nullptr && state(ordinal, &flags, &active) != CUDA_SUCCESS) return true;
  return active != 0;
}

Status load_kernels() {
  const CaptureMode mode(cudaStreamCaptureModeRelaxed);  // loading allocates
  return Status(cuda_load_kernels());
}

Status reach(int32_t ordinal, bool* direct) {
  int here = 0;
  GQ_TRY(current(&here));
  GQ_TRY(can_reach(here, ordinal, direct));
  if (!*direct) return Status();
  const CaptureMode mode(cudaStreamCaptureModeThreadLocal);
  const cudaError_t error = cudaDeviceEnablePeerAccess(ordinal, 0);
  *direct = error == cudaSuccess || error == cudaErrorPeerAccessAlreadyEnabled;
  if (!*direct && error != cudaErrorTooManyPeers) {
    return checked(error, "cudaDeviceEnablePeerAccess");
  }
  if (error != cudaSuccess) (void)cudaGetLastError();
  return Status();
}

/** Handles name their process by a number that means another one in another namespace. */
uint64_t pid_namespace() {
  struct stat about;
  return stat("/proc/self/ns/pid", &about) == 0 ? about.st_ino : 0;
}

static_assert(sizeof(cudaIpcMemHandle_t) == sizeof(IpcHandle));

Status export_memory(void* memory, IpcHandle* handle) {
  cudaIpcMemHandle_t made;
  GQ_TRY(checked(cudaIpcGetMemHandle(&made, memory), "cudaIpcGetMemHandle"));
  memcpy(handle->bytes, &made, sizeof made);
  return Status();
}
Status open_memory(const IpcHandle& handle, void** memory) {
  const CaptureMode mode(cudaStreamCaptureModeThreadLocal);
  cudaIpcMemHandle_t given;
  memcpy(&given, handle.bytes, sizeof given);
  return checked(cudaIpcOpenMemHandle(memory, given, cudaIpcMemLazyEnablePeerAccess),
                 "cudaIpcOpenMemHandle");
}
void close_memory(void* memory) {
  const CaptureMode mode(cudaStreamCaptureModeThreadLocal);
  if (memory != nullptr) (void)cudaIpcCloseMemHandle(memory);
}

Status register_page(void* page, size_t size_bytes, void** on_device) {
  const CaptureMode mode(cudaStreamCaptureModeThreadLocal);
  GQ_TRY(checked(
      cudaHostRegister(page, size_bytes, cudaHostRegisterMapped | cudaHostRegisterPortable),
      "cudaHostRegister"));
  const Status found =
      checked(cudaHostGetDevicePointer(on_device, page, 0), "cudaHostGetDevicePointer");
  if (!found.ok()) (void)cudaHostUnregister(page);
  return found;
}
void unregister_page(void* page) {
  const CaptureMode mode(cudaStreamCaptureModeThreadLocal);
  (void)cudaHostUnregister(page);
}

Status identity(int32_t ordinal, DeviceIdentity* identity) {
  cudaDeviceProp device;
  GQ_TRY(checked(cudaGetDeviceProperties(&device, ordinal), "cudaGetDeviceProperties"));
  static_assert(sizeof device.uuid == sizeof *identity);
  memcpy(identity->bytes, &device.uuid, sizeof device.uuid);
  return Status();
}

constexpr Ipc kIpc = {pid_namespace, export_memory,   open_memory, close_memory,
                      register_page, unregister_page, identity};

}  // namespace

const Device* cuda_device(const char** reason) {
  static const Device kDevice = {
      "cuda",
      &cuda_stages(),
      &cuda_batch_stages(),
      &cuda_agreement_stages(),
      current,
      set_current,
      allocate,
      release,
      allocate_pinned,
      release_pinned,
      memory_kind,
      copy,
      clear,
      make_stream,
      end_stream,
      is_capturing,
      make_event,
      end_event,
      record,
      wait,
      query,
      &cuda_number_stages(),
      record_in_graph,
      wait_in_graph,
      reach,
      &kIpc,
      &cuda_fused_stages(),
      can_reach,
      is_in_use,
      load_kernels,
  };
  int count = 0;  // left alone where there is no driver
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error == cudaSuccess && count > 0) return &kDevice;
  *reason = error == cudaSuccess ? "no CUDA device" : cudaGetErrorString(error);
  (void)cudaGetLastError();
  return nullptr;
}

const char* device_build() {
  static char text[64];
  static const int length = snprintf(text, sizeof text, "cuda %s", cuda_build());
  (void)length;
  return text;
}

void describe_devices(void (*line)(void* user, const char* text), void* user) {
  char text[512];
  const char* reason = "";
  if (cuda_device(&reason) == nullptr) {
    snprintf(text, sizeof text, "none: %s", reason);
    return line(user, text);
  }
  int count = 0;
  (void)cudaGetDeviceCount(&count);
  for (int ordinal = 0; ordinal < count; ++ordinal) {
    cudaDeviceProp device;
    const cudaError_t error = cudaGetDeviceProperties(&device, ordinal);
    if (error == cudaSuccess) {
      snprintf(text, sizeof text, "%d: %s, sm_%d%d, %d processors, %zu MiB", ordinal, device.name,
               device.major, device.minor, device.multiProcessorCount, device.totalGlobalMem >> 20);
    } else {
      snprintf(text, sizeof text, "%d: %s", ordinal, cudaGetErrorString(error));
    }
    line(user, text);
  }
}

}  // namespace gq
