// Over a network every rank gets the bits of virtual ranks, and of threads for all element types.
#include <gtest/gtest.h>
#include <stdlib.h>

#include <cstdio>
#include <cstring>

#include "tests/api/network/network_ranks.h"
#include "tests/support/operation.h"

namespace gq::test {
namespace {

constexpr size_t kCounts[] = {0, 1, 33, 1000, 70001};

struct Case {
  Operation operation;
  const std::vector<Values>* inputs;
  Values expected;
};

std::vector<Case> cases_of(const std::vector<std::vector<Values>>& inputs) {
  std::vector<Case> cases;
  const auto add = [&](const char* format, gqsgd_schedule schedule, const auto& values) {
    const uint64_t step = cases.size();
    const gqsgd_op op = step % 2 == 0 ? GQSGD_MEAN : GQSGD_SUM;
    Operation operation{format, schedule, op, step % 3 == 0, step, step % 7};
    cases.push_back({operation, &values, simulate(operation, values)});
  };
  for (const std::vector<Values>& values : inputs) {
    for (const gqsgd_schedule schedule : kSchedules) {
      for (const char* preset : kPresets) add(preset, schedule, values);
    }
    for (const char* format : kWideFormats) add(format, GQSGD_SCHEDULE_DIRECT, values);
    for (const char* format : kHostFormats) add(format, GQSGD_SCHEDULE_DIRECT, values);
    add("paper-gl8", GQSGD_SCHEDULE_SPARSE, values);
    add("blocks-8", GQSGD_SCHEDULE_HIERARCHICAL, values);
  }
  return cases;
}

class NetworkSameBits : public testing::TestWithParam<int> {};

TEST_P(NetworkSameBits, AllPresets_BitsOfVirtualRanks) {
  GQ_SKIP_WITHOUT_NETWORK();
  std::vector<std::vector<Values>> inputs;
  for (const size_t count : kCounts) inputs.push_back(gradients(GetParam(), count, 100 + count));
  const std::vector<Case> cases = cases_of(inputs);
  const RankBody body = [&](int rank, gqsgd_comm comm) -> std::string {
    const char* name = nullptr;
    gqsgd_comm_transport(comm, &name);
    if (std::string(name) != "network") return name;
    for (const Case& one : cases) {
      Values result;
      const std::string failure =
          allreduce(comm, one.operation, (*one.inputs)[static_cast<size_t>(rank)], &result);
      if (!failure.empty()) return failure;
      const std::string wrong = difference(result, one.expected);
      if (!wrong.empty()) return describe(one.operation) + ": " + wrong;
    }
    return "";
  };
  for (const char* options : {"timeout_ms=60000", "timeout_ms=60000,chunk_value_count=4096",
                              "timeout_ms=60000,chunk_value_count=4096,paths=3"}) {
    RankProcesses ranks(GetParam(), options, body, network_maker());
    EXPECT_EQ(ranks.wait(), "") << GetParam() << " ranks, " << options;
  }
}

struct TypedCall {
  const char* quantizer;
  gqsgd_schedule schedule;
  size_t value_count;
};

/** Every preset with every schedule that takes it, at several lengths, where GQSGD_TEST_LONG is
 *  set; else one. Each is called with every element type. */
std::vector<TypedCall> typed_calls() {
  if (getenv("GQSGD_TEST_LONG") == nullptr) return {{"blocks-8", GQSGD_SCHEDULE_DIRECT, 3001}};
  std::vector<TypedCall> calls;
  for (const size_t value_count : {size_t{1}, size_t{33}, size_t{3001}, size_t{70001}}) {
    for (const gqsgd_schedule schedule : kSchedules) {
      for (const char* preset : kPresets) calls.push_back({preset, schedule, value_count});
    }
    for (const char* format : kWideFormats) {
      calls.push_back({format, GQSGD_SCHEDULE_DIRECT, value_count});
      calls.push_back({format, GQSGD_SCHEDULE_HIERARCHICAL, value_count});
    }
    calls.push_back({"paper-gl8", GQSGD_SCHEDULE_SPARSE, value_count});
    calls.push_back({"paper-gl8", GQSGD_SCHEDULE_HIERARCHICAL, value_count});
  }
  return calls;
}

/** Adds the result of one allreduce to `bytes`. */
std::string reduce_typed(int rank, gqsgd_comm comm, const TypedCall& call, gqsgd_dtype dtype,
                         std::vector<unsigned char>* bytes) {
  const Quantizer quantizer(call.quantizer);
  const size_t element_bytes = dtype == GQSGD_FLOAT64 ? 8 : dtype == GQSGD_FLOAT32 ? 4 : 2;
  std::vector<uint64_t> memory(call.value_count);
  auto* const first = reinterpret_cast<unsigned char*>(memory.data());
  for (size_t e = 0; e < call.value_count; ++e) {
    // Finite in every type: the highest exponent bits are not all set.
    const uint64_t word = mix(e + 7919 * static_cast<uint64_t>(rank)) & 0xbfffbfffbfffbfffu;
    std::memcpy(first + e * element_bytes, &word, element_bytes);
  }
  // Half of the calls of each schedule, preset and type, over the lengths.
  const bool is_sum = (call.value_count / 33 + static_cast<uint64_t>(dtype)) % 2 == 1;
  const gqsgd_op op = is_sum ? GQSGD_SUM : GQSGD_MEAN;
  const gqsgd_status status =
      gqsgd_allreduce(comm, quantizer.get(), first, first, call.value_count, dtype, op,
                      config_at(static_cast<uint64_t>(dtype), 0, call.schedule), nullptr);
  if (status != GQSGD_OK) return failure_of(status, call.quantizer);
  bytes->insert(bytes->end(), first, first + call.value_count * element_bytes);
  return "";
}

/** All results, as bytes. */
std::string reduce_all_types(int rank, gqsgd_comm comm, std::vector<unsigned char>* bytes) {
  for (const TypedCall& call : typed_calls()) {
    for (const gqsgd_dtype dtype : {GQSGD_FLOAT32, GQSGD_FLOAT16, GQSGD_BFLOAT16, GQSGD_FLOAT64}) {
      const std::string failure = reduce_typed(rank, comm, call, dtype, bytes);
      if (!failure.empty()) return failure;
    }
  }
  return "";
}

TEST_P(NetworkSameBits, AllElementTypes_BitsOfThreads) {
  GQ_SKIP_WITHOUT_NETWORK();
  std::vector<std::vector<unsigned char>> expected(static_cast<size_t>(GetParam()));
  ASSERT_EQ(run_threads(GetParam(), "",
                        [&](int rank, gqsgd_comm comm) {
                          return reduce_all_types(rank, comm, &expected[static_cast<size_t>(rank)]);
                        }),
            "");
  RankProcesses ranks(
      GetParam(), "timeout_ms=60000",
      [&](int rank, gqsgd_comm comm) -> std::string {
        std::vector<unsigned char> bytes;
        const std::string failure = reduce_all_types(rank, comm, &bytes);
        if (!failure.empty()) return failure;
        return bytes == expected[static_cast<size_t>(rank)] ? "" : "other bits";
      },
      network_maker());
  EXPECT_EQ(ranks.wait(), "");
  printf("%zu calls of each of 4 element types\n", typed_calls().size());
}

TEST_P(NetworkSameBits, RequestsAndSlices_BitsOfVirtualRanks) {
  GQ_SKIP_WITHOUT_NETWORK();
  const auto inputs = gradients(GetParam(), 20000, 5);
  const Operation operation{"rotated-4-8", GQSGD_SCHEDULE_DIRECT, GQSGD_MEAN, false, 3, 1};
  const Values expected = simulate(operation, inputs);
  RankProcesses ranks(
      GetParam(), "timeout_ms=60000",
      [&](int rank, gqsgd_comm comm) -> std::string {
        const Quantizer quantizer(operation.quantizer);
        std::vector<Values> results(8, Values(20000));
        std::vector<gqsgd_request> requests(8);
        for (size_t k = 0; k < 8; ++k) {
          const gqsgd_status status =
              gqsgd_allreduce_start(comm, quantizer.get(), inputs[static_cast<size_t>(rank)].data(),
                                    results[k].data(), 20000, GQSGD_FLOAT32, GQSGD_MEAN,
                                    config_at(3, 1, GQSGD_SCHEDULE_DIRECT), nullptr, &requests[k]);
          if (status != GQSGD_OK) return failure_of(status, "gqsgd_allreduce_start");
        }
        for (size_t k = 0; k < 8; ++k) {
          const gqsgd_status status = gqsgd_request_wait(requests[k]);
          if (status != GQSGD_OK) return failure_of(status, "gqsgd_request_wait");
          const std::string wrong = difference(results[k], expected);
          if (!wrong.empty()) return wrong;
        }
        return "";
      },
      network_maker());
  EXPECT_EQ(ranks.wait(), "");
}

INSTANTIATE_TEST_SUITE_P(Ranks, NetworkSameBits, testing::Range(1, 9));

TEST(NetworkNodes, HostIds_AreTheNodes) {
  GQ_SKIP_WITHOUT_NETWORK();
  const auto inputs = gradients(5, 5000, 9);
  const Operation operation{"blocks-8", GQSGD_SCHEDULE_HIERARCHICAL};
  const Values expected = simulate(operation, inputs, "nodes=0:0:1:1:0");
  ASSERT_NE(difference(simulate(operation, inputs), expected), "") << "nodes change the bits";
  RankProcesses ranks(
      5, "timeout_ms=60000",
      [&](int rank, gqsgd_comm comm) -> std::string {
        Values result;
        const std::string failure =
            allreduce(comm, operation, inputs[static_cast<size_t>(rank)], &result);
        return failure.empty() ? difference(result, expected) : failure;
      },
      network_maker({"a", "a", "b", "b", "a"}));
  EXPECT_EQ(ranks.wait(), "");
}

}  // namespace
}  // namespace gq::test
