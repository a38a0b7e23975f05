// The option `threads`: the same bits for any number of threads, and none of them in the way of
// waiting, aborting or ending.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <thread>

#include "tests/support/operation.h"
#include "tests/support/ranks.h"

namespace gq::test {
namespace {

// Shards of three ranks are longer than what is cut in parts, and end unevenly.
constexpr int kRanks = 3;
constexpr size_t kValues = 200003;

size_t thread_count() {
  size_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/task")) {
    count += entry.exists() ? 1 : 0;
  }
  return count;
}

/** A thread that was joined stays listed for a moment. */
size_t settled_thread_count(size_t expected) {
  for (int turn = 0; turn < 200 && thread_count() != expected; ++turn) usleep(10000);
  return thread_count();
}

std::vector<Operation> operations() {
  std::vector<Operation> all;
  for (const gqsgd_schedule schedule : kSchedules) {
    for (const char* preset : kPresets) all.push_back({preset, schedule});
    for (const char* format : kBlockFormats) all.push_back({format, schedule});
    all.push_back({"paper-gl8,norm=2:2", schedule});
  }
  for (const char* format : kWideFormats) {
    all.push_back({format, GQSGD_SCHEDULE_DIRECT});
    all.push_back({format, GQSGD_SCHEDULE_HIERARCHICAL});
  }
  for (const char* format : kHostFormats) all.push_back({format, GQSGD_SCHEDULE_DIRECT});
  all.push_back({"levels=linear,bits=4,norm=2:2", GQSGD_SCHEDULE_SPARSE});
  all.push_back({"paper-gl8", GQSGD_SCHEDULE_NATIVE});
  for (size_t k = 0; k < all.size(); ++k) {
    all[k].step = k;
    all[k].in_place = k % 2 == 1;
  }
  return all;
}

std::string options_of(int threads, int64_t chunk_value_count) {
  return "nodes=0:1:1,threads=" + std::to_string(threads) +
         ",chunk_value_count=" + std::to_string(chunk_value_count);
}

class Threads : public testing::TestWithParam<int> {};

TEST_P(Threads, VirtualRanks_SameBits) {
  const auto inputs = gradients(kRanks, kValues, 21);
  for (const Operation& operation : operations()) {
    const Values expected = simulate(operation, inputs, options_of(1, 65536));
    for (const int64_t chunk : {65536, 20000}) {
      for (const Values& result : simulate_all(operation, inputs, options_of(GetParam(), chunk))) {
        ASSERT_EQ(difference(result, expected), "") << describe(operation) << ", chunk " << chunk;
      }
    }
  }
}

/** Some of the operations as ranks of a group make them, one of them with fewer threads. */
RankBody equal_bits(const std::vector<Values>& inputs, const std::vector<Operation>& all,
                    const std::vector<Values>& expected) {
  return [&](int rank, gqsgd_comm comm) -> std::string {
    for (size_t k = 0; k < all.size(); ++k) {
      if (all[k].schedule == GQSGD_SCHEDULE_NATIVE) continue;
      Values result;
      const std::string failure = allreduce(comm, all[k], inputs[rank], &result);
      if (!failure.empty()) return failure;
      const std::string wrong = difference(result, expected[k]);
      if (!wrong.empty()) return describe(all[k]) + ": " + wrong;
    }
    return "";
  };
}

TEST_P(Threads, ThreadsAndProcesses_SameBits) {
  const auto inputs = gradients(kRanks, kValues, 22);
  const std::vector<Operation> all = operations();
  std::vector<Values> expected;
  for (const Operation& operation : all) {
    expected.push_back(simulate(operation, inputs, options_of(1, 65536)));
  }
  const RankBody body = equal_bits(inputs, all, expected);
  const std::string options = options_of(GetParam(), 65536);
  EXPECT_EQ(run_threads(kRanks, options, body), "");
  EXPECT_EQ(run_processes(kRanks, options, body), "");
  EXPECT_EQ(run_threads(kRanks, options + ",nontemporal_bytes=1", body), "");
  EXPECT_EQ(run_processes(kRanks, options + ",nontemporal_bytes=5000", body), "");
}

/** The slice of each rank after a reduce-scatter, or what all have after an allgather. */
std::vector<Values> results_in_slices(const Quantizer& quantizer, const std::vector<Values>& inputs,
                                      const std::string& options, bool gathers) {
  const size_t counts[kRanks] = {100000, 17, kValues - 100017};
  std::vector<Values> results(kRanks);
  const RankBody body = [&](int rank, gqsgd_comm comm) -> std::string {
    results[rank].resize(gathers ? kValues : counts[rank]);
    const gqsgd_config config = config_at(3, 0, GQSGD_SCHEDULE_AUTO);
    const gqsgd_status status =
        gathers ? gqsgd_allgather(comm, quantizer.get(), inputs[rank].data(), results[rank].data(),
                                  counts, GQSGD_FLOAT32, &config, nullptr)
                : gqsgd_reduce_scatter(comm, quantizer.get(), inputs[rank].data(),
                                       results[rank].data(), counts, GQSGD_FLOAT32, GQSGD_MEAN,
                                       &config, nullptr);
    return status == GQSGD_OK ? "" : failure_of(status, gathers ? "allgather" : "reduce_scatter");
  };
  EXPECT_EQ(run_threads(kRanks, options, body), "") << options;
  return results;
}

TEST_P(Threads, Slices_SameBits) {
  const auto inputs = gradients(kRanks, kValues, 22);
  for (const char* spec :
       {"blocks-8", "rotated-4", "paper-gl8", "relative-8", "bf16", "rice-4", "none"}) {
    const Quantizer quantizer(spec);
    for (const bool gathers : {false, true}) {
      const auto expected = results_in_slices(quantizer, inputs, options_of(1, 65536), gathers);
      const auto results =
          results_in_slices(quantizer, inputs, options_of(GetParam(), 65536), gathers);
      for (int rank = 0; rank < kRanks; ++rank) {
        ASSERT_EQ(difference(results[rank], expected[rank]), "") << spec << ", rank " << rank;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Counts, Threads, testing::Values(1, 2, 3, 7));

TEST(ThreadsOption, OutsideItsRange_Refused) {
  gqsgd_comm comm = nullptr;
  for (const char* text : {"threads=0", "threads=-1", "threads=257", "threads=99999999999999"}) {
    EXPECT_EQ(gqsgd_comm_create_local(1, text, &comm), GQSGD_INVALID_ARGUMENT) << text;
    EXPECT_NE(std::string(gqsgd_last_error()).find(std::string("option ") + text),
              std::string::npos)
        << gqsgd_last_error();
    EXPECT_NE(std::string(gqsgd_last_error()).find("1 to 256"), std::string::npos);
  }
  EXPECT_EQ(gqsgd_comm_create_local(1, "threads=many", &comm), GQSGD_INVALID_ARGUMENT);
  EXPECT_NE(std::string(gqsgd_last_error()).find("not an integer"), std::string::npos);
}

TEST(ThreadsOption, Workers_StartAndEndWithTheCommunicator) {
  std::thread([] {}).join();  // sanitizers have a thread of their own from the first one on
  const size_t before = settled_thread_count(1);
  gqsgd_comm comms[2];
  ASSERT_EQ(gqsgd_comm_create_local(2, "threads=4", comms), GQSGD_OK);
  EXPECT_EQ(thread_count(), before + 6);
  EXPECT_EQ(gqsgd_comm_destroy(comms[0]), GQSGD_OK);
  EXPECT_EQ(settled_thread_count(before + 3), before + 3);
  EXPECT_EQ(gqsgd_comm_destroy(comms[1]), GQSGD_OK);
  EXPECT_EQ(settled_thread_count(before), before);
}

double processor_seconds() {
  timespec time;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

TEST(ThreadsOption, RankWaits_ProcessorFreeForOthers) {
  const auto inputs = gradients(2, kValues, 23);
  SharedArray<double> share(1);
  const auto body = [&](int rank, gqsgd_comm comm) -> std::string {
    Values result;
    const Operation operation{"paper-gl8", GQSGD_SCHEDULE_DIRECT};
    std::string failure = allreduce(comm, operation, inputs[rank], &result);
    if (rank == 1) usleep(1500000);
    const auto begin = std::chrono::steady_clock::now();
    const double busy = processor_seconds();
    if (failure.empty()) failure = allreduce(comm, operation, Values(100, 1.0f), &result);
    const std::chrono::duration<double> waited = std::chrono::steady_clock::now() - begin;
    if (rank == 0) share[0] = (processor_seconds() - busy) / waited.count();
    if (rank == 0 && waited.count() < 1) return "rank 0 did not wait";
    return failure;
  };
  EXPECT_EQ(run_processes(2, "threads=7", body), "");
  EXPECT_LT(share[0], 0.05);
}

// Calls follow each other without a pause, so that workers are at work when the abort comes.
TEST(ThreadsOption, AbortAndDestroy_EndCallsWithWorkers) {
  const auto inputs = gradients(2, kValues, 24);
  for (const bool destroys : {false, true}) {
    gqsgd_comm comms[2];
    ASSERT_EQ(gqsgd_comm_create_local(2, "threads=3", comms), GQSGD_OK);
    std::string said[2];
    const auto work = [&](int rank) {
      Values result;
      while (said[rank].empty()) {
        said[rank] =
            allreduce(comms[rank], {"paper-ge8", GQSGD_SCHEDULE_DIRECT}, inputs[rank], &result);
      }
    };
    std::thread ranks[] = {std::thread(work, 0), std::thread(work, 1)};
    usleep(100000);
    EXPECT_EQ(destroys ? gqsgd_comm_destroy(comms[0]) : gqsgd_comm_abort(comms[0]), GQSGD_OK);
    for (std::thread& rank : ranks) rank.join();
    // Between two calls a destroyed handle is stale, and to its peer the rank has left.
    for (const std::string& line : said) {
      const bool told = line.find("ABORTED") != std::string::npos ||
                        (destroys && (line.find("BAD_HANDLE") != std::string::npos ||
                                      line.find("PEER_LOST: rank 0 destroyed its communicator") !=
                                          std::string::npos));
      EXPECT_TRUE(told) << line;
    }
    if (!destroys) gqsgd_comm_destroy(comms[0]);
    gqsgd_comm_destroy(comms[1]);
  }
}

TEST(ThreadsOption, DeathsAndTimeouts_StillReported) {
  const auto inputs = gradients(2, kValues, 25);
  const auto body = [&](int rank, gqsgd_comm comm) -> std::string {
    Values result;
    const Operation operation{"paper-gl4", GQSGD_SCHEDULE_DIRECT};
    std::string failure = allreduce(comm, operation, inputs[rank], &result);
    if (!failure.empty()) return failure;
    if (rank == 1) raise(SIGKILL);
    return allreduce(comm, operation, inputs[rank], &result);
  };
  RankProcesses killed(2, "threads=3,timeout_ms=20000", body);
  EXPECT_NE(killed.wait_each()[0].find("PEER_LOST: rank 1"), std::string::npos);

  const auto late = [&](int rank, gqsgd_comm comm) -> std::string {
    Values result;
    if (rank == 1) return usleep(1000000), "";
    return allreduce(comm, {"paper-gl4", GQSGD_SCHEDULE_DIRECT}, inputs[0], &result);
  };
  RankProcesses waiting(2, "threads=3,timeout_ms=200", late);
  EXPECT_NE(waiting.wait_each()[0].find("TIMEOUT"), std::string::npos);
}

// The thread of requests is the one that the workers help then.
TEST(ThreadsOption, Requests_UseWorkers) {
  const auto inputs = gradients(2, kValues, 26);
  const Operation operation{"rotated-8", GQSGD_SCHEDULE_DIRECT};
  const Values expected = simulate(operation, inputs);
  const auto body = [&](int rank, gqsgd_comm comm) -> std::string {
    const Quantizer quantizer(operation.quantizer);
    std::vector<Values> results(4, Values(kValues));
    std::vector<gqsgd_request> requests(4);
    for (size_t k = 0; k < results.size(); ++k) {
      const gqsgd_status status = gqsgd_allreduce_start(
          comm, quantizer.get(), inputs[rank].data(), results[k].data(), kValues, GQSGD_FLOAT32,
          GQSGD_MEAN, config_at(0, 0, operation.schedule), nullptr, &requests[k]);
      if (status != GQSGD_OK) return failure_of(status, "start");
    }
    for (size_t k = 0; k < results.size(); ++k) {
      const gqsgd_status status = gqsgd_request_wait(requests[k]);
      if (status != GQSGD_OK) return failure_of(status, "wait");
      const std::string wrong = difference(results[k], expected);
      if (!wrong.empty()) return wrong;
    }
    return "";
  };
  EXPECT_EQ(run_threads(2, "threads=3", body), "");
}

// What is measured adds more operands than such groups have ranks. An array that is too short is
// found by the allocator at the group's end, or by AddressSanitizer.
TEST(ThreadsOption, MeasuringInGroupsOfFewRanks_WithinTheirMemory) {
  for (int round = 0; round < 4; ++round) {
    for (int ranks = 1; ranks <= 3; ++ranks) {
      const auto body = [](int, gqsgd_comm comm) -> std::string {
        Values result;
        const std::string failure =
            allreduce(comm, {"none", GQSGD_SCHEDULE_AUTO}, Values(100, 1), &result);
        return failure.empty() ? difference(result, Values(100, 1)) : failure;
      };
      EXPECT_EQ(run_threads(ranks, "costs=measure,threads=2", body), "") << ranks;
    }
  }
}

}  // namespace
}  // namespace gq::test
