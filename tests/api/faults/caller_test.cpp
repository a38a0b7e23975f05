// The thread that calls: its floating-point state, its signal handlers, its cancellation and its
// stack are its own.
#include <errno.h>
#include <fenv.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "tests/api/faults/support/call.h"
#include "tests/api/faults/support/every_call.h"
#include "tests/support/sanitized.h"

namespace gq::test {
namespace {

// SIGFPE ends this program where a function computes before it has changed the state.
TEST(Caller, FloatingPointState_RestoredAfterTheCall) {
  fenv_t before;
  ASSERT_EQ(fegetenv(&before), 0);
  for (const QuantizerKind& kind : kQuantizerKinds) {
    EveryCall every_call(kind);
    for (const Use& use : every_call.uses()) {
      feclearexcept(FE_ALL_EXCEPT);
      fesetround(FE_UPWARD);
      const bool traps = feenableexcept(FE_ALL_EXCEPT) != -1;
      const gqsgd_status status = use.call();
      const int enabled = fegetexcept(), rounding = fegetround();
      const int flags = fetestexcept(FE_ALL_EXCEPT);
      fesetenv(&before);
      EXPECT_EQ(status, GQSGD_OK) << use.name << ": " << gqsgd_last_error();
      EXPECT_EQ(enabled, traps ? FE_ALL_EXCEPT : 0) << use.name;
      EXPECT_EQ(rounding, FE_UPWARD) << use.name;
      EXPECT_EQ(flags, 0) << use.name;
    }
  }
}

std::atomic<gqsgd_comm> to_abort{nullptr};
std::atomic<int> aborts{0};

void abort_in_handler(int) {
  const int interrupted_errno = errno;
  errno = 4711;
  const gqsgd_status status = gqsgd_comm_abort(to_abort.load());
  if (status == GQSGD_OK && errno == 4711) ++aborts;
  errno = interrupted_errno;
}

/** SIGUSR1 aborts, until the end of its life. */
class AbortOnSignal {
 public:
  explicit AbortOnSignal(gqsgd_comm comm) {
    to_abort = comm;
    aborts = 0;
    struct sigaction action = {};
    action.sa_handler = abort_in_handler;
    sigaction(SIGUSR1, &action, &before_);
  }
  ~AbortOnSignal() { sigaction(SIGUSR1, &before_, nullptr); }

