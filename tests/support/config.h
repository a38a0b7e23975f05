// Configs of calls as tests write them, in the place of the argument.
#ifndef GQ_TESTS_SUPPORT_CONFIG_H
#define GQ_TESTS_SUPPORT_CONFIG_H

#include <gqsgd.h>

#include <cstring>

namespace gq::test {

/** A config that is passed as it stands: gqsgd_allreduce(.., config_at(3, 0), nullptr). */
struct Config : gqsgd_config {
  Config() : gqsgd_config GQSGD_CONFIG_INIT {}
  operator const gqsgd_config*() const { return this; }
};

/** The counter's step. */
inline Config config_of(gqsgd_schedule schedule) {
  Config config;
  config.schedule = schedule;
  return config;
}

/** A given step. */
inline Config config_at(uint64_t step, uint64_t index,
                        gqsgd_schedule schedule = GQSGD_SCHEDULE_AUTO) {
  Config config = config_of(schedule);
  config.step_source = GQSGD_STEP_GIVEN;
  config.step = step;
  config.index = index;
  return config;
}

/** Step and index in memory of a device. */
inline Config config_on_device(const uint32_t* device_step,
                               gqsgd_schedule schedule = GQSGD_SCHEDULE_AUTO) {
  Config config = config_of(schedule);
  config.step_source = GQSGD_STEP_DEVICE;
  config.device_step = device_step;
  return config;
}

/** An enumeration with any number in it, as C lets callers pass. */
template <typename Enumeration>
Enumeration with_number(int32_t number) {
  Enumeration value;
  static_assert(sizeof value == sizeof number);
  std::memcpy(&value, &number, sizeof value);
  return value;
}

}  // namespace gq::test

#endif
