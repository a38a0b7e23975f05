// What collectives need of an accelerator: its stages, memory, streams and events, behind one
// table. Nothing here waits but wait_for(), which has a deadline; nothing but allocation happens
// before the stream reaches it.
#ifndef GQ_GPU_DEVICE_DEVICE_H
#define GQ_GPU_DEVICE_DEVICE_H

#include <stddef.h>
#include <stdint.h>

#include "kernels/agreement.h"
#include "kernels/fused.h"
#include "kernels/numbers.h"
#include "kernels/stages.h"
#include "src/support/status.h"

namespace gq {

/** A stream or an event of the device; a null stream is its default one. */
using StreamHandle = void*;
using EventHandle = void*;

/** The default stream of whichever thread uses it: cudaStreamPerThread. */
inline const StreamHandle kStreamPerThread = reinterpret_cast<StreamHandle>(2);

/** What a caller's pointer leads to. */
enum class MemoryKind : uint8_t {
  host,    ///< plain memory, which a device cannot be relied on to reach
  device,  ///< memory that the device at hand reaches: its own, managed, or pinned on the host
  other,   ///< another device's
};

/** Names memory of a device to other processes of the machine, which open it there. */
struct IpcHandle {
  unsigned char bytes[64];
};

/** Memory is exported in whole units: what shares one with other memory would export that too. */
inline constexpr size_t kExportUnitBytes = size_t{2} << 20;

/** Of a device, the same in all processes of the machine. */
struct DeviceIdentity {
  unsigned char bytes[16];
};

/** Memory of a device that several processes reach. What is exported is given back by its owner
 *  when the others have closed it, not before. */
struct Ipc {
  /** Only processes of one domain can open each other's memory. */
  uint64_t (*domain)();
  /** `memory` is what allocate() returned for a number of whole units. */
  Status (*export_memory)(void* memory, IpcHandle* handle);
  /** Not in the process that exported it. */
  Status (*open_memory)(const IpcHandle& handle, void** memory);
  void (*close_memory)(void* memory);
  /** A page of the host that processes share: kernels of this one reach it at `*on_device`. */
  Status (*register_page)(void* page, size_t size_bytes, void** on_device);
  void (*unregister_page)(void* page);
  Status (*identity)(int32_t ordinal, DeviceIdentity* identity);
};

/** One kind of accelerator. Functions work on the thread's current device; those that end something
 *  take null as well and never fail. Failures are BACKEND with the backend's own words, NO_MEMORY
 *  where memory is short. */
struct Device {
  const char* name;
  const Stages* stages;
  const BatchStages* batches;
  const AgreementStages* agreement;

  Status (*current)(int32_t* ordinal);
  Status (*set_current)(int32_t ordinal);

  Status (*allocate)(size_t size_bytes, void** memory);
  void (*release)(void* memory);
  /** Memory of the host that kernels read and write at the same address. */
  Status (*allocate_pinned)(size_t size_bytes, void** memory);
  void (*release_pinned)(void* memory);
  Status (*memory_kind)(const void* pointer, MemoryKind* kind);

  Status (*copy)(void* to, const void* from, size_t size_bytes, StreamHandle stream);
  Status (*clear)(void* memory, size_t size_bytes, StreamHandle stream);

  /** Its kernels run before those of other streams where a device can run one alone: other ranks
   *  wait for messages. */
  Status (*make_stream)(StreamHandle* stream);
  void (*end_stream)(StreamHandle stream);
  /** UNSUPPORTED, and true, where captures keep a stream from taking anything: its own, which an
   *  error has ended, or for a default stream that of another one. */
  Status (*is_capturing)(StreamHandle stream, bool* capturing);

  Status (*make_event)(EventHandle* event);
  void (*end_event)(EventHandle event);
  Status (*record)(EventHandle event, StreamHandle stream);
  /** What is enqueued on `stream` from now on comes after what `event` was recorded behind. */
  Status (*wait)(StreamHandle stream, EventHandle event);
  /** Whether everything before the record is done; also true of an event never recorded. */
  Status (*query)(EventHandle event, bool* done);

  const NumberStages* numbers;

  /** record() and wait() that become part of the graph that `stream` is captured for: each replay
   *  records, and waits for what was recorded last, inside the graph or not. */
  Status (*record_in_graph)(EventHandle event, StreamHandle stream);
  Status (*wait_in_graph)(StreamHandle stream, EventHandle event);

  /** Copies between that device and the current one go directly from now on, where the machine
   *  can and there is room for one more peer; otherwise they work all the same. */
  Status (*reach)(int32_t ordinal, bool* direct);

  const Ipc* ipc;  ///< null where no other process reaches this one's memory
  const FusedStages* fused;
  /** Whether kernels on device `from` can read and write the memory of device `to`: where reach()
   *  has been called there and found a direct way, if they are two. */
  Status (*can_reach)(int32_t from, int32_t to, bool* can);
  /** Whether this process uses that device already. set_current() makes it do so, which takes
   *  hundreds of MiB there. */
  bool (*is_in_use)(int32_t ordinal);
  /** Of all stages, so that no first launch waits for kernels that run, which may be waiting for
   *  other ranks. */
  Status (*load_kernels)();
};

/** The accelerator of this process: CUDA's where the library has it and the machine has a driver
 *  and a device, else null. *reason, if not null, is why there is none. */
const Device* process_device(const char** reason);

/** The same for a caller's stream, which requires device memory: UNSUPPORTED if there is none. */
Status device_of(StreamHandle stream, const Device** device);

/** Takes the place of what process_device() finds: tests bring a double. */
void use_device(const Device* device);

/** CUDA's table where the build has it; src/gpu/device/cuda.cpp. */
const Device* cuda_device(const char** reason);

/** What the library was built with of CUDA, for people. */
const char* device_build();

/** Calls `line` with a line about each device of this machine, or about why there is none. */
void describe_devices(void (*line)(void* user, const char* text), void* user);

/** The host sleeps in short naps until `event` has come (*done), or `deadline_us` of the monotonic
 *  clock (src/support/clock.h), or until `look`, called between naps, fails. */
Status wait_for(const Device& device, EventHandle event, uint64_t deadline_us,
                Status (*look)(void* argument), void* argument, bool* done);

/** Makes a device current for as long as it lives, then the one before. One that this process does
 *  not use is not made current again: a thread that never chose a device has the first, and each
 *  process of a machine would take memory there. */
class OnDevice {
 public:
  explicit OnDevice(const Device& device) : device_(device) {}
  ~OnDevice();
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;

  Status enter(int32_t ordinal);

 private:
  const Device& device_;
  int32_t before_ = 0;
  bool changed_ = false;
};

}  // namespace gq

#endif
