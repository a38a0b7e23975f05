// Ranks that measure costs while they are made, and one that dies meanwhile: the others name it, in
// time, over shared memory and over a network.
#include <gqsgd_log.h>
#include <signal.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "tests/api/faults/support/call.h"
#include "tests/api/network/network_ranks.h"

namespace gq::test {
namespace {

constexpr int kRanks = 4;
constexpr uint64_t kTurns = 12;
// Of the 200 ms that measuring may take.
constexpr double kDelayMostUs = 120000;
constexpr const char* kOptions = "costs=measure,timeout_ms=20000";

uint64_t now_us() {
  timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<uint64_t>(time.tv_sec) * 1000000 + static_cast<uint64_t>(time.tv_nsec) / 1000;
}

/** What ranks leave for the test to read, whatever becomes of them. */
struct Trace {
  std::atomic<uint64_t> killed_us, failed_us;
};

struct Victim {
  useconds_t delay_us = 0;
  Trace* trace = nullptr;
};

/** The group has formed, and its ranks are about to measure: the victim dies a little later. */
void die_after_forming(void* user, gqsgd_log_level, const char* line) {
  if (strstr(line, "chosen by costs that ranks measure") == nullptr) return;
  std::thread([victim = *static_cast<const Victim*>(user)] {
    usleep(victim.delay_us);
    victim.trace->killed_us = now_us();
    raise(SIGKILL);
  }).detach();
}

/** What every rank says of the one that dies; `*while_made`: how many of them while they were made.
 */
void kill_one_while_measuring(const CommMaker& make, uint64_t turn, int* while_made) {
  const int killed = static_cast<int>(turn % kRanks);
  SharedArray<Trace> trace(kRanks);
  Victim victim{static_cast<useconds_t>(uniform_at(17, turn) * kDelayMostUs),
                &trace[static_cast<size_t>(killed)]};
  RankProcesses ranks(
      kRanks, kOptions,
      [&](int rank, gqsgd_comm comm) {
        for (;;) {
          const Outcome outcome = Call(rank).make(comm);
          if (outcome.status == GQSGD_OK) continue;
          trace[static_cast<size_t>(rank)].failed_us = now_us();
          return outcome.text();
        }
      },
      [&](int rank, int size, const char* options, gqsgd_comm* comm) {
        if (rank == killed) {
          gqsgd_set_log(GQSGD_LOG_INFO, die_after_forming, &victim);
        }
        const gqsgd_status made = make(rank, size, options, comm);
        if (made != GQSGD_OK) trace[static_cast<size_t>(rank)].failed_us = now_us();
        return made;
      });
  const auto lines = ranks.wait_each();
  const uint64_t killed_us = trace[static_cast<size_t>(killed)].killed_us;
  ASSERT_NE(killed_us, 0u) << "it was not killed: " << lines[static_cast<size_t>(killed)];
  const std::string expected = "PEER_LOST: rank " + std::to_string(killed) + " has died";
  for (int rank = 0; rank < kRanks; ++rank) {
    if (rank == killed) continue;
    const std::string& line = lines[static_cast<size_t>(rank)];
    EXPECT_NE(line.find(expected), std::string::npos) << turn << ", rank " << rank << ": " << line;
    EXPECT_LT(trace[static_cast<size_t>(rank)].failed_us, killed_us + 2000000)
        << "a second, and what a loaded machine adds";
    *while_made += line.rfind("the communicator: ", 0) == 0 ? 1 : 0;
  }
}

void expect_death_named(const std::function<CommMaker()>& maker) {
  int while_made = 0;
  for (uint64_t turn = 0; turn < kTurns && !testing::Test::HasFailure(); ++turn) {
    kill_one_while_measuring(maker(), turn, &while_made);
  }
  EXPECT_GE(while_made, kRanks - 1) << "some died before all had measured";
}

TEST(MeasuringDeath, RankKilledWhileProcessesMeasure_NamedByAll) {
  expect_death_named([]() -> CommMaker {
    gqsgd_unique_id id;
    EXPECT_EQ(gqsgd_unique_id_create(&id), GQSGD_OK);
    return [id](int rank, int size, const char* options, gqsgd_comm* comm) {
      return gqsgd_comm_create_process(&id, rank, size, options, comm);
    };
  });
}

TEST(MeasuringDeath, RankKilledWhileANetworkMeasures_NamedByAll) {
  GQ_SKIP_WITHOUT_NETWORK();
  expect_death_named([] { return network_maker(); });
}

TEST(MeasuringDeath, RankKilledWhileTwoHostsMeasure_NamedByAll) {
  GQ_SKIP_WITHOUT_NETWORK();
  expect_death_named([] { return network_maker({"a", "a", "b", "b"}); });
}

}  // namespace
}  // namespace gq::test
