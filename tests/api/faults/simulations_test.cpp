// What a simulation refuses before it runs.
#include <gqsgd_model.h>
#include <sys/resource.h>

#include <algorithm>
#include <vector>

#include "tests/api/faults/support/call.h"

namespace gq::test {
namespace {

TEST(Simulations, OfTooManyRanksAreRefusedBeforeTheyAreMade) {
  constexpr int32_t kMany = 1 << 20;
  const std::vector<const void*> send(kMany);
  const std::vector<void*> recv(kMany);
  Call call(0);
  rusage before, after;
  getrusage(RUSAGE_SELF, &before);
  EXPECT_TRUE(
      is(outcome_of(gqsgd_simulate(call.quantizer, kMany, send.data(), recv.data(), 0,
                                   GQSGD_FLOAT32, GQSGD_SUM, config_of(GQSGD_SCHEDULE_RING), "")),
         GQSGD_INVALID_ARGUMENT, "1 to 8192 ranks"));
  getrusage(RUSAGE_SELF, &after);
  EXPECT_LT(after.ru_maxrss - before.ru_maxrss, 256 << 10) << "KiB";
}

TEST(Simulations, WhoseBuffersOverlapAreRefused) {
  const size_t count = 1000;
  Values values(6 * count, 1.0f);
  const auto at = [&](double place) { return values.data() + static_cast<size_t>(place * count); };
  struct {
    const void* send[3];
    void* recv[3];
    const char* sentence;  // nullptr: allowed
  } cases[] = {
      {{at(0), at(0), at(0)}, {at(1), at(2), at(3)}, nullptr},
      {{at(0), at(1), at(2)}, {at(0), at(1), at(2)}, nullptr},
      {{at(0), at(0.5), at(1)}, {nullptr, at(3), nullptr}, nullptr},
      {{at(0), at(1), at(2)}, {at(3), at(3), at(4)}, "recv.[01]. and recv.[01]. overlap"},
      {{at(0), at(1), at(2)}, {at(3), nullptr, at(3.5)}, "recv.0. and recv.2. overlap"},
      {{at(0), at(1), at(2)}, {at(1), at(3), at(4)}, "send.1. and recv.0. overlap"},
      {{at(0), at(0), at(2)}, {at(0), at(3), at(4)}, "send.1. and recv.0. overlap"},
      {{at(0), at(1), at(2)}, {nullptr, nullptr, at(0.5)}, "send.0. and recv.2. overlap"},
      {{at(0), at(1), at(2)}, {at(0.5), at(3), at(4)}, "send and recv overlap"},
  };
  Call call(0);
  for (const auto& one : cases) {
    std::fill(values.begin(), values.end(), 1.0f);
    const Outcome outcome =
        outcome_of(gqsgd_simulate(call.quantizer, 3, one.send, one.recv, count, call.dtype,
                                  GQSGD_SUM, config_of(GQSGD_SCHEDULE_RING), ""));
    if (one.sentence == nullptr) {
      EXPECT_TRUE(is_ok(outcome));
      continue;
    }
    EXPECT_TRUE(is(outcome, GQSGD_INVALID_ARGUMENT, one.sentence));
    EXPECT_EQ(values, Values(values.size(), 1.0f));
  }
}

}  // namespace
}  // namespace gq::test
