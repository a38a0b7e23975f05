// Calls on tensors and slices give the answers that the reference computed from docs/FORMAT.md
// alone, bit for bit, on threads and processes.
#include <gqsgd.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <numeric>

#include "tests/support/operation.h"
#include "tests/support/ranks.h"
#include "tests/support/vectors.h"

namespace gq::test {
namespace {

using Buffer = std::vector<unsigned char>;

gqsgd_dtype dtype_of(const std::string& name) {
  const char* const names[] = {"float32", "float16", "bfloat16", "float64"};
  for (int number = 0; number < 4; ++number) {
    if (name == names[number]) return static_cast<gqsgd_dtype>(number);
  }
  throw std::runtime_error("unknown dtype in the known answers: " + name);
}

gqsgd_schedule schedule_of(const std::string& name) {
  for (const gqsgd_schedule schedule : kSchedules) {
    if (name == schedule_name(schedule)) return schedule;
  }
  if (name == "hierarchical") return GQSGD_SCHEDULE_HIERARCHICAL;
  throw std::runtime_error("unknown schedule in the known answers: " + name);
}

/** Slices have one schedule. */
gqsgd_schedule schedule_in(const VectorRecord& record) {
  if (record.text("operation") != "allreduce_many") return GQSGD_SCHEDULE_AUTO;
  return schedule_of(record.text("schedule"));
}

/** One record: lengths, and a rank's values one after the other. */
struct Answer {
  explicit Answer(const VectorRecord& from)
      : record(from),
        dtype(dtype_of(from.text("dtype"))),
        element_bytes(dtype == GQSGD_FLOAT64   ? 8
                      : dtype == GQSGD_FLOAT32 ? 4
                                               : 2),
        op(from.text("op") == "sum" ? GQSGD_SUM : GQSGD_MEAN),
        config(config_at(from.integer("step"), from.integer("index"), schedule_in(from))),
        quantizer(from.text("quantizer")) {
    for (const uint64_t length : from.integers("lengths")) lengths.push_back(length);
  }

  size_t offset(size_t segment) const {
    return std::accumulate(lengths.begin(), lengths.begin() + static_cast<long>(segment),
                           size_t{0});
  }
  size_t value_count() const { return offset(lengths.size()); }

  Buffer input(int rank) const {
    Buffer buffer(value_count() * element_bytes);
    auto values = generated_values(static_cast<uint32_t>(record.integer("salt")),
                                   static_cast<uint32_t>(rank), value_count());
    if (record.has("spread")) spread_blocks(record.integer("spread"), values);
    if (record.has("nan_element") && rank == 0) values[record.integer("nan_element")] = NAN;
    for (size_t k = 0; k < values.size(); ++k) {
      const uint64_t pattern = pattern_of(values[k], record.text("dtype"));
      std::memcpy(&buffer[k * element_bytes], &pattern, element_bytes);
    }
    return buffer;
  }

  /** "" if `result`, all segments one after the other, holds the test vector. */
  std::string judge(const Buffer& result) const {
    std::vector<uint64_t> patterns(result.size() / element_bytes);
    uint64_t sum = 0;
    for (size_t k = 0; k < patterns.size(); ++k) {
      std::memcpy(&patterns[k], &result[k * element_bytes], element_bytes);
      sum += (2 * k + 1) * patterns[k];
    }
    const bool equal = record.has("result") ? patterns == record.patterns("result")
                                            : sum == record.integer("result_checksum");
    return equal ? "" : record.name() + ": another result than the reference";
  }

