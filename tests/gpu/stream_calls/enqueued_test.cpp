// A call on a stream that is busy with other work. The same for ranks over NCCL and for threads.
#include <gtest/gtest.h>

#include <atomic>

#include "tests/gpu/stream_calls/stream_group.h"

namespace gq::test {
namespace {

Operation operation() { return {"paper-ge8", GQSGD_SCHEDULE_DIRECT}; }

std::string make_and_wait(gqsgd_comm comm, const Values& input) {
  StreamCall made(input);
  if (made.make(comm, operation()) != GQSGD_OK) return gqsgd_last_error();
  return made.wait() ? "" : "the stream does not get through";
}

/** After a call of its signature, for which the host waits over NCCL. */
TEST(Enqueued, Call_ReturnsBeforeItIsExecuted) {
  const StreamGroup group(2);
  const std::vector<Values> inputs = gradients(2, 500, 3);
  EXPECT_EQ(group.run([&](int rank, gqsgd_comm comm) -> std::string {
    const Values& input = inputs[static_cast<size_t>(rank)];
    const std::string failure = make_and_wait(comm, input);
    if (!failure.empty()) return failure;
    StreamCall made(input);
    std::atomic<bool> seen{false};
    made.stream.await(seen);
    if (made.make(comm, operation()) != GQSGD_OK) return gqsgd_last_error();
    const bool waits = made.untouched() && !made.wait(10);
    seen = true;
    if (!waits) return made.wait(), "it was not enqueued behind the stream's work";
    return made.wait() && !made.untouched() ? "" : "it was not executed";
  }),
            "");
}

}  // namespace
}  // namespace gq::test
