// Each rank waits for its stream before the outcome counts.
#include "tests/gpu/stream_calls/differing_calls.h"

#include <gtest/gtest.h>

#include "tests/gpu/nccl/group.h"

namespace gq::test {

Operation usual() { return {"paper-gl8", GQSGD_SCHEDULE_DIRECT}; }

std::vector<CallOutcome> make_calls(const DeviceGroup& group, const Change& change) {
  std::vector<CallOutcome> outcomes(static_cast<size_t>(group.size()));
  const std::string failures = group.run([&](int rank, gqsgd_comm comm) -> std::string {
    Operation call = usual();
    size_t value_count = kUsualCount;
    change(rank, &call, &value_count);
    const std::vector<Values> inputs = gradients(group.size(), value_count, 9);
    StreamCall made(inputs[static_cast<size_t>(rank)]);
    const gqsgd_status status = made.make(comm, call);
    const std::string sentence = gqsgd_last_error();
    if (!made.wait()) return "the stream does not get through";
    outcomes[static_cast<size_t>(rank)] = {status, sentence, made.untouched()};
    return "";
  });
  EXPECT_EQ(failures, "");
  return outcomes;
}

const std::map<std::string, Change>& differences() {
  static const std::map<std::string, Change> all = {
      {"count",
       [](int rank, Operation*, size_t* value_count) { *value_count += rank == 1 ? 64 : 0; }},
      {"levels",
       [](int rank, Operation* call, size_t*) {
         if (rank == 1) call->quantizer = "paper-ge8";
       }},
      {"schedule",
       [](int rank, Operation* call, size_t*) {
         if (rank == 1) call->schedule = GQSGD_SCHEDULE_RING;
       }},
      {"op",
       [](int rank, Operation* call, size_t*) {
         if (rank == 1) call->op = GQSGD_SUM;
       }},
      {"step", [](int rank, Operation* call, size_t*) { call->step = rank == 1 ? 8 : 7; }},
  };
  return all;
}

}  // namespace gq::test