  const VectorRecord& record;
  gqsgd_dtype dtype;
  size_t element_bytes;
  gqsgd_op op;
  Config config;
  Quantizer quantizer;
  std::vector<size_t> lengths;
};

gqsgd_status reduce_many(gqsgd_comm comm, const Answer& answer, Buffer& input, Buffer& result) {
  std::vector<const void*> send;
  std::vector<void*> recv;
  for (size_t k = 0; k < answer.lengths.size(); ++k) {
    send.push_back(input.data() + answer.offset(k) * answer.element_bytes);
    recv.push_back(result.data() + answer.offset(k) * answer.element_bytes);
  }
  return gqsgd_allreduce_many(comm, answer.quantizer.get(), send.data(), recv.data(),
                              answer.lengths.data(), send.size(), answer.dtype, answer.op,
                              answer.config, nullptr);
}

/** The rank's result, its own slice of a reduce-scatter where the whole has it. */
gqsgd_status make_call(gqsgd_comm comm, int rank, const Answer& answer, Buffer* result) {
  Buffer input = answer.input(rank);
  *result = Buffer(input.size());
  const std::string operation = answer.record.text("operation");
  if (operation == "allreduce_many") return reduce_many(comm, answer, input, *result);
  const size_t own = answer.offset(static_cast<size_t>(rank)) * answer.element_bytes;
  if (operation == "reduce_scatter") {
    return gqsgd_reduce_scatter(comm, answer.quantizer.get(), input.data(), result->data() + own,
                                answer.lengths.data(), answer.dtype, answer.op, answer.config,
                                nullptr);
  }
  return gqsgd_allgather(comm, answer.quantizer.get(), input.data() + own, result->data(),
                         answer.lengths.data(), answer.dtype, answer.config, nullptr);
}

/** Runs one record on this rank; slices of a reduce-scatter are put together in `whole`. */
std::string run_answer(gqsgd_comm comm, int rank, const Answer& answer, unsigned char* whole) {
  Buffer result;
  const gqsgd_status status = make_call(comm, rank, answer, &result);
  if (status != GQSGD_OK) return failure_of(status, answer.record.name().c_str());
  if (answer.record.text("operation") != "reduce_scatter") return answer.judge(result);
  const size_t own = answer.offset(static_cast<size_t>(rank)) * answer.element_bytes;
  const size_t size = answer.lengths[static_cast<size_t>(rank)] * answer.element_bytes;
  if (size > 0) std::memcpy(whole + own, result.data() + own, size);
  return "";
}

using Run = std::string (*)(int, const std::string&, const RankBody&);

/** Runs all records of a file; returns how many there are. */
size_t run_file(Run run, const char* file, const char* more_options = "") {
  size_t count = 0;
  for (const VectorRecord& record : read_vectors(file)) {
    const Answer answer(record);
    SharedArray<unsigned char> whole(answer.value_count() * answer.element_bytes);
    const auto body = [&](int rank, gqsgd_comm comm) {
      return run_answer(comm, rank, answer, whole.data());
    };
    std::string options = "stream_id=" + record.text("stream_id") + more_options;
    if (record.has("nodes")) options += ",nodes=" + record.text("nodes");
    EXPECT_EQ(run(static_cast<int>(record.integer("rank_count")), options, body), "");
    if (record.text("operation") == "reduce_scatter") {
      EXPECT_EQ(answer.judge(Buffer(whole.data(), whole.data() + whole.count())), "");
    }
    ++count;
  }
  return count;
}

class SegmentVectors : public testing::TestWithParam<Run> {};

TEST_P(SegmentVectors, AllCases_ResultsOfTheReference) {
  EXPECT_GT(run_file(GetParam(), "segments.txt"), 70u);
  EXPECT_GT(run_file(GetParam(), "segments_narrow.txt"), 15u);
  EXPECT_GT(run_file(GetParam(), "segments_adaptive.txt"), 15u);
  EXPECT_GT(run_file(GetParam(), "segments_rice.txt"), 15u);
}

// Stages in parts, whose sums and values lie in the order of a slice while codes lie in groups.
TEST_P(SegmentVectors, CodesInGroups_SeveralThreads_ResultsOfTheReference) {
  EXPECT_GT(run_file(GetParam(), "segments_adaptive.txt", ",threads=3"), 15u);
  EXPECT_GT(run_file(GetParam(), "segments_rice.txt", ",threads=3"), 15u);
}

// Each has overloads of which a parameter takes one.
std::string run_as_threads(int rank_count, const std::string& options, const RankBody& body) {
  return run_threads(rank_count, options, body);
}
std::string run_as_processes(int rank_count, const std::string& options, const RankBody& body) {
  return run_processes(rank_count, options, body);
}

INSTANTIATE_TEST_SUITE_P(Ranks, SegmentVectors, testing::Values(&run_as_threads, &run_as_processes),
                         [](const auto& info) {
                           return info.index == 0 ? "threads" : "processes";
                         });

}  // namespace
}  // namespace gq::test
