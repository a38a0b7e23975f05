// The worker's descriptor watches those of the interfaces that its engine uses. The descriptor of
// UCX's thread watches those of all interfaces, and the listeners: it is known by what both watch.
#include "src/transport/ucx/ucx_descriptors.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <string>

#include "src/transport/ucx/watched_descriptors.h"

namespace gq {
namespace {

constexpr const char* kSharedMemory = "/dev/shm/ucx_shm_";

void keep_from_programs(int descriptor) {
  const int flags = fcntl(descriptor, F_GETFD);
  if (flags >= 0) fcntl(descriptor, F_SETFD, flags | FD_CLOEXEC);
}

/** What a descriptor is of, as the kernel names it: a path, or "anon_inode:[eventpoll]". */
std::string name_of(int descriptor) {
  char path[48];
  snprintf(path, sizeof path, "/proc/self/fd/%d", descriptor);
  char name[256];
  const ssize_t size_bytes = readlink(path, name, sizeof name);
  return size_bytes < 0 ? std::string() : std::string(name, static_cast<size_t>(size_bytes));
}

/** 0 of what is no socket. */
ino_t inode_of_socket(int descriptor) {
  struct stat state;
  const bool is_socket = fstat(descriptor, &state) == 0 && S_ISSOCK(state.st_mode);
  return is_socket ? state.st_ino : 0;
}

std::vector<int> open_descriptors() {
  std::vector<int> found;
  DIR* const folder = opendir("/proc/self/fd");
  if (folder == nullptr) return found;
  while (const dirent* const entry = readdir(folder)) {
    if (entry->d_name[0] != '.') found.push_back(atoi(entry->d_name));
  }
  closedir(folder);
  return found;
}

std::vector<int> watched_by(int epoll) {
  std::vector<int> found;
  visit_watched(
      epoll,
      [](void* user, int descriptor) {
        static_cast<std::vector<int>*>(user)->push_back(descriptor);
      },
      &found);
  return found;
}

bool contains(const std::vector<int>& descriptors, int one) {
  return std::find(descriptors.begin(), descriptors.end(), one) != descriptors.end();
}

bool has_common(const std::vector<int>& some, const std::vector<int>& others) {
  return std::any_of(some.begin(), some.end(), [&](int one) { return contains(others, one); });
}

}  // namespace

void UcxDescriptors::note_sockets() {
  for (const int descriptor : open_descriptors()) {
    if (const ino_t inode = inode_of_socket(descriptor); inode != 0) foreign_.push_back(inode);
  }
}

void UcxDescriptors::guard(int event_fd) {
  const std::vector<int> interfaces = watched_by(event_fd);
  std::vector<int> all = interfaces, sockets = interfaces;
  all.push_back(event_fd);
  for (const int descriptor : open_descriptors()) {
    const std::string name = name_of(descriptor);
    if (name.compare(0, strlen(kSharedMemory), kSharedMemory) == 0) all.push_back(descriptor);
    const std::vector<int> watched = watched_by(descriptor);
    // What watches the worker's own is this library's.
    if (contains(all, descriptor) || contains(watched, event_fd)) continue;
    if (!has_common(watched, interfaces)) continue;
    all.push_back(descriptor);
    all.insert(all.end(), watched.begin(), watched.end());
    for (const int one : watched) {
      const ino_t inode = inode_of_socket(one);
      const bool is_new = std::find(foreign_.begin(), foreign_.end(), inode) == foreign_.end();
      if (inode != 0 && is_new) sockets.push_back(one);
    }
  }
  std::for_each(all.begin(), all.end(), keep_from_programs);
  sockets_.set(sockets);
}

}  // namespace gq
