// Processes that die, stop or lag inside an operation. Each test shows that the victim was inside:
// it had begun one call more than it had finished.
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>

#include "tests/api/faults/support/call.h"
#include "tests/api/faults/support/call_until_failure.h"
#include "tests/support/operation.h"
#include "tests/support/ranks.h"
#include "tests/support/sanitized.h"

namespace gq::test {
namespace {

constexpr int kRanks = 4;
constexpr int kVictim = 2;

/** What is reduced when a rank dies: in one exchange, with norms in many chunks, with sparse
 *  entries, between nodes. */
struct Kind {
  const char* quantizer;
  gqsgd_schedule schedule;
};
const Kind kKinds[] = {{"paper-gl8", GQSGD_SCHEDULE_DIRECT},
                       {"blocks-8", GQSGD_SCHEDULE_DIRECT},
                       {"paper-gl8", GQSGD_SCHEDULE_SPARSE},
                       {"blocks-8", GQSGD_SCHEDULE_HIERARCHICAL}};

/** Processes that reduce without end, until a call fails. */
class Workers {
 public:
  explicit Workers(size_t value_count, const char* options = "timeout_ms=20000",
                   const Kind& kind = kKinds[0])
      : trace_(kRanks),
        ranks_(kRanks, options, [this, value_count, kind](int rank, gqsgd_comm comm) {
          return work(rank, comm, value_count, kind);
        }) {
    for (int rank = 0; rank < kRanks; ++rank) {  // a rank that fails already shows in its line
      while (trace(rank).finished < 2 && trace(rank).returned_us == 0) usleep(100);
    }
  }

  const Trace& trace(int rank) { return trace_[static_cast<size_t>(rank)]; }
  void signal(int rank, int number) { kill(ranks_.pid(rank), number); }
  std::vector<std::string> lines() { return ranks_.wait_each(); }
  bool is_inside(int rank) { return trace(rank).begun == trace(rank).finished + 1; }

 private:
  std::string work(int rank, gqsgd_comm comm, size_t value_count, const Kind& kind) {
    for (const int number : {SIGSEGV, SIGABRT})
      ::signal(number, SIG_DFL);  // sanitizers have theirs
    Trace& trace = trace_[static_cast<size_t>(rank)];
    Call call(rank);
    call.use(kind.quantizer);
    call.config.schedule = kind.schedule;
    Values input(value_count), result(value_count);
    for (size_t e = 0; e < value_count; e += 64) input[e] = static_cast<float>(rank);
    call.send = input.data();
    call.recv = result.data();
    call.value_count = value_count;
    return call_until_failure(comm, &call, &trace);
  }

