// gqsgd_config as the library reads it: every field checked, enumerations as numbers.
#ifndef GQ_API_CONFIG_H
#define GQ_API_CONFIG_H

#include <stdint.h>
#include <string.h>

#include "src/support/status.h"

namespace gq {

/** The number in an enumeration of the C ABI. Callers may pass any number, and C++ leaves undefined
 *  what an enumeration with a number that it cannot hold is, but not what its bytes are. */
template <typename Enumeration>
int32_t number_of(const Enumeration& value) {
  static_assert(sizeof value == sizeof(int32_t), "enumerations of the C ABI have 32 bits");
  int32_t number = 0;
  memcpy(&number, &value, sizeof number);
  return number;
}

struct CallConfig {
  int32_t schedule = GQSGD_SCHEDULE_AUTO;
  gqsgd_step_source step_source = GQSGD_STEP_COUNTER;
  uint64_t step = 0;
  uint64_t index = 0;
  const uint32_t* device_step = nullptr;
};

/** The caller's config, the default one for NULL. After a failure *out has the caller's step
 * source, the counter where that is wrong too: a refused call takes a step as the other ranks'
 * does. */
Status read_config(const gqsgd_config* config, CallConfig* out);

/** Of calls on host memory. */
Status check_step_on_host(const CallConfig& config);

/** Of calls that have one schedule: `function` takes AUTO. */
Status check_one_schedule(const char* function, const CallConfig& config);

}  // namespace gq

#endif
