// A library is embedded in a process of others: signals, the floating-point unit, threads, names
// and the clock are as before, and a storm of signals disturbs nothing.
#include <gqsgd_log.h>
#include <pthread.h>
#include <signal.h>
#include <sys/time.h>
#include <unistd.h>
#if defined(__SSE__)
#include <xmmintrin.h>
#endif

#include <atomic>
#include <cfenv>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <thread>

#include "tests/api/faults/support/call.h"
#include "tests/support/ranks.h"
#include "tests/support/sanitized.h"
#include "tests/unit/transport/children.h"

namespace gq::test {
namespace {

std::atomic<int> signals{0};

/** Ten alarms a millisecond would starve a busy machine; two of them interrupt every wait. */
void start_signals() {
  struct sigaction action {};
  action.sa_handler = [](int) { signals += 1; };  // without SA_RESTART: every wait is cut short
  sigaction(SIGALRM, &action, nullptr);
  const itimerval every_half_ms{{0, 500}, {0, 500}};
  setitimer(ITIMER_REAL, &every_half_ms, nullptr);
}

TEST(Embedding, Signals_InterruptNothing) {
  gqsgd_unique_id id;
  ASSERT_TRUE(is_ok(outcome_of(gqsgd_unique_id_create(&id))));
  std::vector<Child> ranks;
  for (int rank = 0; rank < 3; ++rank) {
    ranks.emplace_back([=] {
      start_signals();
      gqsgd_comm comm = nullptr;
      if (rank == 2) usleep(20000);
      Outcome outcome =
          outcome_of(gqsgd_comm_create_process(&id, rank, 3, "timeout_ms=20000", &comm));
      const Values input(300000, 1.0f);
      Values result(300000);
      for (int turn = 0; turn < 30 && outcome.status == GQSGD_OK; ++turn) {
        Call call(rank);
        call.send = input.data();
        call.recv = result.data();
        call.value_count = input.size();
        outcome = call.make(comm);
      }
      gqsgd_comm_destroy(comm);
      return signals < 20 ? "too few signals" : outcome.text();
    });
  }
  for (Child& rank : ranks) EXPECT_EQ(rank.line(), "OK");
}

struct Surroundings {
  sigset_t mask;
  void (*handlers[NSIG])(int) = {};
  int rounding;
  unsigned sse_control = 0;
  std::string folder;
  size_t thread_count;

