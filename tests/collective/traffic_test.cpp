// Messages and bytes that the transports count equal the closed forms of docs/SCHEDULES.md, and a
// process reads its peers' codes where they lie.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/support/operation.h"
#include "tests/support/ranks.h"

namespace gq::test {
namespace {

constexpr size_t kChunk = 64;

struct Traffic {
  uint64_t messages;
  uint64_t bytes;
  bool operator==(const Traffic&) const = default;
};

/** What moving one part once costs: a message per chunk, whole words per message. */
Traffic part_once(size_t part, size_t value_count, size_t rank_count, size_t codes_per_word) {
  const size_t even = (value_count + rank_count - 1) / rank_count;
  const size_t shard = (even + 31) / 32 * 32;
  const size_t first = std::min(part * shard, value_count);
  const size_t count = std::min(shard, value_count - first);
  Traffic traffic{0, 0};
  for (size_t done = 0; done < count; done += kChunk) {
    const size_t in_chunk = std::min(kChunk, count - done);
    traffic.messages += 1;
    traffic.bytes += 4 * ((in_chunk + codes_per_word - 1) / codes_per_word);
  }
  return traffic;
}

/** What rank `rank` sends. Ring: every part but its own on the way of the reductions, every part
 * but its successor's on the way of the results. Direct: every part but its own once, its own to
 * all. */
Traffic closed_form(int32_t schedule, size_t rank, size_t value_count, size_t rank_count,
                    size_t codes_per_word) {
  Traffic sum{0, 0};
  for (size_t part = 0; part < rank_count; ++part) {
    const size_t successor = (rank + 1) % rank_count;
    size_t times = part == rank ? 0 : 1;
    if (schedule == GQSGD_SCHEDULE_RING && part != successor) times += 1;
    if (schedule == GQSGD_SCHEDULE_DIRECT && part == rank) times = rank_count - 1;
    const Traffic once = part_once(part, value_count, rank_count, codes_per_word);
    sum.messages += times * once.messages;
    sum.bytes += times * once.bytes;
  }
  return sum;
}

uint64_t stat(gqsgd_comm comm, const char* name) {
  uint64_t value = 0;
  if (gqsgd_comm_stat(comm, name, &value) != GQSGD_OK) throw std::runtime_error(name);
  return value;
}

std::string compare(const Traffic& counted, const Traffic& expected, const std::string& what) {
  if (counted == expected) return "";
  return what + ": " + std::to_string(counted.messages) + " messages and " +
         std::to_string(counted.bytes) + " bytes, expected " + std::to_string(expected.messages) +
         " and " + std::to_string(expected.bytes);
}

/** Runs one operation per preset, schedule and count, and holds the counters to the closed forms.
 */
std::string count_traffic(int rank, int rank_count, gqsgd_comm comm) {
  for (const char* preset : kPresets) {
    const size_t codes_per_word = std::string(preset) == "none" ? 1 : 4;
    for (int32_t schedule : kSchedules) {
      for (size_t value_count : {0, 1, 33, 1000, 4096}) {
        const Traffic before{stat(comm, "messages_sent"), stat(comm, "payload_bytes_sent")};
        const Operation operation{preset, schedule};
        Values result;
        std::string failure = allreduce(comm, operation, Values(value_count, 1.0f), &result);
        const Traffic after{stat(comm, "messages_sent"), stat(comm, "payload_bytes_sent")};
        const Traffic expected =
            closed_form(schedule, rank, value_count, rank_count, codes_per_word);
        if (failure.empty()) {
          failure =
              compare({after.messages - before.messages, after.bytes - before.bytes}, expected,
                      describe(operation) + ", " + std::to_string(value_count) + " values");
        }
        if (!failure.empty()) return failure;
      }
    }
  }
  return "";
}

class TrafficCounters : public testing::TestWithParam<int> {};

TEST_P(TrafficCounters, OfThreadsEqualTheClosedForms) {
  EXPECT_EQ(
      run_threads(GetParam(), "chunk_value_count=64",
                  [](int rank, gqsgd_comm comm) { return count_traffic(rank, GetParam(), comm); }),
      "");
}

TEST_P(TrafficCounters, OfProcessesEqualTheClosedFormsAndNothingIsCopied) {
  EXPECT_EQ(run_processes(GetParam(), "chunk_value_count=64",
                          [](int rank, gqsgd_comm comm) {
                            std::string failure = count_traffic(rank, GetParam(), comm);
                            const uint64_t copied = stat(comm, "payload_bytes_copied");
                            if (copied) failure += std::to_string(copied) + " bytes were copied";
                            return failure;
                          }),
            "");
}

INSTANTIATE_TEST_SUITE_P(Ranks, TrafficCounters, testing::Values(1, 2, 3, 4, 7, 9));

TEST(TrafficCounters, AnEvenCallMovesTwiceTheShareOfTheOthers) {
  // n = 4, 4,096 values of 8 bits: 2 (n - 1) / n of 4,096 bytes, in 2 (n - 1) parts.
  for (int32_t schedule : kSchedules) {
    const Traffic traffic = closed_form(schedule, 1, 4096, 4, 4);
    EXPECT_EQ(traffic.bytes, 2u * 3 * 4096 / 4);
    EXPECT_EQ(traffic.messages, 2u * 3 * 1024 / kChunk);
  }
}

TEST(TrafficCounters, EveryCallPublishesOneHeaderOf64Bytes) {
  EXPECT_EQ(run_threads(3, "",
                        [](int, gqsgd_comm comm) -> std::string {
                          Values result;
                          const uint64_t before = stat(comm, "header_bytes_sent");
                          const std::string failure =
                              allreduce(comm, {"paper-ge8"}, Values(10, 1.0f), &result);
                          const uint64_t bytes = stat(comm, "header_bytes_sent") - before;
                          if (!failure.empty()) return failure;
                          if (stat(comm, "calls") != 1) return "calls is not 1";
                          return bytes % 64 == 0 && bytes > 0 ? "" : std::to_string(bytes);
                        }),
            "");
}

}  // namespace
}  // namespace gq::test
