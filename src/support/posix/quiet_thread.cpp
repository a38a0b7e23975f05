// Stack, signals and name of a thread of the library.
#include "src/support/posix/quiet_thread.h"

#include <stdio.h>
#include <string.h>

#include "src/support/posix/signals_blocked.h"

namespace gq {
namespace {

// An allreduce needs some 20 KiB. The rest is for the thread-local memory of the host program's
// libraries, which the C library takes from here.
constexpr size_t kStackBytes = 512 << 10;

}  // namespace

Status QuietThread::begin(void* (*body)(void*), void* argument, uint32_t rank,
                          const char* purpose) {
  pthread_attr_t attributes;
  int error = pthread_attr_init(&attributes);
  if (error == 0) {
    pthread_attr_setstacksize(&attributes, kStackBytes);
    const SignalsBlocked blocked;
    error = pthread_create(&thread_, &attributes, body, argument);
    pthread_attr_destroy(&attributes);
  }
  if (error != 0) {
    return fail(GQSGD_NO_RESOURCE,
                "rank %u: no thread %s (%s); limits are RLIMIT_NPROC, pids.max of the "
                "control group, and memory for a stack of %zu KiB",
                rank, purpose, strerrordesc_np(error), kStackBytes >> 10);
  }
  is_there_ = true;
  char name[16];  // as long as the kernel keeps
  snprintf(name, sizeof name, "gqsgd rank %u", rank);
  pthread_setname_np(thread_, name);
  return Status();
}

void QuietThread::join() {
  if (is_there_) pthread_join(thread_, nullptr);
  is_there_ = false;
}

}  // namespace gq
