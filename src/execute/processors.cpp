// The affinity of the calling thread, and what the C library knows of caches.
#include "src/execute/processors.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>

#include "src/support/fnv1a.h"

namespace gq {
namespace {

// Of larger caches other processors have a share, and those of virtual machines are the host's.
constexpr long kCacheBytesMax = 32 << 20;

}  // namespace

Processors processors_here() {
  Processors here;
  cpu_set_t set;
  CPU_ZERO(&set);
  // Fails on machines of more processors than a cpu_set_t has: then they are taken to be shared.
  if (sched_getaffinity(0, sizeof set, &set) == 0) {
    here.count = static_cast<uint32_t>(std::max(1, CPU_COUNT(&set)));
  } else {
    here.count = static_cast<uint32_t>(std::max(1L, sysconf(_SC_NPROCESSORS_ONLN)));
  }
  Fnv1a32 digest;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &set)) digest.add_whole(static_cast<uint32_t>(cpu));
  }
  here.digest = digest.hash();
  long bytes = 0;
#ifdef _SC_LEVEL3_CACHE_SIZE
  bytes = sysconf(_SC_LEVEL3_CACHE_SIZE);
  if (bytes <= 0) bytes = sysconf(_SC_LEVEL2_CACHE_SIZE);
#endif
  here.cache_bytes = bytes > 0 ? static_cast<size_t>(std::min(bytes, kCacheBytesMax)) : 0;
  return here;
}

}  // namespace gq
