// Ranks of a network that die, stop, abort or leave: every other rank names the right one, in time.
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <thread>

#include "tests/api/faults/support/call.h"
#include "tests/api/faults/support/call_until_failure.h"
#include "tests/api/network/network_ranks.h"
#include "tests/support/operation.h"

namespace gq::test {
namespace {

constexpr int kRanks = 4;
constexpr int kVictim = 2;

/** What one rank does beside its calls; called before each. */
using Act = std::function<void(int rank, gqsgd_comm comm, uint64_t calls, Trace& trace)>;

/** Processes that reduce without end, until a call fails. */
class Workers {
 public:
  explicit Workers(const char* quantizer = "blocks-8", const char* options = "timeout_ms=20000",
                   size_t value_count = 100000, const Act& act = nullptr)
      : trace_(kRanks),
        ranks_(
            kRanks, options,
            [=, this](int rank, gqsgd_comm comm) {
              return work(rank, comm, quantizer, value_count, act);
            },
            network_maker()) {
    for (int rank = 0; rank < kRanks; ++rank) {
      for (int step = 0; step < 300000 && trace(rank).finished < 2 && trace(rank).returned_us == 0;
           ++step) {
        usleep(100);
      }
    }
  }

  Trace& trace(int rank) { return trace_[static_cast<size_t>(rank)]; }
  void signal(int rank, int number) { kill(ranks_.pid(rank), number); }
  std::vector<std::string> lines() { return ranks_.wait_each(); }

 private:
  std::string work(int rank, gqsgd_comm comm, const char* quantizer, size_t value_count,
                   const Act& act) {
    Trace& trace = trace_[static_cast<size_t>(rank)];
    Call call(rank);
    call.use(quantizer);
    Values input(value_count, static_cast<float>(rank)), result(value_count);
    call.send = input.data();
    call.recv = result.data();
    call.value_count = value_count;
    return call_until_failure(comm, &call, &trace, [&] {
      if (act) act(rank, comm, trace.finished, trace);
    });
  }

