// Every rank ends with the same bits, and threads, processes and virtual ranks agree, whatever the
// chunk size and whether in place or not. Whether the bits are good ones is error_bound_test's
// matter.
#include <gtest/gtest.h>

#include "tests/support/operation.h"
#include "tests/support/ranks.h"

namespace gq::test {
namespace {

constexpr size_t kSmallCounts[] = {0, 1, 2, 3, 31, 32, 33, 127, 128, 129, 1000};
constexpr size_t kLargeCount = 65537;

/** An operation, and what every rank must get from it. */
struct Case {
  Operation operation;
  const std::vector<Values>* inputs;
  Values expected;
};

/** Both ops of a format, one of them in place; which one alternates between odd and even counts. */
void add_case(const std::string& format, gqsgd_schedule schedule, const std::vector<Values>& inputs,
              std::vector<Case>* cases) {
  const int32_t op_in_place = inputs[0].size() % 2 ? GQSGD_SUM : GQSGD_MEAN;
  for (gqsgd_op op : {GQSGD_MEAN, GQSGD_SUM}) {
    const uint64_t step = cases->size();
    Operation operation{format, schedule, op, op == op_in_place, step, step % 7};
    cases->push_back({operation, &inputs, simulate(operation, inputs)});
  }
}

/** All formats with all of their schedules, for one count. */
void add_cases(const std::vector<Values>& inputs, std::vector<Case>* cases) {
  for (gqsgd_schedule schedule : kSchedules) {
    for (const char* preset : kPresets) add_case(preset, schedule, inputs, cases);
    for (const char* format : kBlockFormats) add_case(format, schedule, inputs, cases);
  }
  for (const char* format : kWideFormats) {
    add_case(format, GQSGD_SCHEDULE_DIRECT, inputs, cases);
  }
  for (const char* format : kHostFormats) {
    add_case(format, GQSGD_SCHEDULE_DIRECT, inputs, cases);
  }
}

/** The cases of one group, and the inputs they refer to. */
struct Matrix {
  std::vector<std::vector<Values>> inputs;
  std::vector<Case> cases;
};

Matrix small_matrix(int rank_count) {
  Matrix matrix;
  for (size_t count : kSmallCounts) {
    matrix.inputs.push_back(gradients(rank_count, count, 100 + count));
  }
  for (const auto& inputs : matrix.inputs) add_cases(inputs, &matrix.cases);
  return matrix;
}

Matrix large_matrix(int rank_count) {
  Matrix matrix;
  matrix.inputs.push_back(gradients(rank_count, kLargeCount, 100 + kLargeCount));
  add_cases(matrix.inputs[0], &matrix.cases);
  return matrix;
}

/** A body that runs all cases in order and compares each result. */
RankBody run_cases(const std::vector<Case>& cases) {
  return [&cases](int rank, gqsgd_comm comm) -> std::string {
    for (const Case& one : cases) {
      const Values& input = (*one.inputs)[rank];
      Values result;
      const std::string failure = allreduce(comm, one.operation, input, &result);
      if (!failure.empty()) return failure;
      const std::string wrong = difference(result, one.expected);
      if (!wrong.empty()) return describe(one.operation) + ": " + wrong;
    }
    return "";
  };
}

class SameBits : public testing::TestWithParam<int> {};

TEST_P(SameBits, VirtualRanks_AnyChunkSize_SameResult) {
  for (const Matrix& matrix : {small_matrix(GetParam()), large_matrix(GetParam())}) {
    for (const Case& one : matrix.cases) {
      const bool is_large = one.expected.size() == kLargeCount;
      for (const char* options : {"chunk_value_count=32", "chunk_value_count=4096"}) {
        if (is_large && std::string(options) == "chunk_value_count=32") continue;
        for (const Values& result : simulate_all(one.operation, *one.inputs, options)) {
          ASSERT_EQ(difference(result, one.expected), "")
              << describe(one.operation) << ", " << options << ", " << GetParam() << " ranks";
        }
      }
    }
  }
}

TEST_P(SameBits, Threads_BitsOfVirtualRanks) {
  const Matrix small = small_matrix(GetParam()), large = large_matrix(GetParam());
  EXPECT_EQ(run_threads(GetParam(), "chunk_value_count=32", run_cases(small.cases)), "");
  EXPECT_EQ(run_threads(GetParam(), "chunk_value_count=2048", run_cases(large.cases)), "");
}

TEST_P(SameBits, Processes_BitsOfVirtualRanks) {
  const Matrix small = small_matrix(GetParam()), large = large_matrix(GetParam());
  EXPECT_EQ(run_processes(GetParam(), "", run_cases(small.cases)), "");
  EXPECT_EQ(run_processes(GetParam(), "chunk_value_count=8192", run_cases(large.cases)), "");
}

INSTANTIATE_TEST_SUITE_P(Ranks, SameBits, testing::Values(1, 2, 3, 4, 5, 6, 7, 8, 9, 17));

// A group's first operation reaches memory of its peers for the first time, by every schedule's
// paths.
TEST(FreshProcesses, FirstOperation_BitsOfVirtualRanks) {
  const auto inputs = gradients(5, 20000, 8);
  for (gqsgd_schedule schedule : kSchedules) {
    std::vector<Case> cases;
    const Operation operation{"paper-gl8", schedule};
    cases.push_back({operation, &inputs, simulate(operation, inputs)});
    EXPECT_EQ(run_processes(5, "", run_cases(cases)), "") << schedule_name(schedule);
  }
}

// Where a butterfly folds and a tree is ragged.
TEST(ManyRanks, AroundPowersOfTwo_AnyChunkSize_Agree) {
  std::vector<Operation> operations;
  for (gqsgd_schedule schedule : kSchedules) {
    for (const char* format :
         {"paper-ge8", "paper-gl4", "paper-gl4,block=32,rounding=correlated"}) {
      operations.push_back({format, schedule});
    }
  }
  for (const char* format : kWideFormats) operations.push_back({format, GQSGD_SCHEDULE_DIRECT});
  for (const char* format : kHostFormats) operations.push_back({format, GQSGD_SCHEDULE_DIRECT});
  for (int rank_count : {15, 16, 31, 32, 33, 63, 64, 65, 127, 128, 129, 130}) {
    const auto inputs = gradients(rank_count, 65, 4);
    for (const Operation& operation : operations) {
      const Values expected = simulate(operation, inputs);
      for (const Values& result : simulate_all(operation, inputs, "chunk_value_count=32")) {
        ASSERT_EQ(difference(result, expected), "")
            << describe(operation) << ", " << rank_count << " ranks";
      }
    }
  }
}

TEST(ManyRanks, ThousandVirtualRanks_Agree) {
  const auto inputs = gradients(1024, 100, 5);
  for (const char* preset : {"paper-ge8", "paper-gl4"}) {
    for (gqsgd_schedule schedule : kSchedules) {
      const Operation operation{preset, schedule};
      const std::vector<Values> results = simulate_all(operation, inputs);
      for (size_t rank = 1; rank < results.size(); ++rank) {
        ASSERT_EQ(difference(results[rank], results[0]), "") << describe(operation) << " " << rank;
      }
    }
  }
}

TEST(ManyRanks, HundredAndThirtyThreads_BitsOfVirtualRanks) {
  const auto inputs = gradients(130, 70, 6);
  std::vector<Case> cases;
  for (gqsgd_schedule schedule : kSchedules) {
    const Operation operation{"paper-ge8", schedule};
    cases.push_back({operation, &inputs, simulate(operation, inputs)});
  }
  EXPECT_EQ(run_threads(130, "", run_cases(cases)), "");
}

}  // namespace
}  // namespace gq::test