 private:
  struct sigaction before_ = {};
};

TEST(Caller, SignalHandler_AbortsTheInterruptedCall) {
  Group group(2);
  const AbortOnSignal handler(group.comm(0));
  std::atomic<bool> begun{false};
  Outcome outcome;
  std::thread caller([&] {
    begun = true;
    outcome = Call(0).make(group.comm(0));
  });
  while (!begun) std::this_thread::yield();
  uint64_t calls = 0;
  while (gqsgd_comm_stat(group.comm(0), "calls", &calls) == GQSGD_OK && calls == 0) {
    std::this_thread::yield();
  }
  pthread_kill(caller.native_handle(), SIGUSR1);
  caller.join();
  EXPECT_TRUE(is(outcome, GQSGD_ABORTED, "rank 0 aborted its communicator"));
  EXPECT_TRUE(is(Call(1).make(group.comm(1)), GQSGD_ABORTED, "rank 0 aborted"));
  EXPECT_EQ(aborts, 1) << "errno is the interrupted code's";
}

// A handler that took a lock which the interrupted code holds would never return.
TEST(Caller, SignalHandler_InterruptsAnyCall_Safe) {
  Group group(1), other(1);
  const AbortOnSignal handler(group.comm(0));
  std::atomic<bool> stop{false};
  std::thread caller([&] {
    Call call(0);
    int32_t rank = 0;
    while (!stop) {
      gqsgd_comm_rank(nullptr, &rank);  // makes a sentence
      gqsgd_comm_rank(other.comm(0), &rank);
      gqsgd_comm_status(group.comm(0));  // broken from the first signal on
      call.make_status(other.comm(0));
      gqsgd_comm made = nullptr;
      gqsgd_comm_create_local(1, "", &made);
      gqsgd_comm_destroy(made);
    }
  });
  for (int signals = 0; signals < 300; ++signals) {
    const int seen = aborts;
    pthread_kill(caller.native_handle(), SIGUSR1);
    while (aborts == seen) std::this_thread::yield();
  }
  stop = true;
  caller.join();
  EXPECT_TRUE(is(outcome_of(gqsgd_comm_status(group.comm(0))), GQSGD_ABORTED, "rank 0 aborted"));
  EXPECT_TRUE(other.still_works());
}

TEST(Caller, FailingAbort_HasASentence) {
  EXPECT_TRUE(is(outcome_of(gqsgd_comm_abort(nullptr)), GQSGD_BAD_HANDLE,
                 "communicator to abort is not a live one"));
  Group group(1);
  EXPECT_TRUE(is(outcome_of(gqsgd_comm_rank(group.comm(0), nullptr)), GQSGD_INVALID_ARGUMENT,
                 "gqsgd_comm_rank: rank is NULL"))
      << "a later failure has its own";
}

/** Runs `call` on a thread that is cancelled before it begins. Null if it did not get to its end.
 */
std::unique_ptr<Outcome> cancelled(const std::function<gqsgd_status()>& call) {
  struct Run {
    const std::function<gqsgd_status()>& call;
    std::atomic<bool> is_cancelled{false};
    std::unique_ptr<Outcome> outcome;
  } run{call, {}, nullptr};
  pthread_t thread;
  const auto body = [](void* user) -> void* {
    Run& self = *static_cast<Run*>(user);
    while (!self.is_cancelled) {
    }
    const gqsgd_status status = self.call();
    int off;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &off);
    self.outcome = std::make_unique<Outcome>(outcome_of(status));
    pthread_setcancelstate(off, nullptr);
    EXPECT_EQ(off, PTHREAD_CANCEL_ENABLE) << "the caller's state comes back";
    pthread_testcancel();
    return nullptr;
  };
  EXPECT_EQ(pthread_create(&thread, nullptr, body, &run), 0);
  EXPECT_EQ(pthread_cancel(thread), 0);
  run.is_cancelled = true;
  void* ended = nullptr;
  EXPECT_EQ(pthread_join(thread, &ended), 0);
  EXPECT_EQ(ended, PTHREAD_CANCELED) << "after the call";
  return std::move(run.outcome);
}

TEST(Caller, CancelledThread_CompletesItsCall) {
  Group group(2);
  std::thread peer([&] {
    for (int call = 0; call < 2; ++call) EXPECT_TRUE(is_ok(Call(1).make(group.comm(1))));
  });
  Call own(0);
  auto outcome = cancelled([&] { return own.make_status(group.comm(0)); });
  ASSERT_TRUE(outcome);
  EXPECT_TRUE(is_ok(*outcome));
  outcome = cancelled([&] {
    const gqsgd_status started = own.start(group.comm(0));
    return started == GQSGD_OK ? gqsgd_request_wait(own.request) : started;
  });
  EXPECT_TRUE(outcome && is_ok(*outcome));
  peer.join();
  EXPECT_TRUE(group.still_works());
}

// include/gqsgd.h promises that 64 KiB are enough.
constexpr size_t kLeastStackBytes = kStackFactor * (64 << 10);

/** Runs `call` on a stack that ends in a page which nothing may touch; returns the bytes used. */
size_t run_on_least_stack(const std::function<void()>& call) {
  const size_t page_bytes = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  const size_t room_bytes = page_bytes + kLeastStackBytes;
  auto* room = static_cast<unsigned char*>(
      mmap(nullptr, room_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  EXPECT_NE(room, MAP_FAILED);
  EXPECT_EQ(mprotect(room, page_bytes, PROT_NONE), 0);
  unsigned char* const stack = room + page_bytes;
  std::fill(stack, stack + kLeastStackBytes, 0xA5);
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  EXPECT_EQ(pthread_attr_setstack(&attributes, stack, kLeastStackBytes), 0);
  pthread_t thread;
  const auto body = [](void* user) -> void* {
    (*static_cast<const std::function<void()>*>(user))();
    return nullptr;
  };
  EXPECT_EQ(pthread_create(&thread, &attributes, body, const_cast<std::function<void()>*>(&call)),
            0);
  EXPECT_EQ(pthread_join(thread, nullptr), 0);
  pthread_attr_destroy(&attributes);
  size_t untouched_bytes = 0;
  while (untouched_bytes < kLeastStackBytes && stack[untouched_bytes] == 0xA5) ++untouched_bytes;
  munmap(room, room_bytes);
  return kLeastStackBytes - untouched_bytes;
}

TEST(Caller, StackOf64KiB_EnoughForEveryCall) {
  size_t used_bytes = 0;
  for (const QuantizerKind& kind : kQuantizerKinds) {
    EveryCall every_call(kind);
    for (const Use& use : every_call.uses()) {
      gqsgd_status status = GQSGD_INTERNAL;
      const size_t used_here_bytes = run_on_least_stack([&] { status = use.call(); });
      EXPECT_EQ(status, GQSGD_OK) << use.name;
      used_bytes = std::max(used_bytes, used_here_bytes);
    }
  }
  RecordProperty("used_bytes", std::to_string(used_bytes));
  EXPECT_LT(used_bytes, kLeastStackBytes - 8192) << "what is left for the caller is too little";
}

}  // namespace
}  // namespace gq::test
