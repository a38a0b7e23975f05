// Reads /proc, where the kernel counts.
#include "tools/soak_lib/soak_usage.h"

#include <dirent.h>
#include <malloc.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

namespace gq::tools {
namespace {

size_t entries_of(const char* folder) {
  DIR* const opened = opendir(folder);
  if (opened == nullptr) return 0;
  size_t count = 0;
  while (const dirent* const entry = readdir(opened)) {
    if (entry->d_name[0] != '.') ++count;
  }
  closedir(opened);
  return count;
}

size_t lines_of(const char* file) {
  FILE* const opened = fopen(file, "r");
  if (opened == nullptr) return 0;
  size_t count = 0;
  for (int character = fgetc(opened); character != EOF; character = fgetc(opened)) {
    if (character == '\n') ++count;
  }
  fclose(opened);
  return count;
}

/** Of the line "NAME:   123 kB". */
size_t bytes_in(const char* file, const char* name) {
  FILE* const opened = fopen(file, "r");
  if (opened == nullptr) return 0;
  size_t kibibytes = 0;
  char line[256];
  while (fgets(line, sizeof line, opened) != nullptr) {
    if (strncmp(line, name, strlen(name)) != 0) continue;
    kibibytes = strtoull(line + strlen(name), nullptr, 10);
    break;
  }
  fclose(opened);
  return kibibytes * 1024;
}

}  // namespace

Usage usage_now() {
  Usage usage;
  malloc_trim(0);
  const struct mallinfo2 heap = mallinfo2();
  usage.heap = heap.uordblks + heap.hblkhd;
  usage.resident = bytes_in("/proc/self/smaps_rollup", "Rss:");
  usage.proportional = bytes_in("/proc/self/smaps_rollup", "Pss:");
  usage.descriptors = entries_of("/proc/self/fd");
  usage.threads = entries_of("/proc/self/task");
  usage.mappings = lines_of("/proc/self/maps");
  return usage;
}

bool Leak::add(const std::string& name) {
  bool* const leak = name == "memory"       ? &memory
                     : name == "descriptor" ? &descriptor
                     : name == "thread"     ? &thread
                     : name == "mapping"    ? &mapping
                                            : nullptr;
  if (leak != nullptr) *leak = true;
  return leak != nullptr;
}

void Leak::after_call() const {
  if (!memory) return;
  // A compiler leaves out what is never read.
  volatile unsigned char* const lost = static_cast<unsigned char*>(malloc(1024));
  for (size_t k = 0; lost != nullptr && k < 1024; ++k) lost[k] = 1;
}

void Leak::after_round() const {
  if (descriptor && dup(STDIN_FILENO) < 0) perror("soak-worker: dup");
  if (thread) std::thread([] { pause(); }).detach();
  if (!mapping) return;
  // Neighbours of equal protection would be one mapping.
  static bool is_writable = false;
  is_writable = !is_writable;
  mmap(nullptr, 4096, is_writable ? PROT_READ | PROT_WRITE : PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS,
       -1, 0);
}

}  // namespace gq::tools
