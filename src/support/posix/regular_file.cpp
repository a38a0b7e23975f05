// stat, open, fstat and read, none of which waits.
#include "src/support/posix/regular_file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

namespace gq {
namespace {

const char* irregular(mode_t mode) {
  switch (mode & S_IFMT) {
    case S_IFREG:
      return nullptr;
    case S_IFIFO:
      return "it is a FIFO, not a regular file";
    case S_IFSOCK:
      return "it is a socket, not a regular file";
    case S_IFDIR:
      return "it is a directory, not a regular file";
    case S_IFCHR:
    case S_IFBLK:
      return "it is a device, not a regular file";
    default:
      return "it is not a regular file";
  }
}

const char* read_all(int file, char* text, size_t capacity_bytes, size_t* size_bytes) {
  *size_bytes = 0;
  while (*size_bytes < capacity_bytes) {
    const ssize_t count = read(file, text + *size_bytes, capacity_bytes - *size_bytes);
    if (count == 0) return nullptr;
    if (count < 0 && errno != EINTR) return strerrordesc_np(errno);
    if (count > 0) *size_bytes += static_cast<size_t>(count);
  }
  return strerrordesc_np(EFBIG);
}

}  // namespace

const char* irregular_file(const char* path) {
  struct stat about;
  return stat(path, &about) == 0 ? irregular(about.st_mode) : nullptr;
}

const char* read_regular_file(const char* path, char* text, size_t capacity_bytes,
                              size_t* size_bytes) {
  if (const char* reason = irregular_file(path)) return reason;
  // What has become of it meanwhile is not waited for, and looked at again.
  const int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (file < 0) return strerrordesc_np(errno);
  struct stat about;
  const char* reason = fstat(file, &about) == 0 ? irregular(about.st_mode) : strerrordesc_np(errno);
  if (reason == nullptr) reason = read_all(file, text, capacity_bytes, size_bytes);
  close(file);
  return reason;
}

}  // namespace gq
