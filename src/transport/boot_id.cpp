// Read from the kernel, which has a new number for each boot.
#include "src/transport/boot_id.h"

#include <stdio.h>

namespace gq {

void read_boot_id(const char* otherwise, char* text, size_t capacity_bytes) {
  FILE* file = fopen("/proc/sys/kernel/random/boot_id", "re");
  const bool is_read = file != nullptr && fgets(text, static_cast<int>(capacity_bytes), file);
  if (file != nullptr) fclose(file);
  if (!is_read) snprintf(text, capacity_bytes, "%s", otherwise);
}

}  // namespace gq
