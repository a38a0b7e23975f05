// Requests through the C ABI: the bits of blocking calls, in order, with nothing left behind, and
// without a core kept busy by the thread that waits.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "tests/support/operation.h"
#include "tests/support/ranks.h"
#include "tests/support/sanitized.h"

namespace gq::test {
namespace {

constexpr int kRanks = 3;
constexpr size_t kInFlight = 8;

/** Operations of mixed sizes, formats and schedules, each with its inputs and right result. */
struct Work {
  Operation operation;
  std::vector<Values> inputs;
  Values expected;
};

std::vector<Work> mixed_work() {
  const size_t counts[kInFlight] = {1, 70000, 0, 1000, 33, 20000, 5, 4096};
  const char* formats[] = {"blocks-8", "paper-ge8", "paper-gl4", "none"};
  std::vector<Work> works;
  for (size_t i = 0; i < kInFlight; ++i) {
    Work work;
    work.operation = {formats[i % 4], kSchedules[i % 4 == 0 ? 3 : i % 4], GQSGD_MEAN, false, i, i};
    work.inputs = gradients(kRanks, counts[i], 70 + i);
    work.expected = simulate(work.operation, work.inputs);
    works.push_back(std::move(work));
  }
  return works;
}

/** One started operation and its own copies of what it reads and writes. */
struct StartedCall {
  StartedCall(const Work& with, int rank)
      : work(&with),
        quantizer(with.operation.quantizer),
        send(with.inputs[static_cast<size_t>(rank)]),
        recv(send.size(), -1.0f) {}

  gqsgd_status start(gqsgd_comm comm) {
    const Operation& operation = work->operation;
    return gqsgd_allreduce_start(comm, quantizer.get(), send.data(), recv.data(), send.size(),
                                 GQSGD_FLOAT32, operation.op, config_of(operation), nullptr,
                                 &request);
  }
  std::string check() {
    const std::string change = difference(recv, work->expected);
    return change.empty() ? "" : describe(work->operation) + ": " + change;
  }

