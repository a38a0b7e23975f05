// Open descriptors are counted in /proc; without it, the calls that open them report the failure.
#include "src/transport/process/descriptor_limit.h"

#include <dirent.h>
#include <errno.h>
#include <sys/resource.h>

#include "src/transport/system_failure.h"

namespace gq {

Status check_descriptor_limit(uint32_t needed, uint32_t ranks) {
  rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return Status();
  DIR* folder = opendir("/proc/self/fd");
  if (folder == nullptr) {
    if (errno != EMFILE && errno != ENFILE) return Status();
    return system_failure(errno, "a group of %u ranks needs %u descriptors", ranks, needed);
  }
  uint64_t open_count = 0;
  while (const dirent* entry = readdir(folder)) open_count += entry->d_name[0] != '.' ? 1 : 0;
  closedir(folder);
  open_count -= 1;  // the folder's own
  if (open_count + needed <= limit.rlim_cur) return Status();
  return fail(GQSGD_NO_RESOURCE,
              "needs %llu more descriptors, limit %llu: %u for a group of %u ranks, %llu are open "
              "(ulimit -n raises the limit)",
              static_cast<unsigned long long>(open_count + needed - limit.rlim_cur),
              static_cast<unsigned long long>(limit.rlim_cur), needed, ranks,
              static_cast<unsigned long long>(open_count));
}

}  // namespace gq
