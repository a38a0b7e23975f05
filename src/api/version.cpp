// Version, build and status strings, and where log lines go.
#include <stdio.h>

#include "include/gqsgd.h"
#include "kernels/stages.h"
#include "src/api/last_error.h"
#include "src/gpu/device/device.h"
#include "src/support/log.h"
#include "src/transport/control_message.h"

namespace gq {
namespace {

struct StatusString {
  gqsgd_status code;
  const char* name;
  const char* meaning;
};

constexpr StatusString kStatusStrings[] = {
#define GQ_STATUS_TEXT(name, number, meaning) {number, #name, meaning},
    GQSGD_STATUS_TABLE(GQ_STATUS_TEXT)
#undef GQ_STATUS_TEXT
};

const StatusString& text_of(gqsgd_status status) {
  static constexpr StatusString kUnknown{-1, "UNKNOWN", "not a status of this library"};
  for (const StatusString& text : kStatusStrings) {
    if (text.code == status) return text;
  }
  return kUnknown;
}

struct BuildInfo {
  char line[256];

  BuildInfo() {
    const char* refused = nullptr;
    const Stages* stages = cpu_stages(&refused);
    snprintf(line, sizeof line, "libgqsgd %d.%d.%d, wire version %u, %s %s, cpu stages %s, %s",
             GQSGD_VERSION_MAJOR, GQSGD_VERSION_MINOR, GQSGD_VERSION_PATCH, kWireVersion,
#if defined(__clang__)
             "clang", __clang_version__,
#else
             "gcc", __VERSION__,
#endif
             stages != nullptr ? stages->name : "unsupported (GQSGD_FORCE_ISA)", device_build());
  }
};

}  // namespace
}  // namespace gq

const char* gqsgd_status_name(gqsgd_status status) { return gq::text_of(status).name; }

const char* gqsgd_status_string(gqsgd_status status) { return gq::text_of(status).meaning; }

const char* gqsgd_last_error(void) { return gq::last_error(); }

int32_t gqsgd_version(void) {
  return GQSGD_VERSION_MAJOR * 10000 + GQSGD_VERSION_MINOR * 100 + GQSGD_VERSION_PATCH;
}

const char* gqsgd_build_info(void) {
  static const gq::BuildInfo info;
  return info.line;
}

void gqsgd_set_log(gqsgd_log_level level, gqsgd_log_callback callback, void* user) {
  gq::set_log(level, callback, user);
}
