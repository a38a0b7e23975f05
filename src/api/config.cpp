// Reads gqsgd_config, whose size may be that of a later version of the header.
#include "src/api/config.h"

#include <inttypes.h>
#include <stddef.h>

#include "src/api/check.h"
#include "src/support/names.h"

namespace gq {
namespace {

// Of version 0.1; fields that later versions append have a meaning when they are 0.
constexpr size_t kConfigBytes = offsetof(gqsgd_config, device_step) + sizeof(uint32_t*);
static_assert(sizeof(gqsgd_config) == kConfigBytes);

// A size that was never set is found before so many bytes are read.
constexpr size_t kConfigMaxBytes = 4096;

constexpr const char* kStepSourceNames[] = {"GQSGD_STEP_COUNTER", "GQSGD_STEP_GIVEN",
                                            "GQSGD_STEP_DEVICE"};

Status check_config_size(const gqsgd_config* config) {
  size_t size_bytes = 0;
  memcpy(&size_bytes, config, sizeof size_bytes);
  if (size_bytes < kConfigBytes || size_bytes > kConfigMaxBytes) {
    return fail(GQSGD_INVALID_ARGUMENT,
                "config.size_bytes is %zu; it must be sizeof(gqsgd_config), which is %zu in this "
                "version: begin with GQSGD_CONFIG_INIT",
                size_bytes, kConfigBytes);
  }
  const unsigned char* bytes = reinterpret_cast<const unsigned char*>(config);
  for (size_t k = kConfigBytes; k < size_bytes; ++k) {
    if (bytes[k] == 0) continue;
    return fail(GQSGD_INVALID_ARGUMENT,
                "config.size_bytes is %zu, and byte %zu of the config is not 0: it belongs to a "
                "field that this version, whose config has %zu bytes, does not know",
                size_bytes, k, kConfigBytes);
  }
  return Status();
}

Status check_source(int32_t number) {
  if (number >= GQSGD_STEP_COUNTER && number <= GQSGD_STEP_DEVICE) return Status();
  return fail(GQSGD_INVALID_ARGUMENT,
              "config.step_source is %" PRId32
              "; allowed are GQSGD_STEP_COUNTER (0), GQSGD_STEP_GIVEN (1) and GQSGD_STEP_DEVICE "
              "(2)",
              number);
}

Status check_schedule(int32_t number) {
  if (number >= GQSGD_SCHEDULE_AUTO && number <= GQSGD_SCHEDULE_SPARSE) return Status();
  return fail(GQSGD_INVALID_ARGUMENT,
              "config.schedule is %" PRId32 "; allowed are the GQSGD_SCHEDULE_* constants, 0 to %d",
              number, GQSGD_SCHEDULE_SPARSE);
}

/** What the step source does not select is 0: a step that is not read would be a mistake. */
Status check_unselected(const CallConfig& config) {
  const char* const source = kStepSourceNames[config.step_source];
  const bool given = config.step_source == GQSGD_STEP_GIVEN;
  if (!given && (config.step != 0 || config.index != 0)) {
    const bool is_step = config.step != 0;
    return fail(GQSGD_INVALID_ARGUMENT,
                "config.%s is %" PRIu64
                ", but config.step_source is %s; hint: GQSGD_STEP_GIVEN takes step and index from "
                "the config",
                is_step ? "step" : "index", is_step ? config.step : config.index, source);
  }
  if (config.step_source == GQSGD_STEP_DEVICE || config.device_step == nullptr) return Status();
  return fail(GQSGD_INVALID_ARGUMENT,
              "config.device_step is %p, but config.step_source is %s; hint: GQSGD_STEP_DEVICE "
              "takes step and index from memory of a device",
              static_cast<const void*>(config.device_step), source);
}

}  // namespace

Status read_config(const gqsgd_config* config, CallConfig* out) {
  *out = CallConfig();
  if (config == nullptr) return Status();
  GQ_TRY(check_config_size(config));
  const int32_t source = number_of(config->step_source);
  GQ_TRY(check_source(source));
  out->step_source = static_cast<gqsgd_step_source>(source);
  out->step = config->step;
  out->index = config->index;
  out->device_step = config->device_step;
  out->schedule = number_of(config->schedule);
  GQ_TRY(check_schedule(out->schedule));
  GQ_TRY(check_unselected(*out));
  return out->step_source == GQSGD_STEP_GIVEN ? check_step(out->step, out->index) : Status();
}

Status check_step_on_host(const CallConfig& config) {
  if (config.step_source != GQSGD_STEP_DEVICE) return Status();
  return fail(GQSGD_INVALID_ARGUMENT,
              "config.step_source is GQSGD_STEP_DEVICE, which goes with a stream and memory of its "
              "device; on host memory use GQSGD_STEP_GIVEN or GQSGD_STEP_COUNTER");
}

Status check_one_schedule(const char* function, const CallConfig& config) {
  if (config.schedule == GQSGD_SCHEDULE_AUTO) return Status();
  return fail(GQSGD_INVALID_ARGUMENT,
              "config.schedule is %s (%" PRId32
              "), but %s has one schedule; use GQSGD_SCHEDULE_AUTO (0)",
              name_in(names_of(kScheduleList), static_cast<size_t>(config.schedule)),
              config.schedule, function);
}

}  // namespace gq
