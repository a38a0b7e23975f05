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
  uint64_t messages = 0;
  uint64_t bytes = 0;
  uint64_t uncompressed_bytes = 0;
  bool operator==(const Traffic&) const = default;
};

/** What the traffic of a format depends on. */
struct Format {
  std::string text;
  size_t bits;
  size_t bits_down;
  size_t block = 0;
  bool rescale = false;

  size_t alignment() const { return std::max<size_t>(32, block); }
  size_t chunk() const { return std::max(kChunk, block); }
};

const Format kEverySchedule[] = {{"none", 32, 32},
                                 {"paper-gl8", 8, 8},
                                 {"paper-ge8", 8, 8},
                                 {"paper-gl4", 4, 4},
                                 {"paper-ge4", 4, 4},
                                 {"paper-gl8,block=32", 8, 8, 32},
                                 {"paper-ge4,block=256", 4, 4, 256}};
const Format kDirectAlone[] = {{"blocks-8", 8, 8, 128, true},
                               {"paper-gl4,block=32,rescale=true,bits_down=8", 4, 8, 32, true},
                               {"paper-ge8,bits_down=4", 8, 4},
                               {"relative-8", 8, 8},
                               {"bf16", 16, 16},
                               {"fp16", 16, 16}};

/** A run of values that a rank sends, cut into chunks. */
struct Run {
  size_t first;
  size_t last;  ///< one past
};

