// The log callback among threads, forks and calls of the library from within it.
#include <gqsgd_log.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <thread>

#include "tests/api/faults/support/call.h"
#include "tests/unit/transport/children.h"

namespace gq::test {
namespace {

/** Makes the library log one line, on this thread. */
void provoke_a_line() {
  setenv("GQSGD_TIMEOUT_MS", "soon", 1);
  gqsgd_comm comm = nullptr;
  EXPECT_TRUE(is_ok(outcome_of(gqsgd_comm_create_local(1, "", &comm))));
  gqsgd_comm_destroy(comm);
  unsetenv("GQSGD_TIMEOUT_MS");
}

/** A callback that stays where it is until it is let go. */
struct Held {
  std::atomic<bool> entered{false}, released{false};

  static void callback(void* user, gqsgd_log_level, const char*) {
    Held& self = *static_cast<Held*>(user);
    self.entered = true;
    while (!self.released) std::this_thread::yield();
  }
};

void count_lines(void* user, gqsgd_log_level, const char*) { ++*static_cast<int*>(user); }

TEST(Log, ExceptionOfACallbackEndsThere) {
  int lines = 0;
  const auto callback = [](void* user, gqsgd_log_level, const char* line) {
    ++*static_cast<int*>(user);
    throw std::runtime_error(line);
  };
  gqsgd_set_log(GQSGD_LOG_WARN, callback, &lines);
  provoke_a_line();
  provoke_a_line();
  gqsgd_set_log(GQSGD_LOG_NONE, nullptr, nullptr);
  EXPECT_EQ(lines, 2);
}

// As in an interpreter: the thread that forks has a lock for which the callback waits.
TEST(Log, ForkWaitsForNoCallbackAndTheChildLogs) {
  Held held;
  gqsgd_set_log(GQSGD_LOG_WARN, Held::callback, &held);
  std::thread logger(provoke_a_line);
  while (!held.entered) std::this_thread::yield();
  Child child([] {
    int lines = 0;
    gqsgd_set_log(GQSGD_LOG_WARN, count_lines, &lines);
    provoke_a_line();
    return std::to_string(lines);
  });
  EXPECT_EQ(child.line(), "1");
  held.released = true;
  logger.join();
  gqsgd_set_log(GQSGD_LOG_NONE, nullptr, nullptr);
}

TEST(Log, CallbackMayFork) {
  std::string lines;
  gqsgd_set_log(
      GQSGD_LOG_WARN,
      [](void* user, gqsgd_log_level, const char*) {
        *static_cast<std::string*>(user) += Child([] { return std::string("here"); }).line();
      },
      &lines);
  provoke_a_line();
  gqsgd_set_log(GQSGD_LOG_NONE, nullptr, nullptr);
  EXPECT_EQ(lines, "here");
}

TEST(Log, CallbackThatCallsTheLibraryIsNotCalledByItsOwnCall) {
  Child child([] {
    static int depth = 0;
    gqsgd_set_log(
        GQSGD_LOG_WARN,
        [](void*, gqsgd_log_level, const char*) {
          ++depth;
          provoke_a_line();
          gqsgd_set_log(GQSGD_LOG_NONE, nullptr, nullptr);
        },
        nullptr);
    provoke_a_line();
    provoke_a_line();
    return std::to_string(depth);
  });
  EXPECT_EQ(child.line(), "1");
}

TEST(Log, AfterSetLogTheOldCallbackRunsNoMore) {
  Held held;
  gqsgd_set_log(GQSGD_LOG_WARN, Held::callback, &held);
  std::thread logger(provoke_a_line);
  while (!held.entered) std::this_thread::yield();
  std::atomic<bool> replaced{false};
  std::thread setter([&] {
    gqsgd_set_log(GQSGD_LOG_NONE, nullptr, nullptr);
    replaced = true;
  });
  for (int turn = 0; turn < 1000; ++turn) std::this_thread::yield();
  EXPECT_FALSE(replaced);
  held.released = true;
  setter.join();
  logger.join();
}

}  // namespace
}  // namespace gq::test
