// Files of constants: short texts, read whole.
#include "src/api/costs_file.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <new>

#include "src/api/text_items.h"
#include "src/support/log.h"

namespace gq {
namespace {

// gqsgd-calibrate writes 4 KiB; the rest is room for comments.
constexpr size_t kTextMaxBytes = 16384;
constexpr size_t kPathMaxBytes = 4096;

/** The file's text into `text`; its length, or -1 with errno. */
ssize_t read_text(const char* path, char* text) {
  FILE* file = fopen(path, "re");
  if (file == nullptr) return -1;
  errno = 0;
  const size_t size_bytes = fread(text, 1, kTextMaxBytes, file);
  if (ferror(file) == 0 && size_bytes == kTextMaxBytes) errno = EFBIG;
  const int cause = errno;
  fclose(file);
  errno = cause;
  return cause == 0 ? static_cast<ssize_t>(size_bytes) : -1;
}

Status read_file(std::string_view path, CostConstants* constants) {
  char name[kPathMaxBytes];
  if (path.size() >= sizeof name)
    return fail(GQSGD_INVALID_ARGUMENT, "a path of %zu bytes", path.size());
  memcpy(name, path.data(), path.size());
  name[path.size()] = '\0';
  char text[kTextMaxBytes];
  const ssize_t size_bytes = read_text(name, text);
  if (size_bytes < 0) {
    return fail(GQSGD_INVALID_ARGUMENT,
                "costs=%.*s cannot be read: %s; gqsgd-calibrate writes such a file", shown(path),
                path.data(), strerrordesc_np(errno));
  }
  const Status status = parse_costs({text, static_cast<size_t>(size_bytes)}, constants);
  if (status.ok()) return status;
  char sentence[512];
  snprintf(sentence, sizeof sentence, "%s", last_error());
  return fail(status.code(), "costs=%.*s: %s", shown(path), path.data(), sentence);
}

}  // namespace

Status read_costs(std::string_view path, std::shared_ptr<const CostConstants>* costs) {
  CostConstants constants = built_in_costs();
  if (path != "builtin") GQ_TRY(read_file(path, &constants));
  try {
    *costs = std::make_shared<const CostConstants>(constants);
  } catch (const std::bad_alloc&) {
    return fail(GQSGD_NO_MEMORY, "no memory for the constants of the cost model");
  }
  return Status();
}

std::shared_ptr<const CostConstants> costs_of_environment() {
  const char* path = secure_getenv("GQSGD_COSTS");
  std::shared_ptr<const CostConstants> costs;
  if (path == nullptr || path[0] == '\0') return costs;
  if (read_costs(path, &costs).ok()) return costs;
  log_line("GQSGD_COSTS: %s; schedule auto goes on without constants, as direct", last_error());
  return nullptr;
}

}  // namespace gq