/** A call cut into parts, each a multiple of the alignment but the last. */
class Parts {
 public:
  Parts(const Format& format, size_t value_count, size_t part_count) : value_count_(value_count) {
    const size_t even = (value_count + part_count - 1) / part_count;
    part_ = (even + format.alignment() - 1) / format.alignment() * format.alignment();
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
std::vector<Run> ring_runs(const Format& format, size_t rank, size_t rank_count,
                           size_t value_count) {
  const Parts parts(format, value_count, rank_count);
  std::vector<Run> runs;
  for (size_t part = 0; part < rank_count; ++part) {
    if (part != rank) runs.push_back(parts.run(part));
    if (part != (rank + 1) % rank_count) runs.push_back(parts.run(part));
  }
  return runs;
}

/** Every other part once to its owner; or the own one to all others. */
std::vector<Run> to_owners(const Format& format, size_t rank, size_t rank_count,
                           size_t value_count) {
  const Parts parts(format, value_count, rank_count);
  std::vector<Run> runs;
  for (size_t part = 0; part < rank_count; ++part) {
    if (part != rank) runs.push_back(parts.run(part));
  }
  return runs;
}
std::vector<Run> from_owner(const Format& format, size_t rank, size_t rank_count,
                            size_t value_count) {
  return std::vector<Run>(rank_count - 1, Parts(format, value_count, rank_count).run(rank));
}

/** The whole call to the parent and to each child. */
std::vector<Run> tree_runs(const Format&, size_t rank, size_t rank_count, size_t value_count) {
  std::vector<Run> runs;
  if (rank != 0) runs.push_back({0, value_count});
  for (size_t half = 1; rank + half < rank_count && rank % (2 * half) == 0; half *= 2) {
    runs.push_back({0, value_count});
  }
  return runs;
}

/** Halves of halves to the partners, the same back; a folded pair sends both halves of the call
 * each way. */
std::vector<Run> butterfly_runs(const Format& format, size_t rank, size_t rank_count,
                                size_t value_count) {
  size_t core = 1;
  while (2 * core <= rank_count) core *= 2;
  std::vector<Run> runs;
  const Parts parts(format, value_count, core);
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

size_t words_bytes(size_t bits, size_t value_count) { return (value_count * bits + 31) / 32 * 4; }

size_t norms_bytes(const Format& format, size_t value_count) {
  return format.block == 0 ? 0 : (value_count + format.block - 1) / format.block * 2;
}

/** What messages hold: norms are no values. */
enum class Content { values, norms };

/** Adds a message per chunk. */
template <typename BytesOf>
void add(const Format& format, const std::vector<Run>& runs, Content content, BytesOf bytes_of,
         Traffic* traffic) {
  for (const Run& run : runs) {
    for (size_t first = run.first; first < run.last; first += format.chunk()) {
      const size_t value_count = std::min(format.chunk(), run.last - first);
      traffic->messages += 1;
      traffic->bytes += bytes_of(value_count);
      if (content == Content::values) traffic->uncompressed_bytes += 4 * value_count;
    }
  }
}

/** Whole words in each message; norms go to owners and back whatever the schedule; scales are in
 *  the messages of their codes. */
Traffic closed_form(const Format& format, gqsgd_schedule schedule, size_t rank, size_t rank_count,
                    size_t value_count) {
  Traffic traffic;
  if (rank_count == 1) return traffic;
  const std::vector<Run> up = to_owners(format, rank, rank_count, value_count);
  const std::vector<Run> down = from_owner(format, rank, rank_count, value_count);
  const auto codes = [&](size_t count) { return words_bytes(format.bits, count); };
  const auto norms = [&](size_t count) { return norms_bytes(format, count); };
  const auto sums = [&](size_t count) {
    return words_bytes(format.bits_down, count) + (format.rescale ? norms(count) : 0);
  };
  if (format.block != 0) {
    add(format, up, Content::norms, norms, &traffic);
    add(format, down, Content::norms, norms, &traffic);
  }
  if (schedule == GQSGD_SCHEDULE_DIRECT) {
    add(format, up, Content::values, codes, &traffic);
    add(format, down, Content::values, sums, &traffic);
    return traffic;
  }
  const auto runs_of = schedule == GQSGD_SCHEDULE_RING   ? ring_runs
                       : schedule == GQSGD_SCHEDULE_TREE ? tree_runs
                                                         : butterfly_runs;
  add(format, runs_of(format, rank, rank_count, value_count), Content::values, codes, &traffic);
  return traffic;
}

std::string compare(const Traffic& counted, const Traffic& expected, const std::string& what) {
  if (counted == expected) return "";
  const auto text_of = [](const Traffic& traffic) {
    return std::to_string(traffic.messages) + " messages and " + std::to_string(traffic.bytes) +
           " bytes, " + std::to_string(traffic.uncompressed_bytes) + " as float32";
  };
  return what + ": " + text_of(counted) + ", expected " + text_of(expected);
}

Traffic traffic_of(gqsgd_comm comm) {
  return {counter_of(comm, "messages_sent"), counter_of(comm, "payload_bytes_sent"),
          counter_of(comm, "uncompressed_bytes_sent")};
}

/** Runs one operation and holds the counters to the closed form. */
std::string count_operation(const Format& format, gqsgd_schedule schedule, int rank, int rank_count,
                            size_t value_count, gqsgd_comm comm) {
  const Traffic before = traffic_of(comm);
  const Operation operation{format.text, schedule};
  Values result;
  const std::string failure = allreduce(comm, operation, Values(value_count, 1.0f), &result);
  if (!failure.empty()) return failure;
  const Traffic after = traffic_of(comm);
  return compare({after.messages - before.messages, after.bytes - before.bytes,
                  after.uncompressed_bytes - before.uncompressed_bytes},
                 closed_form(format, schedule, rank, rank_count, value_count),
                 describe(operation) + ", " + std::to_string(value_count) + " values");
}

/** One operation per format, schedule and count. */
std::string count_traffic(int rank, int rank_count, gqsgd_comm comm) {
  std::string failure;
  const auto count = [&](const Format& format, gqsgd_schedule schedule) {
    for (size_t value_count : {0, 1, 33, 1000, 4096}) {
      if (!failure.empty()) return;
      failure = count_operation(format, schedule, rank, rank_count, value_count, comm);
    }
  };
  for (gqsgd_schedule schedule : kSchedules) {
    for (const Format& format : kEverySchedule) count(format, schedule);
  }
  for (const Format& format : kDirectAlone) count(format, GQSGD_SCHEDULE_DIRECT);
  return failure;
}

class TrafficCounters : public testing::TestWithParam<int> {};

TEST_P(TrafficCounters, Threads_EqualClosedForms) {
  EXPECT_EQ(
      run_threads(GetParam(), "chunk_value_count=64",
                  [](int rank, gqsgd_comm comm) { return count_traffic(rank, GetParam(), comm); }),
      "");
}

TEST_P(TrafficCounters, Processes_EqualClosedForms_NothingCopied) {
  EXPECT_EQ(run_processes(GetParam(), "chunk_value_count=64",
                          [](int rank, gqsgd_comm comm) {
                            std::string failure = count_traffic(rank, GetParam(), comm);
                            const uint64_t copied = counter_of(comm, "payload_bytes_copied");
                            if (copied) failure += std::to_string(copied) + " bytes were copied";
                            return failure;
                          }),
            "");
}

INSTANTIATE_TEST_SUITE_P(Ranks, TrafficCounters, testing::Values(1, 2, 3, 4, 7, 8, 9));

TEST(TrafficClosedForm, EvenCall_TwiceTheShareOfTheOthers) {
  // n = 4, 4,096 values of 8 bits: 2 (n - 1) / n of 4,096 bytes.
  for (gqsgd_schedule schedule :
       {GQSGD_SCHEDULE_RING, GQSGD_SCHEDULE_BUTTERFLY, GQSGD_SCHEDULE_DIRECT}) {
    const Traffic traffic = closed_form({"paper-gl8", 8, 8}, schedule, 1, 4, 4096);
    EXPECT_EQ(traffic.bytes, 2u * 3 * 4096 / 4) << schedule_name(schedule);
    EXPECT_EQ(traffic.messages, 2u * 3 * 1024 / kChunk) << schedule_name(schedule);
  }
}

TEST(TrafficClosedForm, FloatsAndBlocks_BytesAsFloat32) {
  for (const auto schedule : kSchedules) {
    const Traffic traffic = closed_form({"none", 32, 32}, schedule, 1, 4, 4096);
    EXPECT_EQ(traffic.bytes, traffic.uncompressed_bytes) << schedule_name(schedule);
  }
  // A value travels up and down, each time in 1 byte, with 1/64 of a norm and, down, of a scale.
  const Traffic blocks =
      closed_form({"blocks-8", 8, 8, 128, true}, GQSGD_SCHEDULE_DIRECT, 1, 4, 4096);
  EXPECT_EQ(blocks.uncompressed_bytes, 2u * 4 * 3 * 1024);
  EXPECT_EQ(blocks.bytes, 3u * 1024 * 2 + 3u * 8 * 2 * 3);
}

TEST(TrafficHeader, EveryCall_OneControlMessageOf80Bytes) {
  EXPECT_EQ(run_threads(3, "",
                        [](int, gqsgd_comm comm) -> std::string {
                          Values result;
                          const uint64_t before = counter_of(comm, "header_bytes_sent");
                          const std::string failure =
                              allreduce(comm, {"paper-ge8"}, Values(10, 1.0f), &result);
                          const uint64_t bytes = counter_of(comm, "header_bytes_sent") - before;
                          if (!failure.empty()) return failure;
                          if (counter_of(comm, "calls") != 1) return "calls is not 1";
                          return bytes % 80 == 0 && bytes > 0 ? "" : std::to_string(bytes);
                        }),
            "");
}

}  // namespace
}  // namespace gq::test
