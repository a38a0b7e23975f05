// The kernel lists what an epoll descriptor watches as lines "tfd: 15 events: ..".
#include "src/transport/ucx/watched_descriptors.h"

#include <stdio.h>

namespace gq {
namespace {

// A worker's descriptor watches those of its network interfaces, which watch their connections.
constexpr int kDepthMax = 3;

void visit_below(int epoll, int depth, void (*visit)(void*, int), void* user) {
  char path[48];
  snprintf(path, sizeof path, "/proc/self/fdinfo/%d", epoll);
  FILE* const lines = depth < kDepthMax ? fopen(path, "re") : nullptr;
  if (lines == nullptr) return;
  char line[256];
  while (fgets(line, sizeof line, lines) != nullptr) {
    int descriptor = -1;
    if (sscanf(line, "tfd: %d", &descriptor) != 1) continue;
    visit(user, descriptor);
    visit_below(descriptor, depth + 1, visit, user);  // of what is no epoll no line matches
  }
  fclose(lines);
}

}  // namespace

void visit_watched(int epoll, void (*visit)(void*, int), void* user) {
  visit_below(epoll, 0, visit, user);
}

}  // namespace gq