  Surroundings() {
    std::memset(static_cast<void*>(&mask), 0, sizeof mask);
    pthread_sigmask(SIG_SETMASK, nullptr, &mask);
    for (int number = 1; number < NSIG; ++number) {
      struct sigaction action {};
      sigaction(number, nullptr, &action);
      handlers[number] = action.sa_handler;
    }
    rounding = std::fegetround();
#if defined(__SSE__)
    sse_control = _mm_getcsr() & ~0x3fu;  // the low six bits tell what has ever happened
#endif
    folder = std::filesystem::current_path();
    thread_count = 0;
    for ([[maybe_unused]] const auto& task :
         std::filesystem::directory_iterator("/proc/self/task")) {
      ++thread_count;
    }
  }
  /** "" or what differs. */
  std::string difference(const Surroundings& other) const {
    if (std::memcmp(&mask, &other.mask, sizeof mask) != 0) return "signal mask";
    if (std::memcmp(handlers, other.handlers, sizeof handlers) != 0) return "signal handlers";
    if (rounding != other.rounding) return "rounding mode";
    if (sse_control != other.sse_control) return "control word of SSE";
    if (folder != other.folder) return "working directory";
    return thread_count == other.thread_count ? "" : "number of threads";
  }
};

TEST(Embedding, Surroundings_Restored) {
  const std::string lines = run_processes(2, "timeout_ms=20000", [](int rank, gqsgd_comm comm) {
    std::fesetround(FE_UPWARD);  // a caller's own choice must survive, too
    const Surroundings before;
    Call call(rank);
    const Outcome outcome = call.make(comm);
    gqsgd_comm local[2];
    if (gqsgd_comm_create_local(2, "", local) != GQSGD_OK) return std::string("no local group");
    gqsgd_comm_destroy(local[0]);
    gqsgd_comm_destroy(local[1]);
    const Surroundings after;
    if (outcome.status != GQSGD_OK) return outcome.text();
    return before.difference(after);
  });
  EXPECT_EQ(lines, "");
}

TEST(Embedding, SharedMemory_HasNoName) {
  const auto names = [] {
    size_t count = 0;
    for (const auto& entry : std::filesystem::directory_iterator("/dev/shm")) {
      count += entry.path().string().find("gqsgd") != std::string::npos ? 1 : 0;
    }
    return count;
  };
  const std::string lines = run_processes(2, "timeout_ms=20000", [&](int rank, gqsgd_comm comm) {
    const Outcome outcome = Call(rank).make(comm);
    if (outcome.status != GQSGD_OK) return outcome.text();
    return std::string(names() == 0 ? "" : "a file in /dev/shm");
  });
  EXPECT_EQ(lines, "");
}

TEST(Embedding, SmallStacks_Enough) {
  gqsgd_unique_id id;
  ASSERT_TRUE(is_ok(outcome_of(gqsgd_unique_id_create(&id))));
  struct Rank {
    gqsgd_unique_id id;
    int rank;
    Outcome outcome;
  } ranks[2] = {{id, 0, {}}, {id, 1, {}}};
  pthread_attr_t small;
  pthread_attr_init(&small);
  ASSERT_EQ(pthread_attr_setstacksize(&small, kStackFactor * 64 * 1024), 0);
  pthread_t threads[2];
  for (int i = 0; i < 2; ++i) {
    const auto body = [](void* place) -> void* {
      Rank& rank = *static_cast<Rank*>(place);
      gqsgd_comm comm = nullptr;
      rank.outcome =
          outcome_of(gqsgd_comm_create_process(&rank.id, rank.rank, 2, "timeout_ms=20000", &comm));
      if (rank.outcome.status == GQSGD_OK) rank.outcome = Call(rank.rank).make(comm);
      gqsgd_comm_destroy(comm);
      return nullptr;
    };
    ASSERT_EQ(pthread_create(&threads[i], &small, body, &ranks[i]), 0);
  }
  for (const pthread_t thread : threads) pthread_join(thread, nullptr);
  pthread_attr_destroy(&small);
  EXPECT_TRUE(is_ok(ranks[0].outcome));
  EXPECT_TRUE(is_ok(ranks[1].outcome));
}

TEST(Embedding, MalformedEnvironment_IgnoredWithOneWarning) {
  for (const char* value : {"soon", "", "-7", "99999999999999999999", "12 "}) {
    Child child([value] {
      setenv("GQSGD_TIMEOUT_MS", value, 1);
      static std::string warnings;
      gqsgd_set_log(
          GQSGD_LOG_WARN,
          [](void*, gqsgd_log_level, const char* line) { warnings += std::string(line) + "\n"; },
          nullptr);
      gqsgd_comm comms[1];
      const Outcome made = outcome_of(gqsgd_comm_create_local(1, "", comms));
      int64_t timeout_ms = 0;
      gqsgd_comm_timeout(comms[0], &timeout_ms);
      return made.text() + " " + std::to_string(timeout_ms) + " " + warnings;
    });
    EXPECT_EQ(child.line(), std::string("OK 300000 GQSGD_TIMEOUT_MS=") + value +
                                " is not a number of milliseconds; the default 300000 is used\n");
  }
}

TEST(Embedding, MissingFileOfCosts_IgnoredWithOneWarning) {
  Child child([] {
    setenv("GQSGD_COSTS", "/nowhere/costs", 1);
    static std::string warnings;
    gqsgd_set_log(
        GQSGD_LOG_WARN,
        [](void*, gqsgd_log_level, const char* line) { warnings += std::string(line) + "\n"; },
        nullptr);
    gqsgd_comm comms[1];
    return outcome_of(gqsgd_comm_create_local(1, "", comms)).text() + " " + warnings;
  });
  EXPECT_EQ(child.line(),
            "OK GQSGD_COSTS: costs=/nowhere/costs cannot be read: No such file or directory; "
            "gqsgd-calibrate writes such a file, and measure and builtin need none; schedule auto "
            "goes on without constants, as direct\n");
}

}  // namespace
}  // namespace gq::test

// Whatever day it is said to be: the library must not ask. These stand before the C library's own.
extern "C" {
static std::atomic<int> questions{0};

int gettimeofday(timeval* value, void*) noexcept {
  questions += 1;
  *value = {rand() % 100000, 0};
  return 0;
}
time_t time(time_t* value) noexcept {
  questions += 1;
  if (value != nullptr) *value = rand() % 100000;
  return rand() % 100000;
}
}

namespace gq::test {
namespace {

TEST(Embedding, TimeOfDay_NeverRead) {
  const int before = questions;
  Group group(3, "timeout_ms=100");
  EXPECT_TRUE(group.still_works());
  EXPECT_TRUE(is(Call(0).make(group.comm(0)), GQSGD_TIMEOUT));
  EXPECT_EQ(questions, before);
}

}  // namespace
}  // namespace gq::test