  const Work* work;
  Quantizer quantizer;
  Values send, recv;
  gqsgd_request request = nullptr;
};

std::string start_all(gqsgd_comm comm, std::vector<std::unique_ptr<StartedCall>>& started_calls) {
  for (auto& started : started_calls) {
    const gqsgd_status status = started->start(comm);
    if (status != GQSGD_OK) return failure_of(status, "gqsgd_allreduce_start");
  }
  return "";
}

std::string wait_for(StartedCall& started) {
  const gqsgd_status status = gqsgd_request_wait(started.request);
  return status == GQSGD_OK ? started.check() : failure_of(status, "gqsgd_request_wait");
}

/** Rounds of eight requests each, waited for in an order of the rank's own. */
std::string run_rounds(int rank, gqsgd_comm comm, const std::vector<Work>& works, int rounds) {
  std::vector<std::unique_ptr<StartedCall>> started_calls;
  for (const Work& work : works) started_calls.push_back(std::make_unique<StartedCall>(work, rank));
  for (int round = 0; round < rounds; ++round) {
    for (auto& started : started_calls)
      std::fill(started->recv.begin(), started->recv.end(), -1.0f);
    std::string failure = start_all(comm, started_calls);
    for (size_t i = 0; i < started_calls.size() && failure.empty(); ++i) {
      failure = wait_for(
          *started_calls[(i * 3 + static_cast<size_t>(rank + round)) % started_calls.size()]);
    }
    if (!failure.empty()) return failure;
  }
  return "";
}

TEST(Requests, ThreadsAndProcesses_BitsOfVirtualRanks) {
  const std::vector<Work> works = mixed_work();
  const auto body = [&](int rank, gqsgd_comm comm) { return run_rounds(rank, comm, works, 20); };
  EXPECT_EQ(run_threads(kRanks, "chunk_value_count=4096", body), "");
  EXPECT_EQ(run_processes(kRanks, "chunk_value_count=4096", body), "");
}

TEST(Requests, TestedUntilEnd_ThenBadHandle) {
  const std::vector<Work> works = mixed_work();
  const auto body = [&](int rank, gqsgd_comm comm) -> std::string {
    StartedCall started(works[1], rank);
    if (started.start(comm) != GQSGD_OK) return failure_of(1, "start");
    int32_t done = 0;
    while (done == 0) {
      const gqsgd_status status = gqsgd_request_test(started.request, &done);
      if (status != GQSGD_OK) return failure_of(status, "gqsgd_request_test");
    }
    if (gqsgd_request_test(started.request, &done) != GQSGD_BAD_HANDLE || done != 0)
      return "freed?";
    if (gqsgd_request_wait(started.request) != GQSGD_BAD_HANDLE) return "waited for twice";
    return started.check();
  };
  EXPECT_EQ(run_threads(kRanks, "", body), "");
}

TEST(Requests, BlockingCallsAfterThem_RunLater) {
  const std::vector<Work> works = mixed_work();
  const auto body = [&](int rank, gqsgd_comm comm) -> std::string {
    for (int turn = 0; turn < 50; ++turn) {
      StartedCall first(works[1], rank), second(works[5], rank);
      if (first.start(comm) != GQSGD_OK || second.start(comm) != GQSGD_OK) {
        return failure_of(1, "start");
      }
      Values result;
      const std::string failure = allreduce(comm, works[3].operation, first.send, &result);
      if (!failure.empty()) return failure;
      int32_t done[2] = {0, 0};
      gqsgd_request_test(second.request, &done[1]);
      gqsgd_request_test(first.request, &done[0]);
      if (done[0] != 1 || done[1] != 1) return "a blocking call overtook a request";
      const std::string wrong = first.check() + second.check();
      if (!wrong.empty()) return wrong;
    }
    return "";
  };
  EXPECT_EQ(run_threads(kRanks, "", body), "");
}

TEST(Requests, Step_TakenAtStart) {
  const std::vector<Values> inputs = gradients(kRanks, 3000, 5);
  const auto body = [&](int rank, gqsgd_comm comm) -> std::string {
    const Quantizer quantizer("blocks-8");
    const Values& send = inputs[static_cast<size_t>(rank)];
    std::vector<Values> results(4, Values(send.size()));
    gqsgd_request requests[4];
    gqsgd_comm_set_counter(comm, 40);
    for (size_t i = 0; i < 4; ++i) {
      const gqsgd_status status =
          gqsgd_allreduce_start(comm, quantizer.get(), send.data(), results[i].data(), send.size(),
                                GQSGD_FLOAT32, GQSGD_MEAN, nullptr, nullptr, &requests[i]);
      uint64_t step = 0;
      if (status != GQSGD_OK) return failure_of(status, "start");
      if (gqsgd_comm_counter(comm, &step) != GQSGD_OK || step != 41 + i) return "not counted";
    }
    for (size_t i = 0; i < 4; ++i) {
      const gqsgd_status status = gqsgd_request_wait(requests[i]);
      if (status != GQSGD_OK) return failure_of(status, "wait");
      const Operation operation{"blocks-8", GQSGD_SCHEDULE_DIRECT, GQSGD_MEAN, false, 40 + i, 0};
      const std::string wrong = difference(results[i], simulate(operation, inputs));
      if (!wrong.empty()) return "step " + std::to_string(40 + i) + ": " + wrong;
    }
    return "";
  };
  EXPECT_EQ(run_threads(kRanks, "", body), "");
}

struct Holdings {
  size_t threads = 0, descriptors = 0, resident_bytes = 0;

