// What a rank of a group of processes shows of its memory on a device: written by its owner alone,
// read by all. Memory layout only; the rules are in ipc_streams.h.
#ifndef GQ_TRANSPORT_STREAM_IPC_ARENA_H
#define GQ_TRANSPORT_STREAM_IPC_ARENA_H

#include <stdint.h>

#include <atomic>

#include "src/gpu/device/device.h"

namespace gq {

enum class IpcAnswer : uint32_t { none = 0, yes = 1, no = 2 };

/** All zero at the start. */
struct alignas(64) IpcArena {
  std::atomic<IpcAnswer> exports{IpcAnswer::none};  ///< whether peers may open the owner's memory
  std::atomic<IpcAnswer> opens{IpcAnswer::none};    ///< whether the owner could open all peers'
  std::atomic<uint64_t> domain{0};                  ///< of its process (src/gpu/device/device.h)
  /** Number of exports so far; `handle` and `size_bytes` are of the newest. */
  std::atomic<uint64_t> generation{0};
  std::atomic<uint64_t> size_bytes{0};
  std::atomic<uint64_t> shown_bytes{0};  ///< where in it the words of this exchange begin
  IpcHandle handle{};
  char why[192]{};  ///< a sentence to an answer that is no
};

}  // namespace gq

#endif
