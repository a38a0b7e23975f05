// The sparse schedule as callers see it: one result on all ranks however they run, never more bytes
// than direct, direct's bits where there would be too many entries, and less noise where they are
// not.
#include <gqsgd_model.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/few_values.h"
#include "tests/support/operation.h"
#include "tests/support/ranks.h"

namespace gq::test {
namespace {

/** An operation, and what every rank must get from it. */
struct Case {
  Operation operation;
  std::vector<Values> inputs;
  Values expected;
};

/** Short and long calls that are sent as sparse entries, and some that are not. */
std::vector<Case> cases_of(int rank_count) {
  std::vector<Case> cases;
  const auto add = [&](const char* format, const std::vector<Values>& inputs) {
    const uint64_t step = cases.size();
    const Operation operation{
        format, GQSGD_SCHEDULE_SPARSE, step % 2 ? GQSGD_SUM : GQSGD_MEAN, step % 3 == 0, step, 1};
    cases.push_back({operation, inputs, simulate(operation, inputs)});
  };
  for (const char* format : kSparseFormats) {
    for (size_t value_count : {0, 1, 33, 700, 9001}) {
      add(format, few_values(rank_count, value_count, 3 + value_count));
    }
    add(format, gradients(rank_count, 700, 4));
    add(format, gradients(rank_count, 20000, 5));
  }
  return cases;
}

RankBody run_cases(const std::vector<Case>& cases) {
  return [&cases](int rank, gqsgd_comm comm) -> std::string {
    for (const Case& one : cases) {
      Values result;
      const std::string failure = allreduce(comm, one.operation, one.inputs[rank], &result);
      if (!failure.empty()) return failure;
      const std::string wrong = difference(result, one.expected);
      if (!wrong.empty()) return describe(one.operation) + ": " + wrong;
    }
    return "";
  };
}

class Sparse : public testing::TestWithParam<int> {};

TEST_P(Sparse, VirtualRanks_AnyChunkSize_SameResult) {
  for (const Case& one : cases_of(GetParam())) {
    for (const char* options : {"chunk_value_count=32", "chunk_value_count=4096"}) {
      for (const Values& result : simulate_all(one.operation, one.inputs, options)) {
        ASSERT_EQ(difference(result, one.expected), "") << describe(one.operation) << options;
      }
    }
  }
}

TEST_P(Sparse, ThreadsAndProcesses_BitsOfVirtualRanks) {
  const std::vector<Case> cases = cases_of(GetParam());
  EXPECT_EQ(run_threads(GetParam(), "chunk_value_count=64", run_cases(cases)), "");
  EXPECT_EQ(run_processes(GetParam(), "", run_cases(cases)), "");
}

INSTANTIATE_TEST_SUITE_P(Ranks, Sparse, testing::Values(1, 2, 3, 4, 5, 6, 7, 8, 9, 17));

/** What a communicator has sent. */
struct Sent {
  uint64_t messages, payload_bytes, header_bytes, uncompressed_bytes;
};

Sent sent(gqsgd_comm comm) {
  return {counter_of(comm, "messages_sent"), counter_of(comm, "payload_bytes_sent"),
          counter_of(comm, "header_bytes_sent"), counter_of(comm, "uncompressed_bytes_sent")};
}

/** Runs the operation and returns what it sent. */
Sent traffic_of(gqsgd_comm comm, const Operation& operation, const Values& input,
                std::string* failure, Values* result) {
  const Sent before = sent(comm);
  if (failure->empty()) *failure = allreduce(comm, operation, input, result);
  const Sent after = sent(comm);
  return {after.messages - before.messages, after.payload_bytes - before.payload_bytes,
          after.header_bytes - before.header_bytes,
          after.uncompressed_bytes - before.uncompressed_bytes};
}

/** Sparse and direct, and whether sparse entries were sent. */
struct Compared {
  Sent sparse, direct;
  bool same_bits;
};

std::string compare(int rank, gqsgd_comm comm, const char* format,
                    const std::vector<Values>& inputs, Compared* compared) {
  std::string failure;
  Values sparse_values, without;
  const size_t here = static_cast<size_t>(rank);
  compared->sparse =
      traffic_of(comm, {format, GQSGD_SCHEDULE_SPARSE}, inputs[here], &failure, &sparse_values);
  compared->direct =
      traffic_of(comm, {format, GQSGD_SCHEDULE_DIRECT}, inputs[here], &failure, &without);
  compared->same_bits = difference(sparse_values, without).empty();
  const uint64_t peers = inputs.size() - 1;
  if (compared->sparse.header_bytes != 2 * 80 * peers) failure += "not two headers to each peer";
  if (compared->direct.header_bytes != 80 * peers) failure += "not one header to each peer";
  return failure;
}

// Parts are equal here, so that every rank sends the same number of bytes in direct.
TEST(SparseTraffic, AnyShareOfZeros_NoMoreBytesThanDirect) {
  constexpr int kRanks = 4;
  constexpr size_t kCount = 4096;
  for (const char* format : kSparseFormats) {
    std::vector<std::vector<Values>> inputs;
    for (const size_t apart : {1, 2, 5, 8, 9, 16, 17, 18, 40, 200, 5000}) {
      inputs.push_back(gradients(kRanks, kCount, apart));
      for (Values& values : inputs.back()) {
        for (size_t e = 0; e < kCount; ++e) values[e] = e % apart == 3 % apart ? values[e] : 0;
      }
    }
    EXPECT_EQ(run_threads(kRanks, "",
                          [&](int rank, gqsgd_comm comm) {
                            std::string failure;
                            for (const auto& one : inputs) {
                              Compared compared{};
                              failure += compare(rank, comm, format, one, &compared);
                              if (compared.sparse.payload_bytes > compared.direct.payload_bytes) {
                                failure += "more bytes than direct";
                              }
                            }
                            return failure;
                          }),
              "")
        << format;
  }
}

TEST(SparseTraffic, DenseCodes_BytesAndBitsOfDirect) {
  for (const int rank_count : {1, 2, 5}) {
    const auto inputs = gradients(rank_count, 5000, 2);
    for (const char* format : {"paper-gl8", "paper-ge8", "paper-gl4", "paper-ge4"}) {
      EXPECT_EQ(run_threads(rank_count, "chunk_value_count=1024",
                            [&](int rank, gqsgd_comm comm) {
                              Compared compared{};
                              std::string failure = compare(rank, comm, format, inputs, &compared);
                              if (!compared.same_bits) failure += "other bits than direct";
                              if (compared.sparse.messages != compared.direct.messages ||
                                  compared.sparse.payload_bytes != compared.direct.payload_bytes) {
                                failure += "other messages than direct";
                              }
                              return failure;
                            }),
                "")
          << format << ", " << rank_count << " ranks";
    }
  }
}

TEST(SparseTraffic, Entries_32BitsPerNonzeroCode) {
  constexpr size_t kCount = 6000;
  std::vector<Values> inputs(3, Values(kCount));
  for (size_t k = 0; k < 70; ++k) inputs[0][3 * k] = inputs[2][60 * k] = 1;  // the norm: exact
  EXPECT_EQ(run_threads(3, "",
                        [&](int rank, gqsgd_comm comm) -> std::string {
                          Compared compared{};
                          const std::string failure =
                              compare(rank, comm, "paper-gl8", inputs, &compared);
                          if (!failure.empty()) return failure;
                          const uint64_t bytes = rank == 1 ? 0 : 2 * 4 * 70;
                          const uint64_t messages = rank == 1 ? 0 : 2;
                          if (compared.sparse.payload_bytes != bytes) return "other bytes";
                          if (compared.sparse.uncompressed_bytes != messages * 4 * kCount) {
                            return "other values for which the entries stand";
                          }
                          return compared.sparse.messages == messages ? "" : "other messages";
                        }),
            "");
}

// n = 3 and 1,500 words of codes: up to 1,000 sparse entries of a rank.
TEST(SparseTraffic, Entries_UsedUpToTheBytesOfDirect) {
  constexpr size_t kCount = 6000;
  for (const size_t entry_count : {1000, 1001}) {
    std::vector<Values> inputs(3, Values(kCount));
    for (size_t e = 0; e < entry_count; ++e) inputs[1][e] = -1;
    EXPECT_EQ(run_threads(3, "",
                          [&](int rank, gqsgd_comm comm) -> std::string {
                            Compared compared{};
                            const std::string failure =
                                compare(rank, comm, "paper-gl8", inputs, &compared);
                            if (!failure.empty()) return failure;
                            const bool dense = compared.sparse.messages == compared.direct.messages;
                            return dense == (entry_count > 1000) ? "" : "the wrong way";
                          }),
              "")
        << entry_count;
  }
}

// d = 200,000 and n = 4: above 784 n, where norms of order 2 and 4 bits are said to pay.
TEST(SparseTraffic, NormalValues_NormsOfOrder2_Sparse) {
  const auto inputs = gradients(4, 200000, 9);
  EXPECT_EQ(run_threads(4, "",
                        [&](int rank, gqsgd_comm comm) -> std::string {
                          Compared compared{};
                          const std::string failure =
                              compare(rank, comm, "paper-gl4,norm=2:2", inputs, &compared);
                          if (!failure.empty()) return failure;
                          const Sent& sparse = compared.sparse;
                          if (sparse.messages != 3) return "no entries";
                          return 8 * sparse.payload_bytes < compared.direct.payload_bytes
                                     ? ""
                                     : std::to_string(sparse.payload_bytes) + " bytes of entries";
                        }),
            "");
}

double squared_error(const Values& result, const std::vector<Values>& inputs) {
  double sum = 0;
  for (size_t e = 0; e < result.size(); ++e) {
    double mean = 0;
    for (const Values& values : inputs) mean += values[e];
    mean /= static_cast<double>(inputs.size());
    sum += (result[e] - mean) * (result[e] - mean);
  }
  return sum;
}

TEST(SparseError, SparseCalls_WithinBound_BelowDirect) {
  constexpr int kDraws = 40;
  for (const char* format : {"paper-gl8", "paper-ge4"}) {
    const auto inputs = few_values(4, 20000, 6);
    double sparse = 0, direct = 0, squares = 0, theta = 0;
    for (uint64_t step = 0; step < kDraws; ++step) {
      sparse += squared_error(
          simulate({format, GQSGD_SCHEDULE_SPARSE, GQSGD_MEAN, false, step}, inputs), inputs);
      direct += squared_error(
          simulate({format, GQSGD_SCHEDULE_DIRECT, GQSGD_MEAN, false, step}, inputs), inputs);
    }
    for (const Values& values : inputs) {
      for (const float value : values) squares += static_cast<double>(value) * value;
    }
    const Quantizer quantizer(format);
    ASSERT_EQ(gqsgd_variance_bound(quantizer.get(), 4, 20000, GQSGD_SCHEDULE_SPARSE, &theta),
              GQSGD_OK);
    EXPECT_LE(sparse / kDraws, theta / 4 * squares) << format;
    EXPECT_LT(sparse, 0.9 * direct) << format;
    double factor = 0;
    ASSERT_EQ(gqsgd_depth_factor(quantizer.get(), 4, GQSGD_SCHEDULE_SPARSE, &factor), GQSGD_OK);
    EXPECT_EQ(factor, 1);
  }
}

/** 2/3 on all ranks: where rounding to 1/2 or 1 varies most, and no code is zero. */
TEST(SparseError, DenseCalls_WithinBound) {
  constexpr int kDraws = 40, kRanks = 4;
  constexpr size_t kCount = 20000;
  Values values(kCount, 2.0f / 3);
  values[0] = 1;
  const std::vector<Values> inputs(kRanks, values);
  double error = 0, squares = 0, theta = 0;
  for (uint64_t step = 0; step < kDraws; ++step) {
    const Operation sparse{"paper-ge8", GQSGD_SCHEDULE_SPARSE, GQSGD_MEAN, false, step};
    error += squared_error(simulate(sparse, inputs), inputs) / kDraws;
  }
  for (const float value : values) squares += static_cast<double>(value) * value;
  const Quantizer quantizer("paper-ge8");
  ASSERT_EQ(gqsgd_variance_bound(quantizer.get(), kRanks, kCount, GQSGD_SCHEDULE_SPARSE, &theta),
            GQSGD_OK);
  EXPECT_LE(error, theta * squares);
  EXPECT_GT(error, squares / (8 * kRanks)) << "codes that are not encoded again";
}

TEST(SparseMemory, Reserve_AllocatesAll_WithinTwiceThePackedSizeAndOneMebibyte) {
  constexpr size_t kCount = 1000000;
  const auto body = [](int, gqsgd_comm comm) -> std::string {
    const Quantizer quantizer("paper-gl8");
    gqsgd_status status = gqsgd_comm_reserve(comm, quantizer.get(), kCount, GQSGD_FLOAT32);
    if (status != GQSGD_OK) return failure_of(status, "gqsgd_comm_reserve");
    uint64_t reserved = 0, used = 0;
    gqsgd_comm_stat(comm, "workspace_bytes", &reserved);
    Values result;
    const Operation operation{"paper-gl8", GQSGD_SCHEDULE_SPARSE};
    const std::string failure = allreduce(comm, operation, Values(kCount, 1.0f), &result);
    if (!failure.empty()) return failure;
    gqsgd_comm_stat(comm, "workspace_bytes", &used);
    if (used != reserved) return "used " + std::to_string(used - reserved) + " bytes more";
    return used <= 2 * kCount + (1u << 20) ? "" : std::to_string(used);
  };
  EXPECT_EQ(run_threads(2, "", body), "");
  EXPECT_EQ(run_processes(3, "", body), "");
}

}  // namespace
}  // namespace gq::test
