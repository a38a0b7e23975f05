// The hierarchical schedule gives the same bits to all ranks, whatever the transport, the chunks
// and the buffers, and those of the direct schedule where there is no hierarchy. Whether the bits
// are good ones is the matter of vectors_test and of tests/api/statistics.
#include <gtest/gtest.h>

#include "tests/support/operation.h"
#include "tests/support/ranks.h"

namespace gq::test {
namespace {

struct Group {
  int rank_count;
  const char* nodes;
};

constexpr Group kGroups[] = {
    {4, "0:1:1:1"},         {4, "0:0:1:1"},         {6, "0:1:2:0:1:2"},
    {8, "1:1:1:0:0:0:0:0"}, {7, "9:9:9:9:5:5:7"},   {9, "0:1:2:0:1:2:0:1:2"},
    {5, "0:0:0:0:1"},       {8, "0:1:2:3:4:5:6:6"}, {3, "2:2:1"}};

std::string options_of(const Group& group, const std::string& more = "") {
  return std::string("nodes=") + group.nodes + more;
}

std::vector<Operation> operations() {
  std::vector<Operation> all;
  const auto add = [&all](const char* format) {
    const uint64_t step = all.size();
    const gqsgd_op op = step % 2 == 0 ? GQSGD_MEAN : GQSGD_SUM;
    all.push_back({format, GQSGD_SCHEDULE_HIERARCHICAL, op, step % 3 == 0, step, step % 5});
  };
  for (const char* format : kPresets) add(format);
  for (const char* format : kBlockFormats) add(format);
  for (const char* format : kWideFormats) add(format);
  for (const char* format : kHostFormats) add(format);
  return all;
}

/** Runs all operations and compares each result with that of virtual ranks. */
RankBody run_all(const Group& group, const std::vector<Values>& inputs) {
  return [&group, &inputs](int rank, gqsgd_comm comm) -> std::string {
    for (const Operation& operation : operations()) {
      Values result;
      const std::string failure = allreduce(comm, operation, inputs[rank], &result);
      if (!failure.empty()) return failure;
      const Values expected = simulate(operation, inputs, options_of(group));
      const std::string wrong = difference(result, expected);
      if (!wrong.empty()) return describe(operation) + ", " + group.nodes + ": " + wrong;
    }
    return "";
  };
}

TEST(Hierarchical, ThreadsAndProcesses_BitsOfVirtualRanks) {
  for (const Group& group : kGroups) {
    for (const size_t value_count : {33, 3001}) {
      const auto inputs = gradients(group.rank_count, value_count, 900 + value_count);
      const std::string chunks = value_count == 33 ? ",chunk_value_count=32" : "";
      EXPECT_EQ(run_threads(group.rank_count, options_of(group, chunks), run_all(group, inputs)),
                "");
      EXPECT_EQ(run_processes(group.rank_count, options_of(group), run_all(group, inputs)), "");
    }
  }
}

TEST(Hierarchical, AnyChunks_SameBitsOnAllRanks) {
  for (const Group& group : kGroups) {
    for (const size_t value_count : {0, 1, 1000, 20001}) {
      const auto inputs = gradients(group.rank_count, value_count, 950);
      for (const Operation& operation : operations()) {
        const Values expected = simulate(operation, inputs, options_of(group));
        const std::string options = options_of(group, ",chunk_value_count=128");
        for (const Values& result : simulate_all(operation, inputs, options)) {
          ASSERT_EQ(difference(result, expected), "")
              << describe(operation) << ", " << group.nodes << ", " << value_count << " values";
        }
      }
    }
  }
}

TEST(Hierarchical, NoHierarchy_BitsOfDirect) {
  const auto inputs = gradients(4, 1000, 960);
  for (Operation operation : operations()) {
    const Values one_node = simulate(operation, inputs);
    const Values alone = simulate(operation, inputs, "nodes=0:1:2:3");
    operation.schedule = GQSGD_SCHEDULE_DIRECT;
    const Values direct = simulate(operation, inputs, "nodes=0:0:1:1");
    EXPECT_EQ(difference(one_node, direct), "") << describe(operation);
    EXPECT_EQ(difference(alone, direct), "") << describe(operation);
  }
}

TEST(Hierarchical, NumbersOfNodes_OnlyNames) {
  const auto inputs = gradients(5, 1000, 970);
  for (const Operation& operation : operations()) {
    EXPECT_EQ(difference(simulate(operation, inputs, "nodes=0:1:0:1:1"),
                         simulate(operation, inputs, "nodes=4294967295:0:4294967295:0:0")),
              "");
  }
}

TEST(Hierarchical, HundredRanksOnUnequalNodes_Agree) {
  std::string nodes = "nodes=0";
  for (int rank = 1; rank < 100; ++rank) nodes.append(":").append(std::to_string(rank * rank % 37));
  const auto inputs = gradients(100, 2000, 980);
  for (const char* format : {"paper-ge8", "blocks-8"}) {
    const Operation operation{format, GQSGD_SCHEDULE_HIERARCHICAL};
    const std::vector<Values> results = simulate_all(operation, inputs, nodes);
    for (const Values& result : results) ASSERT_EQ(difference(result, results[0]), "") << format;
  }
}

std::string refusal(const char* options) {
  gqsgd_comm comms[4] = {};
  const gqsgd_status status = gqsgd_comm_create_local(4, options, comms);
  return std::string(gqsgd_status_name(status)) + ": " + gqsgd_last_error();
}

TEST(Hierarchical, ImpossibleNodes_Refused) {
  const auto refused = [](const char* options, const char* sentence) {
    const std::string text = refusal(options);
    EXPECT_EQ(text.rfind("INVALID_ARGUMENT: ", 0), 0u) << text;
    EXPECT_NE(text.find(sentence), std::string::npos) << text;
  };
  refused("nodes=0:0:1", "option nodes has 3 numbers; this group has 4 ranks");
  refused("nodes=0:0:1:1:1", "option nodes has 5 numbers; this group has 4 ranks");
  refused("nodes=0:x:1:1", "option nodes has \"x\" for rank 1");
  refused("nodes=0:0:-1:1", "option nodes has \"-1\" for rank 2");
  refused("nodes=0:0:1:4294967296", "for rank 3");
  refused("nodes=", "option nodes has \"\" for rank 0");
}

}  // namespace
}  // namespace gq::test
