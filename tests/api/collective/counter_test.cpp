// What decides the noise of a call: seed, stream_id, step and index, and the communicator's counter
// that stands in for the latter two.
#include <gtest/gtest.h>

#include "tests/support/operation.h"
#include "tests/support/ranks.h"

namespace gq::test {
namespace {

constexpr int kRanks = 3;
constexpr size_t kValues = 500;

const std::vector<Values>& inputs() {
  static const std::vector<Values> values = gradients(kRanks, kValues, 9);
  return values;
}

/** Share of values that differ. Two independent noises differ nearly everywhere. */
double difference_share(const Values& a, const Values& b) {
  size_t count = 0;
  for (size_t e = 0; e < a.size(); ++e) count += a[e] != b[e];
  return static_cast<double>(count) / static_cast<double>(a.size());
}

class Noise : public testing::TestWithParam<std::tuple<const char*, gqsgd_schedule>> {
 protected:
  Operation operation(uint64_t step = 0, uint64_t index = 0, const char* more = "") const {
    return {std::string(std::get<0>(GetParam())) + more,
            std::get<1>(GetParam()),
            GQSGD_MEAN,
            false,
            step,
            index};
  }
};

TEST_P(Noise, IsTheSameAtTheSamePlace) {
  const Values first = simulate(operation(7, 3), inputs());
  EXPECT_EQ(difference(simulate(operation(7, 3), inputs()), first), "");
}

TEST_P(Noise, DiffersBetweenSeedsStreamsStepsAndIndices) {
  const Values base = simulate(operation(7, 3), inputs());
  const Values others[] = {
      simulate(operation(8, 3), inputs()),
      simulate(operation(7, 4), inputs()),
      simulate(operation(3, 7), inputs()),
      simulate(operation(7, 3, ",seed=1"), inputs()),
      simulate(operation(7, 3, ",seed=18446744073709551615"), inputs()),
      simulate(operation(7, 3), inputs(), "stream_id=1"),
      simulate(operation(7, 3), inputs(), "stream_id=4294967295"),
      simulate(operation(4294967295, 65535), inputs()),
  };
  for (const Values& other : others) EXPECT_GT(difference_share(base, other), 0.2);
}

TEST_P(Noise, OfACountedCallIsThatOfItsStep) {
  const auto counted_calls = [&](int rank, gqsgd_comm comm) -> std::string {
    for (uint64_t step = 0; step < 5; ++step) {
      uint64_t counter = 99;
      if (gqsgd_comm_counter(comm, &counter) != GQSGD_OK || counter != step) return "counter";
      Values result;
      std::string failure = allreduce(comm, operation(), inputs()[rank], &result, true);
      if (failure.empty()) failure = difference(result, simulate(operation(step), inputs()));
      if (!failure.empty()) return "step " + std::to_string(step) + ": " + failure;
    }
    return "";
  };
  EXPECT_EQ(run_threads(kRanks, "", counted_calls), "");
  EXPECT_EQ(run_processes(kRanks, "", counted_calls), "");
}

TEST_P(Noise, IsThatOfTheStreamOnThreads) {
  const Values expected = simulate(operation(2), inputs(), "stream_id=77");
  EXPECT_EQ(run_threads(kRanks, "stream_id=77",
                        [&](int rank, gqsgd_comm comm) {
                          Values result;
                          const std::string failure =
                              allreduce(comm, operation(2), inputs()[rank], &result);
                          return failure.empty() ? difference(result, expected) : failure;
                        }),
            "");
}

INSTANTIATE_TEST_SUITE_P(Formats, Noise,
                         testing::Combine(testing::Values("paper-gl8", "paper-ge8", "paper-gl4",
                                                          "paper-ge4"),
                                          testing::ValuesIn(kSchedules)),
                         [](const auto& info) {
                           const std::string preset = std::get<0>(info.param);
                           return preset.substr(6) + "_" + schedule_name(std::get<1>(info.param));
                         });

TEST(Counter, ResumesBitForBitAfterItWasSavedAndSet) {
  const Operation operation{"paper-ge8"};
  const auto resume = [&](int rank, gqsgd_comm comm) -> std::string {
    Values before, after;
    uint64_t saved = 0;
    gqsgd_comm_set_counter(comm, 1000);
    for (int call = 0; call < 3; ++call) {
      const std::string failure = allreduce(comm, operation, inputs()[rank], &before, true);
      if (!failure.empty()) return failure;
      if (call == 1) gqsgd_comm_counter(comm, &saved);
    }
    if (saved != 1002) return "the counter is " + std::to_string(saved) + ", not 1002";
    gqsgd_comm_set_counter(comm, saved);
    const std::string failure = allreduce(comm, operation, inputs()[rank], &after, true);
    return failure.empty() ? difference(after, before) : failure;
  };
  EXPECT_EQ(run_threads(kRanks, "", resume), "");
  EXPECT_EQ(run_processes(kRanks, "", resume), "");
}

TEST(Counter, StaysWhereTheCallerGivesThePlace) {
  EXPECT_EQ(run_threads(2, "",
                        [](int rank, gqsgd_comm comm) -> std::string {
                          Values result;
                          uint64_t counter = 99;
                          const std::string failure = allreduce(
                              comm, {"paper-gl8", GQSGD_SCHEDULE_RING, GQSGD_MEAN, false, 40},
                              inputs()[rank], &result);
                          gqsgd_comm_counter(comm, &counter);
                          return !failure.empty() ? failure : counter ? "it advanced" : "";
                        }),
            "");
}

TEST(Counter, RefusesAStepBeyond32Bits) {
  EXPECT_EQ(run_threads(1, "",
                        [](int, gqsgd_comm comm) -> std::string {
                          const uint64_t beyond = uint64_t{1} << 32;
                          const bool most_is_fine =
                              gqsgd_comm_set_counter(comm, beyond - 1) == GQSGD_OK;
                          const bool more_is_refused =
                              gqsgd_comm_set_counter(comm, beyond) == GQSGD_INVALID_ARGUMENT;
                          return most_is_fine && more_is_refused ? "" : gqsgd_last_error();
                        }),
            "");
}

}  // namespace
}  // namespace gq::test
