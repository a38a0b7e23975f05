/* The functions themselves. No header that declares them is included, because headers rename some.
 */
#include "tests/api/faults/support/fail_nth.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdarg.h>
#include <stddef.h>

static __thread unsigned long calls_left;
static __thread const char *failed;

void fail_nth(unsigned long nth) { calls_left = nth; }

unsigned long fail_nth_pause(void) {
  const unsigned long left = calls_left;
  calls_left = 0;
  return left;
}

const char *fail_nth_failed(void) {
  const char *name = failed;
  failed = NULL;
  return name;
}

static int fails(const char *name, int error) {
  if (calls_left == 0 || --calls_left > 0) return 0;
  failed = name;
  errno = error;
  return 1;
}

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *memory, size_t size);
void *__libc_memalign(size_t alignment, size_t size);
void __libc_free(void *memory);
size_t malloc_usable_size(void *memory);

static _Atomic long bytes_in_use;

long heap_bytes_in_use(void) { return bytes_in_use; }

static void *counted(void *memory) {
  bytes_in_use += (long)malloc_usable_size(memory);
  return memory;
}

void *malloc(size_t size) { return fails("malloc", ENOMEM) ? NULL : counted(__libc_malloc(size)); }

void *calloc(size_t count, size_t size) {
  return fails("calloc", ENOMEM) ? NULL : counted(__libc_calloc(count, size));
}

void *realloc(void *memory, size_t size) {
  if (fails("realloc", ENOMEM)) return NULL;
  bytes_in_use -= (long)malloc_usable_size(memory);
  return counted(__libc_realloc(memory, size));
}

void *aligned_alloc(size_t alignment, size_t size) {
  return fails("aligned_alloc", ENOMEM) ? NULL : counted(__libc_memalign(alignment, size));
}

int posix_memalign(void **memory, size_t alignment, size_t size) {
  if (fails("posix_memalign", ENOMEM)) return ENOMEM;
  *memory = counted(__libc_memalign(alignment, size));
  return *memory == NULL ? ENOMEM : 0;
}

void free(void *memory) {
  const int error = errno;
  bytes_in_use -= (long)malloc_usable_size(memory);
  __libc_free(memory);
  errno = error;
}

/* A function that may fail with `error`, and otherwise is the C library's. */
#define MAY_FAIL(type, name, failure, error, parameters, arguments) \
  type name parameters {                                            \
    if (fails(#name, error)) return failure;                        \
    type(*real) parameters;                                         \
    *(void **)&real = dlsym(RTLD_NEXT, #name);                      \
    return real arguments;                                          \
  }

#define FAILED ((void *)-1)

MAY_FAIL(void *, mmap64, FAILED, ENOMEM,
         (void *address, size_t size, int protection, int flags, int file, long offset),
         (address, size, protection, flags, file, offset))
MAY_FAIL(int, madvise, -1, ENOMEM, (void *address, size_t size, int advice),
         (address, size, advice))
MAY_FAIL(int, memfd_create, -1, EMFILE, (const char *name, unsigned flags), (name, flags))
MAY_FAIL(int, ftruncate64, -1, EIO, (int file, long size), (file, size))
MAY_FAIL(int, fstat64, -1, EIO, (int file, void *about), (file, about))
MAY_FAIL(int, pipe2, -1, EMFILE, (int *ends, int flags), (ends, flags))
MAY_FAIL(void *, opendir, NULL, EMFILE, (const char *name), (name))
MAY_FAIL(int, socket, -1, ENFILE, (int domain, int type, int protocol), (domain, type, protocol))
MAY_FAIL(int, bind, -1, ENOBUFS, (int file, const void *address, unsigned size),
         (file, address, size))
MAY_FAIL(int, listen, -1, ENOBUFS, (int file, int backlog), (file, backlog))
MAY_FAIL(int, connect, -1, ENOBUFS, (int file, const void *address, unsigned size),
         (file, address, size))
MAY_FAIL(int, accept4, -1, EMFILE, (int file, void *address, unsigned *size, int flags),
         (file, address, size, flags))
MAY_FAIL(int, getsockopt, -1, ENOBUFS, (int file, int level, int name, void *value, unsigned *size),
         (file, level, name, value, size))
MAY_FAIL(long, sendmsg, -1, ENOBUFS, (int file, const void *message, int flags),
         (file, message, flags))
MAY_FAIL(long, recvmsg, -1, ENOBUFS, (int file, void *message, int flags), (file, message, flags))
MAY_FAIL(int, poll, -1, ENOMEM, (void *files, unsigned long count, int timeout_ms),
         (files, count, timeout_ms))
MAY_FAIL(long, getrandom, -1, EIO, (void *bytes, size_t size, unsigned flags), (bytes, size, flags))

/* Threads are refused with a number of their own and no errno. */
MAY_FAIL(int, pthread_create, 11 /* EAGAIN */, EAGAIN,
         (void *thread, const void *attributes, void *(*body)(void *), void *argument),
         (thread, attributes, body, argument))

static __thread long uninterrupted_bytes;

void interrupt_longer_commits(long size_bytes) { uninterrupted_bytes = size_bytes; }

int fallocate64(int file, int mode, long offset, long size) {
  if (fails("fallocate64", ENOSPC)) return -1;
  if (uninterrupted_bytes > 0 && size > uninterrupted_bytes) {
    errno = EINTR;
    return -1;
  }
  int (*real)(int, int, long, long);
  *(void **)&real = dlsym(RTLD_NEXT, "fallocate64");
  return real(file, mode, offset, size);
}

int fcntl64(int file, int command, ...) {
  va_list list;
  va_start(list, command);
  void *argument = va_arg(list, void *);
  va_end(list);
  if (fails("fcntl64", EMFILE)) return -1;
  int (*real)(int, int, ...);
  *(void **)&real = dlsym(RTLD_NEXT, "fcntl64");
  return real(file, command, argument);
}

void *mremap(void *address, size_t old_size, size_t new_size, int flags, ...) {
  if (fails("mremap", ENOMEM)) return FAILED;
  void *(*real)(void *, size_t, size_t, int, ...);
  *(void **)&real = dlsym(RTLD_NEXT, "mremap");
  return real(address, old_size, new_size, flags);
}
