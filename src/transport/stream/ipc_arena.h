// What a rank of a group of processes shows of its memory on a device: written by its owner alone,
// read by all. Memory layout only; the rules are in ipc_streams.h and ipc_fused.h.
#ifndef GQ_TRANSPORT_STREAM_IPC_ARENA_H
#define GQ_TRANSPORT_STREAM_IPC_ARENA_H

#include <stdint.h>

#include <atomic>

#include "src/gpu/device/device.h"

namespace gq {

enum class IpcAnswer : uint32_t { none = 0, yes = 1, no = 2 };

/** What a rank says about itself, once, and a sentence where that is no. */
struct IpcReply {
  std::atomic<IpcAnswer> answer{IpcAnswer::none};
  char why[192]{};

  void say_yes() { answer.store(IpcAnswer::yes, std::memory_order_release); }
  void say_no(const Status& reason);
  bool is_yes() const { return answer.load(std::memory_order_acquire) == IpcAnswer::yes; }
  /** The sentence as it may be logged: another process has written it. */
  void copy_why(char (&text)[sizeof why]) const;
};

/** What a rank has for fused kernels. */
struct IpcFusedPart {
  IpcReply has_kernels;                  ///< behind all below
  IpcReply opens;                        ///< whether it could open `buffers` of all peers
  std::atomic<uint32_t> block_count{0};  ///< that its device has for a kernel of the group
  DeviceIdentity device{};
  IpcHandle buffers{};  ///< a FusedBuffers
};

/** All zero at the start. */
struct alignas(64) IpcArena {
  IpcReply exports;                 ///< whether peers may open the owner's memory
  IpcReply opens;                   ///< whether the owner could open all peers'
  std::atomic<uint64_t> domain{0};  ///< of its process (src/gpu/device/device.h)
  /** Number of exports so far; `handle` and `size_bytes` are of the newest. */
  std::atomic<uint64_t> generation{0};
  std::atomic<uint64_t> size_bytes{0};
  std::atomic<uint64_t> shown_bytes{0};  ///< where in it the words of this exchange begin
  IpcHandle handle{};
  IpcFusedPart fused;
};

}  // namespace gq

#endif