  SharedArray<Trace> trace_;
  RankProcesses ranks_;
};

TEST(NetworkDeath, KilledAtRandomMoments_NamedByEverySurvivorWithinASecond) {
  GQ_SKIP_WITHOUT_NETWORK();
  uint64_t slowest_us = 0;
  for (uint64_t turn = 0; turn < 20; ++turn) {
    const int victim = static_cast<int>(turn % kRanks);
    Workers workers(turn % 2 == 0 ? "blocks-8" : "paper-gl8",
                    turn % 4 < 2 ? "timeout_ms=20000,chunk_value_count=8192"
                                 : "timeout_ms=20000,chunk_value_count=8192,paths=3");
    usleep(static_cast<useconds_t>(uniform_at(11, turn) * 20000));
    const uint64_t killed_us = now_us();
    workers.signal(victim, SIGKILL);
    const auto lines = workers.lines();
    const std::string expected = "PEER_LOST: rank " + std::to_string(victim) + " has died";
    for (int rank = 0; rank < kRanks; ++rank) {
      const std::string& line = lines[static_cast<size_t>(rank)];
      if (rank == victim) continue;
      EXPECT_EQ(line.rfind(expected, 0), 0u) << turn << ", rank " << rank << ": " << line;
      EXPECT_EQ(line.find(", then"), std::string::npos) << line;
      slowest_us = std::max(slowest_us, workers.trace(rank).returned_us - killed_us);
    }
    ASSERT_FALSE(HasFailure());
  }
  printf("slowest survivor: %.1f ms\n", static_cast<double>(slowest_us) / 1e3);
  EXPECT_LT(slowest_us, 1000000u);
}

TEST(NetworkDeath, Stopped_TimesOutNamedOnAll_RevokedWhenItWakes) {
  GQ_SKIP_WITHOUT_NETWORK();
  for (const char* quantizer : {"blocks-8", "paper-gl8"}) {
    Workers workers(quantizer, "timeout_ms=1000", 2000000);
    workers.signal(kVictim, SIGSTOP);
    for (int rank = 0; rank < kRanks; ++rank) {
      for (int step = 0; step < 20000 && rank != kVictim && workers.trace(rank).returned_us == 0;
           ++step) {
        usleep(1000);
      }
    }
    workers.signal(kVictim, SIGCONT);
    const auto lines = workers.lines();
    for (int rank = 0; rank < kRanks; ++rank) {
      const char* expected =
          rank == kVictim ? "REVOKED: rank [0-9] gave up on rank 2" : "TIMEOUT: .*rank(s)? 2";
      EXPECT_TRUE(found(lines[static_cast<size_t>(rank)], expected)) << "rank " << rank;
    }
  }
}

/** Rank kVictim waits in a call, says so to all, and is stopped; then the others call. All time out
 *  because of it, `first` before the others. */
std::vector<std::string> lines_with_victim_stopped_in_a_wait(int first, gqsgd_schedule schedule) {
  SharedArray<Trace> trace(kRanks);
  RankProcesses ranks(
      kRanks, "timeout_ms=20000",
      [&](int rank, gqsgd_comm comm) -> std::string {
        Trace& own = trace[static_cast<size_t>(rank)];
        Values input(1000, static_cast<float>(rank)), result(1000);
        const Quantizer quantizer("paper-gl8");
        const auto call = [&] {
          return gqsgd_allreduce(comm, quantizer.get(), input.data(), result.data(), input.size(),
                                 GQSGD_FLOAT32, GQSGD_SUM, config_of(schedule), nullptr);
        };
        gqsgd_status status = call();
        if (status != GQSGD_OK) return failure_of(status, "the first call");
        own.begun = 1;
        while (rank != kVictim && trace[kVictim].acted_us == 0) usleep(1000);
        if (rank == first) gqsgd_comm_set_timeout(comm, 1000);
        status = call();
        own.returned_us = now_us();
        return std::string(gqsgd_status_name(status)) + ": " + gqsgd_last_error();
      },
      network_maker());
  const auto wait_for = [&](int rank, volatile uint64_t Trace::*what) {
    for (int step = 0; step < 30000 && trace[static_cast<size_t>(rank)].*what == 0; ++step) {
      usleep(1000);
    }
  };
  wait_for(kVictim, &Trace::begun);
  usleep(200000);  // it has said that it waits
  kill(ranks.pid(kVictim), SIGSTOP);
  trace[kVictim].acted_us = 1;
  for (int rank = 0; rank < kRanks; ++rank) {
    if (rank != kVictim) wait_for(rank, &Trace::returned_us);
  }
  kill(ranks.pid(kVictim), SIGCONT);
  return ranks.wait_each();
}

TEST(NetworkDeath, StoppedWhileItWaits_NamedByAllThoughWhatItSaidIsOld) {
  GQ_SKIP_WITHOUT_NETWORK();
  for (const int first : {1, 3}) {
    const auto lines = lines_with_victim_stopped_in_a_wait(first, GQSGD_SCHEDULE_RING);
    for (int rank = 0; rank < kRanks; ++rank) {
      const char* expected = rank == kVictim ? "^REVOKED: rank [0-9] gave up on rank 2"
                                             : "^TIMEOUT: .*rank 2(, which is| made no| \\(sched)";
      EXPECT_TRUE(found(lines[static_cast<size_t>(rank)], expected))
          << first << " first, rank " << rank << ": " << lines[static_cast<size_t>(rank)];
    }
  }
}

TEST(NetworkDeath, StoppedForLessThanTimeout_OnlyLate) {
  GQ_SKIP_WITHOUT_NETWORK();
  Workers workers;
  workers.signal(kVictim, SIGSTOP);
  usleep(300000);
  const uint64_t finished = workers.trace(0).finished;
  workers.signal(kVictim, SIGCONT);
  for (int step = 0; step < 20000 && workers.trace(0).finished < finished + 3; ++step) usleep(1000);
  EXPECT_GE(workers.trace(0).finished, finished + 3);
  workers.signal(0, SIGKILL);
  EXPECT_EQ(workers.lines()[1].rfind("PEER_LOST: rank 0 has died", 0), 0u);
}

/** Aborts, in a signal handler too. */
gqsgd_comm aborted_by_signal = nullptr;
void abort_in_handler(int) { gqsgd_comm_abort(aborted_by_signal); }

TEST(NetworkAbort, WhileOthersWait_AllNamedWithinATenthOfASecond) {
  GQ_SKIP_WITHOUT_NETWORK();
  std::vector<uint64_t> slowest_us;
  for (int turn = 0; turn < 9; ++turn) {
    const bool in_handler = turn % 2 == 1;
    Workers workers("blocks-8", "timeout_ms=20000", 1000,
                    [in_handler](int rank, gqsgd_comm comm, uint64_t calls, Trace& trace) {
                      if (rank != kVictim || calls != 3) return;
                      usleep(200000);  // the others wait in a call
                      trace.acted_us = now_us();
                      if (!in_handler) {
                        gqsgd_comm_abort(comm);
                        return;
                      }
                      aborted_by_signal = comm;
                      ::signal(SIGUSR1, abort_in_handler);
                      raise(SIGUSR1);
                    });
    const auto lines = workers.lines();
    uint64_t slowest = 0;
    for (int rank = 0; rank < kRanks; ++rank) {
      EXPECT_TRUE(found(lines[static_cast<size_t>(rank)], "^ABORTED: rank 2 .*abort"))
          << "rank " << rank;
      slowest =
          std::max(slowest, workers.trace(rank).returned_us - workers.trace(kVictim).acted_us);
    }
    slowest_us.push_back(slowest);
  }
  std::sort(slowest_us.begin(), slowest_us.end());
  printf("abort: median %.1f ms, worst %.1f ms\n", static_cast<double>(slowest_us[4]) / 1e3,
         static_cast<double>(slowest_us.back()) / 1e3);
  EXPECT_LT(slowest_us[4], 100000u) << "in the median whatever the scheduler does";
}

/** Every rank of every group is one try. GQSGD_TEST_TRIES: more of them than the usual 160. */
uint64_t groups_that_leave() {
  const char* const tries = getenv("GQSGD_TEST_TRIES");
  return tries == nullptr ? 40 : strtoull(tries, nullptr, 10) / kRanks;
}

/** Values of each call of a group: of long messages, of short ones, and of one message alone. */
const std::vector<std::vector<size_t>> kCounts = {{300000}, {1000}, {256}, {300000, 256},
                                                  {256, 256, 256, 256, 300000}};

TEST(NetworkLeave, ExitsRightAfterOk_CostsNoRankItsResult) {
  GQ_SKIP_WITHOUT_NETWORK();
  const uint64_t groups = groups_that_leave();
  uint64_t turn = 0;
  for (; turn < groups && !HasFailure(); ++turn) {
    const auto& counts = kCounts[turn % kCounts.size()];
    const auto schedule = kSchedules[turn % std::size(kSchedules)];
    if (turn / 4 % 2 == 1) {
      setenv("UCX_TLS", "tcp,self", 1);
      setenv("UCX_TCP_SNDBUF", "2k", 1);  // the least that Linux gives
    }
    RankProcesses ranks(
        kRanks, turn / 8 % 2 == 0 ? "timeout_ms=20000" : "timeout_ms=20000,paths=3",
        [=](int rank, gqsgd_comm comm) -> std::string {
          const Quantizer quantizer("paper-gl8");
          if (rank == static_cast<int>(turn % kRanks)) usleep(20000);  // the others are early
          for (const size_t count : counts) {
            Values input(count, static_cast<float>(rank)), result(count);
            const gqsgd_status status =
                gqsgd_allreduce(comm, quantizer.get(), input.data(), result.data(), count,
                                GQSGD_FLOAT32, GQSGD_SUM, config_of(schedule), nullptr);
            if (status != GQSGD_OK) return failure_of(status, "gqsgd_allreduce");
          }
          _exit(0);
        },
        network_maker());
    EXPECT_EQ(ranks.wait(), "") << "turn " << turn << ", " << schedule_name(schedule);
    unsetenv("UCX_TLS");
    unsetenv("UCX_TCP_SNDBUF");
  }
  printf("%d processes left right after OK\n", static_cast<int>(turn) * kRanks);
}

TEST(NetworkLeave, DestroyWhileOthersCall_NamedAsLeft) {
  GQ_SKIP_WITHOUT_NETWORK();
  RankProcesses ranks(
      kRanks, "timeout_ms=20000",
      [](int rank, gqsgd_comm comm) -> std::string {
        for (int turn = 0; turn < 3; ++turn) {
          const Outcome outcome = Call(rank).make(comm);
          if (outcome.status != GQSGD_OK) return outcome.text();
        }
        if (rank == kVictim) return "";  // and destroys
        return Call(rank).make(comm).text();
      },
      network_maker());
  const auto lines = ranks.wait_each();
  for (int rank = 0; rank < kRanks; ++rank) {
    if (rank == kVictim) {
      EXPECT_EQ(lines[kVictim], "");
      continue;
    }
    EXPECT_TRUE(
        found(lines[static_cast<size_t>(rank)], "^PEER_LOST: rank 2 destroyed its communicator"))
        << rank;
  }
}

TEST(NetworkLeave, DestroyBesideAStoppedRank_WaitsForNone) {
  GQ_SKIP_WITHOUT_NETWORK();
  SharedArray<Trace> trace(kRanks);
  RankProcesses ranks(
      kRanks, "timeout_ms=20000",
      [&](int rank, gqsgd_comm comm) -> std::string {
        const Outcome outcome = Call(rank).make(comm);
        if (outcome.status != GQSGD_OK) return outcome.text();
        trace[static_cast<size_t>(rank)].finished = 1;
        while (trace[kVictim].acted_us == 0) usleep(1000);
        if (rank == kVictim) return "";
        const uint64_t begin_us = now_us();
        const gqsgd_status destroyed = gqsgd_comm_destroy(comm);
        const uint64_t took_us = now_us() - begin_us;
        if (destroyed != GQSGD_OK) return gqsgd_last_error();
        _exit(took_us < 1000000 ? 0 : 9);
      },
      network_maker());
  for (int rank = 0; rank < kRanks; ++rank) {
    while (trace[static_cast<size_t>(rank)].finished == 0) usleep(1000);
  }
  kill(ranks.pid(kVictim), SIGSTOP);
  trace[kVictim].acted_us = 1;
  usleep(2000000);
  kill(ranks.pid(kVictim), SIGCONT);
  EXPECT_EQ(ranks.wait(), "");
}

/** A process that is forked by its parent and lives on; 1 in `*tested` if its handles are FORKED.
 */
void fork_child(int rank, gqsgd_comm comm, volatile uint64_t* tested) {
  if (fork() == 0) {
    const bool is_forked =
        Call(rank).make(comm).status == GQSGD_FORKED && gqsgd_comm_destroy(comm) == GQSGD_FORKED;
    *tested = is_forked ? 1 : 2;
    usleep(8000000);
    _exit(0);
  }
  while (*tested == 0) usleep(1000);
}

// The child has UCX's sockets and shared memory: only the connections of this library end.
TEST(NetworkFork, DeadParentOfALivingChild_NamedByAllWithinASecond) {
  GQ_SKIP_WITHOUT_NETWORK();
  for (const char* tls : {"", "tcp,self"}) {
    if (tls[0] != '\0') setenv("UCX_TLS", tls, 1);
    SharedArray<Trace> trace(kRanks);
    RankProcesses ranks(
        kRanks, "timeout_ms=20000",
        [&](int rank, gqsgd_comm comm) -> std::string {
          Call call(rank);
          Values input(300000, static_cast<float>(rank)), result(300000);
          call.send = input.data();
          call.recv = result.data();
          call.value_count = input.size();
          for (uint64_t calls = 0;; ++calls) {
            if (rank == kVictim && calls == 2) fork_child(rank, comm, &trace[kVictim].finished);
            if (rank == kVictim && calls == 5) {  // its child has closed nothing of its
              trace[kVictim].acted_us = now_us();
              raise(SIGKILL);
            }
            const Outcome outcome = call.make(comm);
            if (outcome.status == GQSGD_OK) continue;
            trace[static_cast<size_t>(rank)].returned_us = now_us();
            return outcome.text();
          }
        },
        network_maker());
    const auto lines = ranks.wait_each();
    unsetenv("UCX_TLS");
    EXPECT_EQ(trace[kVictim].finished, 1u) << "FORKED in the child";
    for (int rank = 0; rank < kRanks; ++rank) {
      if (rank == kVictim) continue;
      const size_t at = static_cast<size_t>(rank);
      EXPECT_EQ(lines[at].rfind("PEER_LOST: rank 2 has died", 0), 0u) << tls << ": " << lines[at];
      EXPECT_LT(trace[at].returned_us - trace[kVictim].acted_us, 2000000u)
          << "a second, and what a loaded machine adds";
    }
  }
}

TEST(NetworkMismatch, DifferentArguments_OnAll_AndTheGroupContinues) {
  GQ_SKIP_WITHOUT_NETWORK();
  RankProcesses ranks(
      3, "timeout_ms=20000",
      [](int rank, gqsgd_comm comm) -> std::string {
        for (int turn = 0; turn < 20; ++turn) {
          Call call(rank);
          if (turn % 2 == 0 && rank == 1) call.value_count = kCallValues - 1;
          const Outcome outcome = call.make(comm);
          const gqsgd_status due = turn % 2 == 0 ? GQSGD_MISMATCH : GQSGD_OK;
          if (outcome.status != due) return outcome.text();
        }
        return "";
      },
      network_maker());
  EXPECT_EQ(ranks.wait(), "");
}

}  // namespace
}  // namespace gq::test
