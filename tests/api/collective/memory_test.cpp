// What a communicator keeps: workspace within the promised size, made once.
#include <gqsgd_stages.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cctype>

#include "tests/support/operation.h"
#include "tests/support/ranks.h"

namespace gq::test {
namespace {

constexpr size_t kValues = 1000000;

uint64_t workspace_bytes(gqsgd_comm comm) {
  uint64_t bytes = 0;
  gqsgd_comm_stat(comm, "workspace_bytes", &bytes);
  return bytes;
}

class Workspace : public testing::TestWithParam<std::tuple<const char*, gqsgd_schedule>> {};

TEST_P(Workspace, Reserve_AllocatesAll_WithinTwiceThePackedSizeAndOneMebibyte) {
  const auto [preset, schedule] = GetParam();
  const Operation operation{preset, schedule};
  const auto body = [&](int, gqsgd_comm comm) -> std::string {
    const Quantizer quantizer(operation.quantizer);
    size_t packed_bytes = 0;
    gqsgd_packed_size(quantizer.get(), kValues, &packed_bytes);
    const gqsgd_status status = gqsgd_comm_reserve(comm, quantizer.get(), kValues, GQSGD_FLOAT32);
    if (status != GQSGD_OK) return failure_of(status, "gqsgd_comm_reserve");
    const uint64_t reserved = workspace_bytes(comm);
    Values result;
    const std::string failure = allreduce(comm, operation, Values(kValues, 1.0f), &result);
    if (!failure.empty()) return failure;
    const uint64_t used = workspace_bytes(comm);
    if (used != reserved) {
      return "reserved " + std::to_string(reserved) + " bytes, used " + std::to_string(used);
    }
    const uint64_t most = 2 * packed_bytes + (1u << 20);
    return used <= most ? "" : std::to_string(used) + " bytes, at most " + std::to_string(most);
  };
  const std::string nodes = schedule == GQSGD_SCHEDULE_HIERARCHICAL ? "nodes=0:1:1:1" : "";
  EXPECT_EQ(run_threads(4, nodes, body), "") << describe(operation);
  EXPECT_EQ(run_processes(4, nodes, body), "") << describe(operation);
  const std::string checked = nodes + (nodes.empty() ? "" : ",") + "checksum=crc32c";
  EXPECT_EQ(run_threads(4, checked, body), "") << describe(operation);
}

/** Equal slices of `values` to their owners. */
gqsgd_status reduce_scatter(gqsgd_comm comm, const Quantizer& quantizer, const Values& values,
                            Values* slice) {
  const size_t own = values.size() / 4;
  const size_t counts[] = {own, own, own, own};
  slice->resize(own);
  return gqsgd_reduce_scatter(comm, quantizer.get(), values.data(), slice->data(), counts,
                              GQSGD_FLOAT32, GQSGD_MEAN, nullptr, nullptr);
}

// What gqsgd_comm_reserve does not know of: float sums of a slice.
TEST(WorkspaceOfSlices, FirstCall_Allocates_LaterCallsKeepIt) {
  for (const char* format : {"paper-gl8", "blocks-8", "rotated-4"}) {
    const auto body = [&](int, gqsgd_comm comm) -> std::string {
      const Quantizer quantizer(format);
      const Values values(kValues, 1.0f);
      Values slice;
      gqsgd_status status = gqsgd_comm_reserve(comm, quantizer.get(), kValues, GQSGD_FLOAT32);
      if (status == GQSGD_OK) status = reduce_scatter(comm, quantizer, values, &slice);
      const uint64_t first = workspace_bytes(comm);
      if (status == GQSGD_OK) status = reduce_scatter(comm, quantizer, values, &slice);
      if (status != GQSGD_OK) return failure_of(status, "reduce_scatter");
      const uint64_t then = workspace_bytes(comm);
      return then == first ? "" : std::to_string(first) + " bytes became " + std::to_string(then);
    };
    EXPECT_EQ(run_threads(4, "", body), "") << format;
  }
}

/** Kilobytes that this process has held at most. */
long most_held_kb() {
  rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss;
}

// A program that reserves for one tensor after the other: each time a little more.
TEST(WorkspaceInSmallSteps, GrowthInSmallSteps_LeavesLittleBehind) {
  const size_t kSteps = 150, kStepValues = 20000;  // 9 MB at the end, 2 GB in all steps
  const auto body = [&](int, gqsgd_comm comm) -> std::string {
    const Quantizer quantizer("paper-gl8");
    for (const bool again : {false, true}) {
      for (size_t step = 1; step <= kSteps; ++step) {
        const size_t values = (step + (again ? kSteps : 0)) * kStepValues;
        const gqsgd_status status =
            gqsgd_comm_reserve(comm, quantizer.get(), values, GQSGD_FLOAT32);
        if (status != GQSGD_OK) return failure_of(status, "gqsgd_comm_reserve");
      }
      Values result;
      const Operation operation{"paper-gl8", GQSGD_SCHEDULE_RING};
      const std::string failure = allreduce(comm, operation, Values(1000, 1.0f), &result);
      if (!failure.empty()) return failure;
    }
    return "";
  };
  const long before_kb = most_held_kb();
  EXPECT_EQ(run_threads(2, "", body), "");
  EXPECT_LT(most_held_kb() - before_kb, 400 << 10);
}

const auto kName = [](const auto& info) {
  std::string name = std::get<0>(info.param);
  for (char& letter : name)
    letter = std::isalnum(static_cast<unsigned char>(letter)) ? letter : '_';
  return name + "_" + schedule_name(std::get<1>(info.param));
};

INSTANTIATE_TEST_SUITE_P(Formats, Workspace,
                         testing::Combine(testing::ValuesIn(kPresets),
                                          testing::ValuesIn(kSchedules)),
                         kName);
INSTANTIATE_TEST_SUITE_P(BlockFormats, Workspace,
                         testing::Combine(testing::ValuesIn(kBlockFormats),
                                          testing::ValuesIn(kSchedules)),
                         kName);
INSTANTIATE_TEST_SUITE_P(WideFormats, Workspace,
                         testing::Combine(testing::ValuesIn(kWideFormats),
                                          testing::Values(GQSGD_SCHEDULE_DIRECT,
                                                          GQSGD_SCHEDULE_HIERARCHICAL)),
                         kName);
INSTANTIATE_TEST_SUITE_P(HostFormats, Workspace,
                         testing::Combine(testing::ValuesIn(kHostFormats),
                                          testing::Values(GQSGD_SCHEDULE_DIRECT,
                                                          GQSGD_SCHEDULE_HIERARCHICAL)),
                         kName);

}  // namespace
}  // namespace gq::test
