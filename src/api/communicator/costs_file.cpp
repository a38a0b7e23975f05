// Files of constants: short files, read whole.
#include "src/api/communicator/costs_file.h"

#include <stdlib.h>
#include <string.h>

#include <new>

#include "src/api/quantizer/spec_items.h"
#include "src/support/log.h"
#include "src/support/posix/regular_file.h"

namespace gq {
namespace {

// gqsgd-calibrate writes 4 KiB; the rest is for comments.
constexpr size_t kSpecMaxBytes = 16384;
constexpr size_t kPathMaxBytes = 4096;

Status read_file(std::string_view path, CostConstants* constants) {
  char name[kPathMaxBytes];
  if (path.size() >= sizeof name)
    return fail(GQSGD_INVALID_ARGUMENT, "costs names a path of %zu bytes; the longest has %zu",
                path.size(), sizeof name - 1);
  memcpy(name, path.data(), path.size());
  name[path.size()] = '\0';
  char text[kSpecMaxBytes];
  size_t size_bytes = 0;
  if (const char* reason = read_regular_file(name, text, sizeof text, &size_bytes)) {
    return fail(GQSGD_INVALID_ARGUMENT,
                "costs=%s cannot be read: %s; gqsgd-calibrate writes such a file, and measure and "
                "builtin need none",
                Shown(path, Shown::kPathBytes).text(), reason);
  }
  const Status status = parse_costs({text, size_bytes}, constants);
  if (status.ok()) return status;
  return fail(status.code(), "costs=%s: %s", Shown(path, Shown::kPathBytes).text(),
              status.sentence());
}

}  // namespace

Status read_costs(std::string_view value, AutoOptions* options) {
  CostConstants constants = built_in_costs();
  if (value == "measure") {
    options->costs.reset();
    options->measures = true;
    return Status();
  }
  if (value.find(';') != std::string_view::npos) {
    GQ_TRY(parse_costs(value, &constants));
  } else if (value != "builtin") {
    GQ_TRY(read_file(value, &constants));
  }
  try {
    options->costs = std::make_shared<const CostConstants>(constants);
  } catch (const std::bad_alloc&) {
    return fail(GQSGD_NO_MEMORY, "no memory for the constants of the cost model");
  }
  options->measures = false;
  return Status();
}

void read_costs_of_environment(AutoOptions* options) {
  const char* value = secure_getenv("GQSGD_COSTS");
  if (value == nullptr || value[0] == '\0') return;
  const Status read = read_costs(value, options);
  if (read.ok()) return;
  log_line(GQSGD_LOG_WARN, "GQSGD_COSTS: %s; schedule auto goes on without constants, as direct",
           read.sentence());
}

}  // namespace gq
