// Reads the kernel's generator until all bytes are there.
#include "src/transport/bootstrap/random_bytes.h"

#include <errno.h>
#include <sys/random.h>

#include "src/transport/system_failure.h"

namespace gq {

Status random_bytes(void* bytes, size_t size_bytes) {
  auto* next = static_cast<unsigned char*>(bytes);
  while (size_bytes > 0) {
    const ssize_t count = getrandom(next, size_bytes, 0);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return system_failure(errno, "getrandom of %zu bytes", size_bytes);
    next += count;
    size_bytes -= static_cast<size_t>(count);
  }
  return Status();
}

}  // namespace gq
