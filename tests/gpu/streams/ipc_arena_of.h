// What this process shows its peers of its memory on a device, found from outside the library: for
// tests that scribble there.
#ifndef GQ_TESTS_GPU_STREAMS_IPC_ARENA_OF_H
#define GQ_TESTS_GPU_STREAMS_IPC_ARENA_OF_H

#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <string>

#include "src/transport/shared_memory/control.h"
#include "src/transport/stream/ipc_arena.h"

namespace gq::test {

/** Of the only group of processes that this process is in. Its own segment is writable, and begins
 *  with the control block; those of peers are not. */
inline IpcArena* ipc_arena_of_this_process(uint32_t ranks) {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    const bool is_control = line.find("/memfd:gqsgd (") != std::string::npos &&
                            line.find(" rw-s 00000000 ") != std::string::npos;
    if (!is_control) continue;
    const uintptr_t control = std::stoull(line, nullptr, 16);
    return reinterpret_cast<IpcArena*>(control + control_bytes(ranks));
  }
  abort();
}

}  // namespace gq::test

#endif
