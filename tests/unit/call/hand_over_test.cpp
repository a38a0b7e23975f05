// A result that one rank gives the others of a new group, and what it leaves of its endpoint.
#include "src/call/hand_over.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "tests/support/succeeds.h"
#include "tests/unit/execute/copying_transport.h"

namespace gq {
namespace {

// docs/FORMAT.md, section 18: the digest is 0 in a group that has just been continued.
TEST(HandOver, OddNumberOfBytes_SameBytes_AndAnEndpointWithoutCalls) {
  Wire wire;
  Endpoint endpoint;
  endpoint.set_transport(std::make_unique<CopyingTransport>(&wire, 0, 1));
  endpoint.stages = cpu_stages_named("scalar");
  endpoint.chunk_value_count = 64;
  endpoint.timeout_ms = 20000;
  endpoint.result.on = true;
  std::vector<unsigned char> bytes(1001);
  for (size_t k = 0; k < bytes.size(); ++k) bytes[k] = static_cast<unsigned char>(k * 7 + 1);
  const std::vector<unsigned char> given = bytes;
  const KeepGoing keep_going{[](void*) { return true; }, nullptr};
  EXPECT_TRUE(test::succeeds(hand_over(endpoint, true, &bytes, keep_going)));
  EXPECT_EQ(bytes, given);
  EXPECT_EQ(endpoint.calls, 0u);
  EXPECT_EQ(endpoint.result.digest, 0u);
}

}  // namespace
}  // namespace gq
