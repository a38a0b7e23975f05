// Kinds of system errors: out of descriptors, out of memory, and the rest.
#include "src/transport/system_failure.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/sysinfo.h>

namespace gq {
namespace {

unsigned long long limit_of(int resource) {
  rlimit limit;
  return getrlimit(static_cast<__rlimit_resource_t>(resource), &limit) == 0 ? limit.rlim_cur : 0;
}

unsigned long long free_memory_mib() {
  struct sysinfo info;
  return sysinfo(&info) == 0 ? info.freeram * 1ull * info.mem_unit >> 20 : 0;
}

Status memory_failure(const char* what, const char* reason) {
  const unsigned long long limit_bytes = limit_of(RLIMIT_AS);
  if (limit_bytes == RLIM_INFINITY) {
    return fail(GQSGD_NO_MEMORY, "%s: %s (%llu MiB of memory are free)", what, reason,
                free_memory_mib());
  }
  return fail(GQSGD_NO_MEMORY,
              "%s: %s (%llu MiB of memory are free, and ulimit -v allows this process %llu MiB)",
              what, reason, free_memory_mib(), limit_bytes >> 20);
}

}  // namespace

Status system_failure(int error, const char* format, ...) {
  char what[256];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(what, sizeof what, format, arguments);
  va_end(arguments);
  char buffer[128];
  const char* reason = strerror_r(error, buffer, sizeof buffer);
  switch (error) {
    case EMFILE:
    case ENFILE:
    case ETOOMANYREFS:
      return fail(GQSGD_NO_RESOURCE, "%s: %s (at most %llu descriptors; ulimit -n raises it)", what,
                  reason, limit_of(RLIMIT_NOFILE));
    case ENOMEM:
    case ENOSPC:
    case ENOBUFS:
      return memory_failure(what, reason);
    default:
      return fail(GQSGD_SYSTEM, "%s: %s (errno %d)", what, reason, error);
  }
}

}  // namespace gq
