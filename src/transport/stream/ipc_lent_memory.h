// Memory of a device that other processes may have open while its owner leaves: it is freed when
// they have left too.
#ifndef GQ_TRANSPORT_STREAM_IPC_LENT_MEMORY_H
#define GQ_TRANSPORT_STREAM_IPC_LENT_MEMORY_H

#include <stdint.h>

#include <deque>
#include <memory>

#include "src/gpu/device/buffer.h"
#include "src/support/posix/fork.h"
#include "src/transport/process/descriptor.h"

namespace gq {

/** What one rank has lent to its group and does not use any more, oldest first. */
struct LentMemory {
  LentMemory() = default;
  ~LentMemory();
  LentMemory(const LentMemory&) = delete;
  LentMemory& operator=(const LentMemory&) = delete;

  /** Takes over what peers may have open; without memory to note it, it is never freed. */
  void take(DeviceBuffer* lent);

  const Device* device = nullptr;
  int32_t ordinal = 0;
  std::deque<DeviceBuffer> memory;
  uint64_t made_in = fork_generation();
  /** Of each rank, once the owner has left (liveness_pipe.h): peers close memory before they hang
   * up. */
  std::unique_ptr<Descriptor[]> liveness_pipes;
  uint32_t ranks = 0;
  std::unique_ptr<LentMemory> next;
};

/** Frees `lent` when all peers have hung up: now, or in a later call of these two functions. The
 *  end of the process frees it as well. Never waits. */
void keep_until_returned(std::unique_ptr<LentMemory> lent);
void free_returned();

}  // namespace gq

#endif
