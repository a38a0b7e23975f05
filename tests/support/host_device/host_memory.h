// Memory of the double of a device: blocks that know which device they are on. Those of whole units
// are shared memory, which other processes of the test can open, as those of CUDA can.
#ifndef GQ_TESTS_SUPPORT_HOST_DEVICE_HOST_MEMORY_H
#define GQ_TESTS_SUPPORT_HOST_DEVICE_HOST_MEMORY_H

#include <cstddef>
#include <cstdint>

#include "src/gpu/device/device.h"

namespace gq::test {

Status allocate_block(size_t size_bytes, int32_t ordinal, void** memory);
/** Takes null as well. */
void release_block(void* memory);

/** The device whose block a pointer leads into, or kNoBlock. */
inline constexpr int32_t kNoBlock = -1;
int32_t ordinal_of_block(const void* pointer);

const Ipc& host_ipc();
/** Of the memory that a handle of host_ipc() names. */
size_t shared_size(const IpcHandle& handle);

/** Faults of this process, for as long as they are set. */
void refuse_exports(bool refuse);
void refuse_opens(bool refuse);
void refuse_pages(bool refuse);
/** Where this process is, for those who ask whether they could open its memory. */
void move_to_domain(uint64_t domain);

/** Blocks of other processes that this one has open. */
size_t blocks_open();
/** Pages of the host that kernels of this process reach. */
size_t pages_registered();
/** How often a block was released that another process had open. */
size_t released_while_open();

}  // namespace gq::test

#endif
