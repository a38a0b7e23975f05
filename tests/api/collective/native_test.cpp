// Schedule native as callers see it: sums by the transport's own allreduce have the bits of virtual
// ranks and of other schedules; what goes wrong in them has a name. Over MPI: tests/api/mpi.
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <fstream>

#include "tests/support/adding_sockets.h"
#include "tests/support/operation.h"
#include "tests/support/ranks.h"

namespace gq::test {
namespace {

bool has(const std::string& text, const char* part) { return text.find(part) != std::string::npos; }

/** Every rank makes every operation; each result is that of virtual ranks. */
RankBody run_all(const std::vector<Operation>& operations,
                 const std::vector<std::vector<Values>>& inputs) {
  return [&](int rank, gqsgd_comm comm) -> std::string {
    for (const Operation& operation : operations) {
      for (const std::vector<Values>& of_count : inputs) {
        Values result;
        const std::string failure = allreduce(comm, operation, of_count[rank], &result);
        if (!failure.empty()) return failure;
        const std::string wrong = difference(result, simulate(operation, of_count));
        if (!wrong.empty()) return describe(operation) + ": " + wrong;
      }
    }
    return "";
  };
}

std::vector<Operation> native_operations() {
  std::vector<Operation> operations;
  for (const char* format : kNativeFormats) {
    for (const gqsgd_op op : {GQSGD_MEAN, GQSGD_SUM}) {
      const uint64_t step = operations.size();
      operations.push_back({format, GQSGD_SCHEDULE_NATIVE, op, step % 3 == 0, step, step % 7});
    }
  }
  operations.push_back({"paper-gl4,combine=exact", GQSGD_SCHEDULE_NATIVE});
  return operations;
}

class Native : public testing::TestWithParam<int> {};

TEST_P(Native, AllFormats_BitsOfVirtualRanks) {
  std::vector<std::vector<Values>> inputs;
  for (const size_t count : {0, 1, 4, 5, 33, 1000, 5000}) {
    inputs.push_back(gradients(GetParam(), count, count));
  }
  AddingGroup group(GetParam());
  const std::vector<Operation> operations = native_operations();
  const std::string options = "chunk_value_count=256";
  EXPECT_EQ(run_threads(group.comms(options), run_all(operations, inputs)), "");
  EXPECT_GE(group.rank(0).sums, operations.size() * 6);  // all but those of no values
}

INSTANTIATE_TEST_SUITE_P(Ranks, Native, testing::Values(1, 2, 3, 4, 7));

TEST(Native, Tensors_BitsOfATree) {
  const std::vector<size_t> counts = {5, 0, 1000, 33, 3};
  AddingGroup group(3);
  const auto body = [&](int rank, gqsgd_comm comm) -> std::string {
    const Quantizer quantizer("paper-gl8");
    std::vector<Values> inputs, results[2];
    for (size_t count : counts) inputs.push_back(gradients(3, count, count)[rank]);
    for (int way = 0; way < 2; ++way) {
      std::vector<const void*> send;
      std::vector<void*> recv;
      for (const Values& input : inputs) results[way].push_back(Values(input.size()));
      for (size_t k = 0; k < counts.size(); ++k) {
        send.push_back(inputs[k].data());
        recv.push_back(results[way][k].data());
      }
      const auto schedule = way == 0 ? GQSGD_SCHEDULE_NATIVE : GQSGD_SCHEDULE_TREE;
      const gqsgd_status status = gqsgd_allreduce_many(
          comm, quantizer.get(), send.data(), recv.data(), counts.data(), counts.size(),
          GQSGD_FLOAT32, GQSGD_MEAN, config_at(3, 1, schedule), nullptr);
      if (status != GQSGD_OK) return failure_of(status, "allreduce_many");
    }
    return results[0] == results[1] ? "" : "other bits";
  };
  EXPECT_EQ(run_threads(group.comms(""), body), "");
}

TEST(Native, Floats_AddedByTheTransport) {
  AddingGroup group(4);
  const std::vector<Values> inputs = gradients(4, 1001, 8);
  Values sums[4];
  const auto body = [&](int rank, gqsgd_comm comm) {
    return allreduce(comm, {"none", GQSGD_SCHEDULE_NATIVE, GQSGD_SUM}, inputs[rank], &sums[rank]);
  };
  EXPECT_EQ(run_threads(group.comms(""), body), "");
  EXPECT_EQ(group.rank(0).sums, 1u);
  for (size_t e = 0; e < inputs[0].size(); ++e) {
    double exact = 0, size = 0;
    for (const Values& input : inputs) exact += input[e], size += std::abs(input[e]);
    ASSERT_NEAR(sums[0][e], exact, 4e-7 * size) << e;
  }
  for (const Values& sum : sums) EXPECT_EQ(sum, sums[0]);
}

/** Constants by which a transport's own allreduce is faster than any message. */
std::string costs_of_fast_sums() {
  const std::string path = testing::TempDir() + "native_costs_" + std::to_string(getpid());
  std::ofstream(path) << "latency_ns = 1e6\nnative_step_ns = 10\nnative_byte_ns = 0.01\n";
  return path;
}

TEST(Native, Auto_FastestByCosts_TakenAndCounted) {
  const std::string path = costs_of_fast_sums();
  const std::vector<Values> inputs = gradients(3, 500, 6);
  AddingGroup group(3);
  Values sums[3];
  const auto body = [&](int rank, gqsgd_comm comm) -> std::string {
    uint64_t before = 0, after = 0;
    for (const char* format : {"paper-ge8", "none"}) {
      const std::string failure =
          allreduce(comm, {format, GQSGD_SCHEDULE_AUTO, GQSGD_SUM}, inputs[rank], &sums[rank]);
      if (!failure.empty()) return failure;
      gqsgd_comm_stat(comm, "native_float_calls", &after);
      if (after != ++before) return std::string(format) + " was not left to the transport";
    }
    return "";
  };
  EXPECT_EQ(run_threads(group.comms("costs=" + path), body), "");
  EXPECT_EQ(sums[1], sums[0]);
  EXPECT_EQ(sums[2], sums[0]);
  for (size_t e = 0; e < sums[0].size(); ++e) {
    ASSERT_NEAR(sums[0][e], inputs[0][e] + inputs[1][e] + inputs[2][e], 1e-5) << e;
  }
  // Where words may not be left alone codes go by direct: as integers they have a third of the
  // levels.
  AddingGroup codes(3);
  const std::string options = "uncompressed=never,costs=" + path;
  const Operation operation{"paper-gl8", GQSGD_SCHEDULE_AUTO};
  const Values expected = simulate({"paper-gl8", GQSGD_SCHEDULE_DIRECT}, inputs);
  const auto coded = [&](int rank, gqsgd_comm comm) -> std::string {
    Values result;
    const std::string failure = allreduce(comm, operation, inputs[rank], &result);
    return failure.empty() ? difference(result, expected) : failure;
  };
  EXPECT_EQ(run_threads(codes.comms(options), coded), "");
  EXPECT_EQ(codes.rank(0).sums, 0u);
  std::remove(path.c_str());
}

TEST(Native, MeasuredByTheRanks_OneSumAfterTheOther) {
  AddingGroup group(3);
  const auto body = [&](int rank, gqsgd_comm comm) -> std::string {
    Values result;
    const std::string failure = allreduce(comm, {"none", GQSGD_SCHEDULE_AUTO, GQSGD_SUM},
                                          Values(100, 1.0f * rank), &result);
    return failure.empty() ? difference(result, Values(100, 3)) : failure;
  };
  EXPECT_EQ(run_threads(group.comms("costs=measure"), body), "");
  EXPECT_GT(group.rank(0).sums, 5u);
  for (int rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(group.rank(rank).early_sums, 0u) << "rank " << rank;
    EXPECT_EQ(group.rank(rank).sums, group.rank(0).sums) << "rank " << rank;
  }
}

TEST(Native, Auto_TransportCannotAdd_NotTaken) {
  const std::string path = costs_of_fast_sums();
  const auto body = [&](int rank, gqsgd_comm comm) -> std::string {
    Values result;
    return allreduce(comm, {"none", GQSGD_SCHEDULE_AUTO}, Values(100, 1.0f * rank), &result);
  };
  EXPECT_EQ(run_threads(3, "costs=" + path, body), "");
  std::remove(path.c_str());
}

TEST(Native, SeveralRequests_DoneInOrder) {
  AddingGroup group(3);
  const std::vector<Values> inputs = gradients(3, 700, 4);
  const auto body = [&](int rank, gqsgd_comm comm) -> std::string {
    constexpr size_t kRequestsInFlight = 8;
    const Quantizer quantizer("paper-gl8,block=32");
    std::vector<Values> results(kRequestsInFlight, Values(700));
    std::vector<gqsgd_request> requests(kRequestsInFlight);
    for (uint64_t k = 0; k < kRequestsInFlight; ++k) {
      const auto schedule = k % 2 ? GQSGD_SCHEDULE_NATIVE : GQSGD_SCHEDULE_RING;
      const gqsgd_status status = gqsgd_allreduce_start(
          comm, quantizer.get(), inputs[rank].data(), results[k].data(), 700, GQSGD_FLOAT32,
          GQSGD_MEAN, config_at(k, 0, schedule), nullptr, &requests[k]);
      if (status != GQSGD_OK) return failure_of(status, "start");
    }
    for (uint64_t k = 0; k < kRequestsInFlight; ++k) {
      const gqsgd_status status = gqsgd_request_wait(requests[kRequestsInFlight - 1 - k]);
      if (status != GQSGD_OK) return failure_of(status, "wait");
    }
    for (uint64_t k = 0; k < kRequestsInFlight; ++k) {
      const Operation operation{
          "paper-gl8,block=32", GQSGD_SCHEDULE_NATIVE, GQSGD_MEAN, false, k, 0};
      const std::string wrong = difference(results[k], simulate(operation, inputs));
      if (!wrong.empty()) return "request " + std::to_string(k) + ": " + wrong;
    }
    return "";
  };
  EXPECT_EQ(run_threads(group.comms(""), body), "");
}

TEST(Native, OtherSchedule_MismatchOnAllRanks_GroupContinues) {
  AddingGroup group(3);
  const auto body = [&](int rank, gqsgd_comm comm) -> std::string {
    Operation operation{"paper-gl8", GQSGD_SCHEDULE_NATIVE};
    if (rank == 1) operation.schedule = GQSGD_SCHEDULE_TREE;
    Values result;
    const std::string failure = allreduce(comm, operation, Values(100, 1.0f), &result);
    if (!has(failure, "config.schedule differs: rank 0 has native, rank 1 has tree")) {
      return "says: " + failure;
    }
    operation.schedule = GQSGD_SCHEDULE_NATIVE;
    return allreduce(comm, operation, Values(100, 1.0f), &result);
  };
  EXPECT_EQ(run_threads(group.comms(""), body), "");
}

TEST(Native, TransportCannotAdd_RankNamed) {
  AddingGroup group(3);
  std::vector<gqsgd_transport> tables = group.tables();
  tables[2].allreduce = nullptr;
  const auto body = [&](int rank, gqsgd_comm comm) -> std::string {
    Values result;
    const std::string failure =
        allreduce(comm, {"paper-gl8", GQSGD_SCHEDULE_NATIVE}, Values(100, 1.0f), &result);
    const bool named =
        rank == 2 ? has(failure, "UNSUPPORTED") && has(failure, "gqsgd_transport whose allreduce")
                  : has(failure, "REMOTE_ERROR") && has(failure, "rank 2 refused its own call");
    if (!named) return "says: " + failure;
    return allreduce(comm, {"paper-gl8", GQSGD_SCHEDULE_TREE}, Values(100, 1.0f), &result);
  };
  EXPECT_EQ(run_threads(custom_comms(tables, ""), body), "");
}

TEST(Native, AllreduceFails_BackendWithCodeAndPhase) {
  AddingGroup group(2);
  group.rank(1).failing_code = 55;
  const auto body = [&](int rank, gqsgd_comm comm) -> std::string {
    const auto begin = std::chrono::steady_clock::now();
    const Values input(100, 1.0f);
    Values result;
    const std::string failure =
        allreduce(comm, {"paper-gl8", GQSGD_SCHEDULE_NATIVE, GQSGD_MEAN, true}, input, &result);
    const std::chrono::duration<double> waited = std::chrono::steady_clock::now() - begin;
    if (rank == 1) {
      const bool named = has(failure, "BACKEND") && has(failure, "while packed codes are moved") &&
                         has(failure, "allreduce failed with code 55");
      return named ? "" : "says: " + failure;
    }
    // Who waits for a sum does not know for whom.
    const bool named = has(failure, "TIMEOUT") &&
                       has(failure, "add the packed codes of all 2 ranks") &&
                       has(failure, "schedule native");
    if (waited.count() < 0.2 || waited.count() > 2) return std::to_string(waited.count()) + " s";
    return named ? "" : "says: " + failure;
  };
  EXPECT_EQ(run_threads(group.comms("timeout_ms=200"), body), "");
}

}  // namespace
}  // namespace gq::test