  SharedArray<Trace> trace_;
  RankProcesses ranks_;
};

/** Ends `victim` by `signal`, after `delay_us` of work; how long the slowest survivor took, in us.
 */
uint64_t end_one(int victim, int signal, useconds_t delay_us, const Kind& kind, int* inside_count) {
  Workers workers(100000, "timeout_ms=20000,chunk_value_count=8192,nodes=0:1:1:1", kind);
  usleep(delay_us);
  const uint64_t sent_us = now_us();
  workers.signal(victim, signal);
  const auto lines = workers.lines();
  *inside_count += workers.is_inside(victim) ? 1 : 0;
  uint64_t slowest_us = 0;
  const std::string expected = "PEER_LOST: rank " + std::to_string(victim) + " has died";
  for (int rank = 0; rank < kRanks; ++rank) {
    const std::string& line = lines[static_cast<size_t>(rank)];
    if (rank == victim) {
      EXPECT_EQ(line, "killed by signal " + std::to_string(signal));
      continue;
    }
    EXPECT_EQ(line.rfind(expected, 0), 0u) << "rank " << rank << ": " << line;
    EXPECT_EQ(line.find(", then"), std::string::npos) << line;
    slowest_us = std::max(slowest_us, workers.trace(rank).returned_us - sent_us);
  }
  return slowest_us;
}

TEST(Death, KilledAtSixtyRandomMoments_NamedByEverySurvivor) {
  int inside_count = 0;
  std::vector<uint64_t> slowest_us;
  for (uint64_t turn = 0; turn < 60; ++turn) {
    const auto delay_us = static_cast<useconds_t>(uniform_at(11, turn) * 8000);
    const int victim = static_cast<int>(mix(turn) % kRanks);
    const Kind& kind = kKinds[turn % std::size(kKinds)];
    slowest_us.push_back(end_one(victim, SIGKILL, delay_us, kind, &inside_count));
    ASSERT_FALSE(HasFailure()) << "turn " << turn << ", " << kind.quantizer << ", schedule "
                               << schedule_name(kind.schedule) << ", killed after " << delay_us
                               << " us";
  }
  std::sort(slowest_us.begin(), slowest_us.end());
  printf("60 kills, %d inside a call; slowest survivor: median %.1f ms, worst %.1f ms\n",
         inside_count, static_cast<double>(slowest_us[30]) / 1e3,
         static_cast<double>(slowest_us.back()) / 1e3);
  EXPECT_GT(inside_count, 30) << "most deaths should be inside a call";
  EXPECT_LT(slowest_us[30], kTimeFactor * 50000u) << "50 ms, in the median";
  EXPECT_LT(slowest_us.back(), kTimeFactor * 2000000u);
}

TEST(Death, Crash_LikeAnyOtherDeath) {
  int inside_count = 0;
  for (const int signal : {SIGSEGV, SIGABRT})
    end_one(kVictim, signal, 500, kKinds[0], &inside_count);
  EXPECT_GT(inside_count, 0);
}

TEST(Death, StoppedForLessThanTimeout_OnlyLate) {
  Workers workers(100000);
  workers.signal(kVictim, SIGSTOP);
  usleep(200000);
  const bool inside = workers.is_inside(kVictim);
  const uint64_t finished = workers.trace(0).finished;
  workers.signal(kVictim, SIGCONT);
  while (workers.trace(0).finished < finished + 3) usleep(1000);
  EXPECT_TRUE(inside);
  workers.signal(0, SIGKILL);
  EXPECT_EQ(workers.lines()[1].rfind("PEER_LOST: rank 0 has died", 0), 0u);
}

TEST(Death, StoppedForLonger_TimesOut_RevokedWhenItWakes) {
  Workers workers(4000000, "timeout_ms=300");
  workers.signal(kVictim, SIGSTOP);
  const uint64_t stopped_us = now_us();
  for (int rank = 0; rank < kRanks; ++rank) {
    while (rank != kVictim && workers.trace(rank).returned_us == 0) usleep(1000);
  }
  EXPECT_TRUE(workers.is_inside(kVictim));
  EXPECT_GE(now_us() - stopped_us, 250000u);
  EXPECT_LT(now_us() - stopped_us, 3000000u);
  workers.signal(kVictim, SIGCONT);
  const auto lines = workers.lines();
  for (int rank = 0; rank < kRanks; ++rank) {
    const std::string& line = lines[static_cast<size_t>(rank)];
    const char* expected =
        rank == kVictim ? "REVOKED: rank [0-9] gave up on rank 2" : "TIMEOUT: .*rank(s)? 2";
    EXPECT_TRUE(found(line, expected)) << "rank " << rank;
  }
}

/** As a scheduler suspends a job, or a shell: no rank blames another for the pause of its own. */
TEST(Death, AllStoppedForLongerThanTimeout_GoOn) {
  SharedArray<std::atomic<bool>> may_call(1);
  RankProcesses ranks(2, "timeout_ms=1500", [&](int rank, gqsgd_comm comm) {
    while (rank == 1 && !may_call[0]) usleep(1000);
    const Outcome outcome = Call(rank).make(comm);
    return outcome.status == GQSGD_OK ? "" : outcome.text();
  });
  usleep(200000);
  for (const int rank : {0, 1}) kill(ranks.pid(rank), SIGSTOP);
  usleep(2000000);
  for (const int rank : {0, 1}) kill(ranks.pid(rank), SIGCONT);
  usleep(200000);
  may_call[0] = true;
  EXPECT_EQ(ranks.wait(), "");
}

TEST(Death, Straggler_WaitedFor) {
  const std::string lines = run_processes(3, "timeout_ms=1000", [](int rank, gqsgd_comm comm) {
    for (int turn = 0; turn < 3; ++turn) {
      if (rank == turn) usleep(400000);
      const Outcome outcome = Call(rank).make(comm);
      if (outcome.status != GQSGD_OK) return outcome.text();
    }
    return std::string();
  });
  EXPECT_EQ(lines, "");
}

}  // namespace
}  // namespace gq::test