  Holdings() {
    for (const auto& entry : std::filesystem::directory_iterator("/proc/self/task")) {
      threads += entry.exists() ? 1 : 0;
    }
    for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
      descriptors += entry.path().empty() ? 0 : 1;
    }
    size_t pages = 0;
    if (FILE* file = fopen("/proc/self/statm", "r"); file != nullptr) {
      if (fscanf(file, "%*u %zu", &pages) != 1) pages = 0;
      fclose(file);
    }
    resident_bytes = pages * static_cast<size_t>(sysconf(_SC_PAGESIZE));
    if (kAddressSanitized) resident_bytes = heap_bytes();
  }
};

/** Rounds from the environment for a long run; a short one otherwise. */
int round_count() {
  const char* text = getenv("GQSGD_TEST_ROUNDS");
  return text == nullptr ? 300 : atoi(text);
}

TEST(Requests, AllEnded_NothingLeftBehind) {
  constexpr size_t kThreads = kThreadSanitized ? 3 : 2;  // ThreadSanitizer has one of its own
  const std::vector<Work> works = mixed_work();
  // Every rank is a process of its own, so that what it holds is what the library holds.
  const auto body = [&](int rank, gqsgd_comm comm) -> std::string {
    std::string failure = run_rounds(rank, comm, works, 50);
    const Holdings before;
    if (failure.empty()) failure = run_rounds(rank, comm, works, round_count());
    const Holdings after;
    // No rank leaves before all have checked: the descriptor of one that has left is closed.
    if (failure.empty()) failure = run_rounds(rank, comm, works, 1);
    if (after.threads != before.threads || after.threads != kThreads) failure += " threads";
    if (after.descriptors != before.descriptors) failure += " descriptors";
    if (after.resident_bytes > before.resident_bytes + (256 << 10)) failure += " memory";
    return failure;
  };
  RankProcesses ranks(kRanks, "chunk_value_count=4096", body);
  EXPECT_EQ(ranks.wait(60 + round_count() / 10), "");
}

TEST(Requests, DestroyedWithCommunicator_NoThreadLeft) {
  const Holdings before;
  const std::vector<Work> works = mixed_work();
  for (int turn = 0; turn < 20; ++turn) {
    const auto body = [&](int rank, gqsgd_comm comm) { return run_rounds(rank, comm, works, 1); };
    ASSERT_EQ(run_threads(kRanks, "", body), "");
  }
  EXPECT_EQ(Holdings().threads, before.threads);
}

double seconds_of(clockid_t clock) {
  timespec time;
  clock_gettime(clock, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

double busy_seconds() {
  rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

// Promised are 5 % of a core; measured are 1 to 2 %. The margin is for machines under load.
TEST(Requests, WaitForAPeer_ProcessorFreeForOthers) {
  const std::vector<Work> works = mixed_work();
  SharedArray<double> share(2);
  const auto body = [&](int rank, gqsgd_comm comm) -> std::string {
    StartedCall started(works[3], rank);
    started.send.assign(1000, 1.0f);
    started.recv.assign(1000, 0.0f);
    if (rank == 1) usleep(1500000);
    if (started.start(comm) != GQSGD_OK) return failure_of(1, "start");
    const double begin = seconds_of(CLOCK_MONOTONIC), busy = busy_seconds();
    const gqsgd_status status = gqsgd_request_wait(started.request);
    const double waited = seconds_of(CLOCK_MONOTONIC) - begin;
    if (status != GQSGD_OK) return failure_of(status, "wait");
    if (rank == 0) share[0] = (busy_seconds() - busy) / waited;
    if (rank == 0) share[1] = waited;
    return "";
  };
  EXPECT_EQ(run_processes(2, "", body), "");
  EXPECT_GT(share[1], 1.0) << "rank 0 did not wait";
  EXPECT_LT(share[0], 0.15) << "of a core, while waiting for rank 1";
  printf("waiting took %.1f %% of a core\n", 100 * share[0]);
}

TEST(Requests, AllEnded_NoProcessorTime) {
  const std::vector<Work> works = mixed_work();
  const auto body = [&](int rank, gqsgd_comm comm) -> std::string {
    const std::string failure = run_rounds(rank, comm, works, 2);
    if (!failure.empty()) return failure;
    const double busy = busy_seconds();
    usleep(500000);
    return busy_seconds() - busy < 0.02 ? "" : "an idle thread is busy";
  };
  EXPECT_EQ(run_processes(kRanks, "", body), "");
}

}  // namespace
}  // namespace gq::test
