// The threads of the option `threads`: every tile of every job is computed once, by any thread that
// is awake.
#include "src/execute/workers.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <array>
#include <vector>

#include "tests/support/succeeds.h"

namespace gq {
namespace {

double processor_seconds() {
  timespec time;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

TEST(Workers, EveryPartOfEveryJob_MadeOnce) {
  for (const uint32_t threads : {1u, 2u, 3u, 7u, 40u}) {
    Workers workers;
    ASSERT_TRUE(test::succeeds(workers.start(threads, 0, 1)));
    ASSERT_EQ(workers.thread_count(), threads);
    // Plain numbers: the library's own order is what makes them safe to read after the job.
    std::vector<uint32_t> times(100);
    for (uint32_t job = 1; job <= 3000; ++job) {
      const uint32_t parts = 1 + job % static_cast<uint32_t>(times.size());
      for (uint32_t& time : times) time = 0;
      workers.run(parts, [&](uint32_t part, uint32_t thread) {
        times[part] += 1;
        if (thread >= threads) times[part] += 1000;
      });
      for (uint32_t part = 0; part < times.size(); ++part) {
        ASSERT_EQ(times[part], part < parts ? 1u : 0u) << "part " << part << " of job " << job;
      }
      if (job % 1000 == 0) usleep(2000);  // they fall asleep
    }
  }
}

// A thread's own operand array is never another's at the same time.
TEST(Workers, Workspace_OfTheirOwn) {
  constexpr uint32_t kOperands = 5;
  Workers workers;
  ASSERT_TRUE(test::succeeds(workers.start(4, 0, kOperands)));
  uint32_t word = 0;
  std::array<bool, 64> kept{};
  workers.run(kept.size(), [&](uint32_t part, uint32_t thread) {
    const uint32_t** operands = workers.operands(thread);
    for (uint32_t k = 0; k < kOperands; ++k) operands[k] = &word + part;
    kept[part] = true;
    for (uint32_t k = 0; k < kOperands; ++k) kept[part] = kept[part] && operands[k] == &word + part;
  });
  for (const bool one : kept) EXPECT_TRUE(one);
}

TEST(Workers, BusyThread_Helped) {
  Workers workers;
  ASSERT_TRUE(test::succeeds(workers.start(3, 0, 1)));
  for (int turn = 0; turn < 3; ++turn) {
    std::array<uint32_t, 3> makers{};
    // Longer than it takes to wake a thread on a machine under load.
    workers.run(makers.size(), [&](uint32_t part, uint32_t thread) {
      makers[part] = thread;
      usleep(100000);
    });
    EXPECT_NE(makers[0], makers[1]);
    EXPECT_NE(makers[1], makers[2]);
    EXPECT_NE(makers[0], makers[2]);
  }
}

TEST(Workers, NothingToDo_Sleep) {
  Workers workers;
  ASSERT_TRUE(test::succeeds(workers.start(7, 0, 1)));
  workers.run(64, [](uint32_t, uint32_t) {});
  usleep(100000);
  const double before = processor_seconds();
  usleep(500000);
  EXPECT_LT(processor_seconds() - before, 0.025) << "5 % of a core";
}

// What a rank on a slow link looks like: short jobs with waits between them.
TEST(Workers, BetweenJobs_SleepSoon) {
  Workers workers;
  ASSERT_TRUE(test::succeeds(workers.start(3, 0, 1)));
  const double before = processor_seconds();
  for (int job = 0; job < 50; ++job) {
    workers.run(4, [](uint32_t, uint32_t) {});
    usleep(10000);
  }
  EXPECT_LT(processor_seconds() - before, 0.025) << "5 % of a core";
}

}  // namespace
}  // namespace gq
