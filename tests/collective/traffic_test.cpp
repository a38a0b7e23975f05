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

/** A run of values that a rank sends, cut into chunks. */
struct Run {
  size_t first;
  size_t last;  ///< one past
};

/** A call cut into parts, each a multiple of 32 values but the last. */
class Parts {
 public:
  Parts(size_t value_count, size_t part_count) : value_count_(value_count) {
    const size_t even = (value_count + part_count - 1) / part_count;
    part_ = (even + 31) / 32 * 32;
  }
  Run run(size_t first_part, size_t part_count = 1) const {
    return {std::min(first_part * part_, value_count_),
            std::min((first_part + part_count) * part_, value_count_)};
  }

 private:
  size_t value_count_;
  size_t part_;
};

/** Every part but the own one on the way of the reductions, every part but the successor's on the
 * way of the results. */
std::vector<Run> ring_runs(size_t rank, size_t rank_count, size_t value_count) {
  const Parts parts(value_count, rank_count);
  std::vector<Run> runs;
  for (size_t part = 0; part < rank_count; ++part) {
    if (part != rank) runs.push_back(parts.run(part));
    if (part != (rank + 1) % rank_count) runs.push_back(parts.run(part));
  }
  return runs;
}

/** Every other part once to its owner, the own one to all others. */
std::vector<Run> direct_runs(size_t rank, size_t rank_count, size_t value_count) {
  const Parts parts(value_count, rank_count);
  std::vector<Run> runs;
  for (size_t part = 0; part < rank_count; ++part) {
    if (part != rank) runs.insert(runs.end(), {parts.run(part), parts.run(rank)});
  }
  return runs;
}

/** The whole call to the parent and to each child. */
std::vector<Run> tree_runs(size_t rank, size_t rank_count, size_t value_count) {
  std::vector<Run> runs;
  if (rank != 0) runs.push_back({0, value_count});
  for (size_t half = 1; rank + half < rank_count && rank % (2 * half) == 0; half *= 2) {
    runs.push_back({0, value_count});
  }
  return runs;
}

/** Halves of halves to the partners, the same back; a folded pair sends both halves of the call
 * each way. */
std::vector<Run> butterfly_runs(size_t rank, size_t rank_count, size_t value_count) {
  size_t core = 1;
  while (2 * core <= rank_count) core *= 2;
  std::vector<Run> runs;
  const Parts parts(value_count, core);
  if (rank >= core || rank + core < rank_count) {
    runs = {parts.run(0, core / 2), parts.run(core / 2, core / 2)};
  }
  if (rank >= core) return runs;
  for (size_t held = core / 2; held >= 1; held /= 2) {
    runs.push_back(parts.run((rank ^ held) / held * held, held));
    runs.push_back(parts.run(rank / held * held, held));
  }
  return runs;
}

/** A message per chunk, whole words per message. */
Traffic closed_form(int32_t schedule, size_t rank, size_t rank_count, size_t value_count,
                    size_t codes_per_word) {
  const auto runs_of = schedule == GQSGD_SCHEDULE_RING        ? ring_runs
                       : schedule == GQSGD_SCHEDULE_TREE      ? tree_runs
                       : schedule == GQSGD_SCHEDULE_BUTTERFLY ? butterfly_runs
                                                              : direct_runs;
  Traffic traffic{0, 0};
  if (rank_count == 1) return traffic;
  for (const Run& run : runs_of(rank, rank_count, value_count)) {
    for (size_t first = run.first; first < run.last; first += kChunk) {
      const size_t in_chunk = std::min(kChunk, run.last - first);
      traffic.messages += 1;
      traffic.bytes += 4 * ((in_chunk + codes_per_word - 1) / codes_per_word);
    }
  }
  return traffic;
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

size_t codes_per_word_of(const std::string& preset) {
  if (preset == "none") return 1;
  return preset.back() == '4' ? 8 : 4;
}

/** Runs one operation per preset, schedule and count, and holds the counters to the closed forms.
 */
std::string count_traffic(int rank, int rank_count, gqsgd_comm comm) {
  for (const char* preset : kPresets) {
    const size_t codes_per_word = codes_per_word_of(preset);
    for (int32_t schedule : kSchedules) {
      for (size_t value_count : {0, 1, 33, 1000, 4096}) {
        const Traffic before{stat(comm, "messages_sent"), stat(comm, "payload_bytes_sent")};
        const Operation operation{preset, schedule};
        Values result;
        std::string failure = allreduce(comm, operation, Values(value_count, 1.0f), &result);
        const Traffic after{stat(comm, "messages_sent"), stat(comm, "payload_bytes_sent")};
        const Traffic expected =
            closed_form(schedule, rank, rank_count, value_count, codes_per_word);
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

TEST(TrafficClosedForm, OfAnEvenCallIsTwiceTheShareOfTheOthers) {
  // n = 4, 4,096 values of 8 bits: 2 (n - 1) / n of 4,096 bytes.
  for (int32_t schedule : {GQSGD_SCHEDULE_RING, GQSGD_SCHEDULE_BUTTERFLY, GQSGD_SCHEDULE_DIRECT}) {
    const Traffic traffic = closed_form(schedule, 1, 4, 4096, 4);
    EXPECT_EQ(traffic.bytes, 2u * 3 * 4096 / 4) << schedule_name(schedule);
    EXPECT_EQ(traffic.messages, 2u * 3 * 1024 / kChunk) << schedule_name(schedule);
  }
}

TEST(TrafficHeader, EveryCallPublishesOneHeaderOf64Bytes) {
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
