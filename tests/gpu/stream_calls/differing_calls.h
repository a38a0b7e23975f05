// Calls on streams whose arguments differ on one rank, and what they return on each.
#ifndef GQ_TESTS_GPU_STREAM_CALLS_DIFFERING_CALLS_H
#define GQ_TESTS_GPU_STREAM_CALLS_DIFFERING_CALLS_H

#include <gqsgd.h>

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "tests/support/host_device/device_group.h"
#include "tests/support/operation.h"

namespace gq::test {

inline constexpr size_t kUsualCount = 700;

/** The call that all ranks make where none differs. */
Operation usual();

struct CallOutcome {
  gqsgd_status status;
  std::string sentence;
  bool untouched;
};

/** Changes the usual call of a rank. */
using Change = std::function<void(int rank, Operation* call, size_t* value_count)>;

/** Every rank makes the call that `change` makes of the usual one. */
std::vector<CallOutcome> make_calls(const DeviceGroup& group, const Change& change);

/** Rank 1 differs in the field that is the key. */
const std::map<std::string, Change>& differences();

}  // namespace gq::test

#endif
