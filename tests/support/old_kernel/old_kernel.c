/* fcntl itself. No header that declares it is included, because headers rename it. */
#include "tests/support/old_kernel/old_kernel.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdarg.h>

enum { kAddSeals = 1033, kSealFutureWrite = 0x0010 };

static int without_seal;

void run_without_write_seal(int without) { without_seal = without; }

int fcntl64(int file, int command, ...) {
  va_list list;
  va_start(list, command);
  void *argument = va_arg(list, void *);
  va_end(list);
  if (without_seal && command == kAddSeals && ((long)argument & kSealFutureWrite) != 0) {
    errno = EINVAL;
    return -1;
  }
  int (*real)(int, int, ...);
  *(void **)&real = dlsym(RTLD_NEXT, "fcntl64");
  return real(file, command, argument);
}
