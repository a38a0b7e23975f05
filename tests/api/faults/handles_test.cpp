// Handles that are stale, foreign or shared by threads, and the ways to end a communicator while it
// works.
#include <gqsgd_stages.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <thread>

#include "tests/api/faults/support/call.h"
#include "tests/unit/transport/children.h"

namespace gq::test {
namespace {

using Clock = std::chrono::steady_clock;

int64_t ms_since(Clock::time_point begin) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - begin).count();
}

/** Every function that takes a communicator. */
const struct {
  const char* name;
  gqsgd_status (*call)(gqsgd_comm);
} kUses[] = {
    {"allreduce", [](gqsgd_comm comm) { return Call(0).make(comm).status; }},
    {"allreduce_start", [](gqsgd_comm comm) { return Call(0).start(comm); }},
    {"rank",
     [](gqsgd_comm comm) {
       int32_t rank;
       return gqsgd_comm_rank(comm, &rank);
     }},
    {"size",
     [](gqsgd_comm comm) {
       int32_t size;
       return gqsgd_comm_size(comm, &size);
     }},
    {"transport",
     [](gqsgd_comm comm) {
       const char* name = nullptr;
       return gqsgd_comm_transport(comm, &name);
     }},
    {"refuse",
     [](gqsgd_comm comm) { return gqsgd_comm_refuse(comm, GQSGD_SYSTEM, nullptr, nullptr); }},
    {"set_timeout", [](gqsgd_comm comm) { return gqsgd_comm_set_timeout(comm, 5); }},
    {"timeout",
     [](gqsgd_comm comm) {
       int64_t timeout_ms;
       return gqsgd_comm_timeout(comm, &timeout_ms);
     }},
    {"set_counter", [](gqsgd_comm comm) { return gqsgd_comm_set_counter(comm, 5); }},
    {"counter",
     [](gqsgd_comm comm) {
       uint64_t step;
       return gqsgd_comm_counter(comm, &step);
     }},
    {"reserve",
     [](gqsgd_comm comm) {
       return gqsgd_comm_reserve(comm, Call(0).quantizer, 10, GQSGD_FLOAT32);
     }},
    {"stat",
     [](gqsgd_comm comm) {
       uint64_t value;
       return gqsgd_comm_stat(comm, "calls", &value);
     }},
    {"status", gqsgd_comm_status},
    {"abort", gqsgd_comm_abort},
};

void expect_dead(gqsgd_comm comm, const std::string& kind) {
  for (const auto& use : kUses) {
    EXPECT_TRUE(is(outcome_of(use.call(comm)), GQSGD_BAD_HANDLE, "communicator"))
        << use.name << " of a handle that is " << kind;
  }
  if (comm == nullptr) return;  // destroying nothing is right
  EXPECT_EQ(gqsgd_comm_destroy(comm), GQSGD_BAD_HANDLE) << kind;
}

TEST(Handles, ThatAreNoCommunicatorsAreRefusedByEveryFunction) {
  gqsgd_comm comms[2];
  ASSERT_TRUE(is_ok(outcome_of(gqsgd_comm_create_local(2, "", comms))));
  const gqsgd_comm stale = comms[0];
  ASSERT_EQ(gqsgd_comm_destroy(comms[0]), GQSGD_OK);
  expect_dead(stale, "destroyed");
  gqsgd_comm reused[1];
  ASSERT_TRUE(is_ok(outcome_of(gqsgd_comm_create_local(1, "", reused))));
  expect_dead(stale, "destroyed and its place used again");
  expect_dead(nullptr, "NULL");
  expect_dead(reinterpret_cast<gqsgd_comm>(uintptr_t{1}), "a small number");
  expect_dead(reinterpret_cast<gqsgd_comm>(UINTPTR_MAX), "all ones");
  expect_dead(reinterpret_cast<gqsgd_comm>(&comms), "an address");
  Call call(0);
  expect_dead(reinterpret_cast<gqsgd_comm>(call.quantizer), "a quantizer");
  int32_t rank = -1;
  EXPECT_TRUE(is_ok(outcome_of(gqsgd_comm_rank(comms[1], &rank)))) << "the other one lives";
  EXPECT_EQ(rank, 1);
  EXPECT_EQ(gqsgd_comm_destroy(comms[1]), GQSGD_OK);
  EXPECT_EQ(gqsgd_comm_destroy(reused[0]), GQSGD_OK);
  EXPECT_EQ(gqsgd_comm_destroy(nullptr), GQSGD_OK);
}

TEST(Handles, ThatAreNoQuantizersAreRefused) {
  Group group(1);
  Call call(0);
  const gqsgd_quantizer stale = call.quantizer;
  call.use("seed=3");
  EXPECT_EQ(gqsgd_quantizer_destroy(stale), GQSGD_BAD_HANDLE);
  size_t size_bytes;
  for (const gqsgd_quantizer wrong :
       {stale, gqsgd_quantizer{}, reinterpret_cast<gqsgd_quantizer>(group.comm(0))}) {
    EXPECT_TRUE(
        is(outcome_of(gqsgd_packed_size(wrong, 8, &size_bytes)), GQSGD_BAD_HANDLE, "quantizer"));
    EXPECT_TRUE(is(outcome_of(gqsgd_quantizer_describe(wrong, nullptr, 0, &size_bytes)),
                   GQSGD_BAD_HANDLE, "quantizer"));
  }
  EXPECT_EQ(gqsgd_quantizer_destroy(nullptr), GQSGD_OK);
}

/** Returns when another thread has begun a call on `comm`, whose first it is. */
void wait_until_inside(gqsgd_comm comm) {
  uint64_t calls = 0;
  while (gqsgd_comm_stat(comm, "calls", &calls) == GQSGD_OK && calls == 0) {
    std::this_thread::yield();
  }
}

/** Rank 0 of 2 inside a call, which its peer does not make; `during` runs meanwhile. */
Outcome call_alone(Group& group, const std::function<void()>& during) {
  Outcome outcome;
  std::thread caller([&] { outcome = Call(0).make(group.comm(0)); });
  wait_until_inside(group.comm(0));
  during();
  caller.join();
  return outcome;
}

TEST(Handles, SecondThreadInACommunicatorIsBusy) {
  Group group(2);
  const Outcome first = call_alone(group, [&] {
    EXPECT_TRUE(is(Call(0).make(group.comm(0)), GQSGD_BUSY,
                   "rank 0's communicator is in use by another thread"));
    std::thread peer([&] { EXPECT_TRUE(is_ok(Call(1).make(group.comm(1)))); });
    peer.join();
  });
  EXPECT_TRUE(is_ok(first)) << "it was not disturbed";
}

TEST(Handles, AbortEndsTheCallAndThePeersAndStays) {
  Group group(2);
  Clock::time_point aborted;
  const Outcome own = call_alone(group, [&] {
    aborted = Clock::now();
    EXPECT_TRUE(is_ok(outcome_of(gqsgd_comm_abort(group.comm(0)))));
  });
  EXPECT_LT(ms_since(aborted), 1000) << "100 ms and the scheduler";
  EXPECT_TRUE(is(own, GQSGD_ABORTED, "rank 0"));
  EXPECT_TRUE(is(Call(1).make(group.comm(1)), GQSGD_ABORTED, "rank 0 aborted"));
  for (const int rank : {0, 1}) {
    EXPECT_TRUE(is(Call(rank).make(group.comm(rank)), GQSGD_ABORTED, "rank 0")) << "at once";
    EXPECT_TRUE(is(outcome_of(gqsgd_comm_status(group.comm(rank))), GQSGD_ABORTED, "rank 0"));
  }
}

TEST(Handles, DestroyDuringACallIsAnAbort) {
  gqsgd_comm comms[2];
  ASSERT_TRUE(is_ok(outcome_of(gqsgd_comm_create_local(2, "timeout_ms=20000", comms))));
  Outcome inside, peer;
  std::thread caller([&] { inside = Call(0).make(comms[0]); });
  wait_until_inside(comms[0]);
  const Clock::time_point begin = Clock::now();
  EXPECT_TRUE(is_ok(outcome_of(gqsgd_comm_destroy(comms[0]))));
  EXPECT_LT(ms_since(begin), 1000) << "100 ms and the scheduler";
  caller.join();
  EXPECT_TRUE(is(inside, GQSGD_ABORTED, "rank 0 was destroyed during a call"));
  EXPECT_TRUE(is(Call(1).make(comms[1]), GQSGD_ABORTED, "rank 0"));
  EXPECT_EQ(gqsgd_comm_destroy(comms[0]), GQSGD_BAD_HANDLE);
  EXPECT_EQ(gqsgd_comm_destroy(comms[1]), GQSGD_OK);
}

TEST(Handles, OfTwoThreadsThatDestroyACommunicatorOneIsTold) {
  for (int round = 0; round < 200; ++round) {
    gqsgd_comm comm;
    ASSERT_TRUE(is_ok(outcome_of(gqsgd_comm_create_local(1, "", &comm))));
    Call call(0);
    ASSERT_EQ(call.start(comm), GQSGD_OK);  // so that there is a thread to end
    ASSERT_EQ(gqsgd_request_wait(call.request), GQSGD_OK);
    std::atomic<int> ready{0}, destroyed{0}, refused{0};
    const auto destroy = [&] {
      for (++ready; ready < 2;) std::this_thread::yield();
      const gqsgd_status status = gqsgd_comm_destroy(comm);
      destroyed += status == GQSGD_OK;
      refused += status == GQSGD_BAD_HANDLE;
    };
    std::thread other(destroy);
    destroy();
    other.join();
    ASSERT_EQ(destroyed, 1) << "round " << round;
    ASSERT_EQ(refused, 1) << "round " << round;
  }
}

// The peer never calls: a call that slips in while its communicator goes would wait for it.
TEST(Handles, CallThatBeginsWhileItsCommunicatorIsDestroyedIsEnded) {
  for (int round = 0; round < 600; ++round) {
    gqsgd_comm comms[2];
    ASSERT_TRUE(is_ok(outcome_of(gqsgd_comm_create_local(2, "timeout_ms=2000", comms))));
    Call call(0);
    std::atomic<int> ready{0};
    const auto meet = [&](int turns) {
      for (++ready; ready < 2;) continue;
      for (int turn = 0; turn < turns; ++turn) ready.load();
    };
    gqsgd_status inside = GQSGD_OK;
    std::thread caller([&] {
      meet(round % 300);
      inside = call.make_status(comms[0]);
    });
    meet(100);
    EXPECT_EQ(gqsgd_comm_destroy(comms[0]), GQSGD_OK);
    caller.join();
    ASSERT_TRUE(inside == GQSGD_ABORTED || inside == GQSGD_BAD_HANDLE)
        << gqsgd_status_name(inside) << " in round " << round;
    EXPECT_EQ(gqsgd_comm_destroy(comms[1]), GQSGD_OK);
  }
}

TEST(Handles, PeerThatWasDestroyedIsLostAndDestroyIsLocal) {
  gqsgd_comm comms[3];
  ASSERT_TRUE(is_ok(outcome_of(gqsgd_comm_create_local(3, "timeout_ms=20000", comms))));
  EXPECT_EQ(gqsgd_comm_destroy(comms[1]), GQSGD_OK);
  Outcome outcomes[3];
  std::thread other([&] { outcomes[2] = Call(2).make(comms[2]); });
  outcomes[0] = Call(0).make(comms[0]);
  other.join();
  for (const int rank : {0, 2}) {
    EXPECT_TRUE(is(outcomes[rank], GQSGD_PEER_LOST, "rank 1 destroyed its communicator"));
    EXPECT_EQ(gqsgd_comm_destroy(comms[rank]), GQSGD_OK);
  }
}

TEST(Handles, AbsentRankTimesOutByName) {
  Group group(3, "timeout_ms=200");
  Outcome outcomes[2];
  std::thread other([&] { outcomes[1] = Call(1).make(group.comm(1)); });
  const Clock::time_point begin = Clock::now();
  outcomes[0] = Call(0).make(group.comm(0));
  EXPECT_GE(ms_since(begin), 200);
  EXPECT_LT(ms_since(begin), 1270) << "1.1 times the timeout, 50 ms, and the scheduler";
  other.join();
  for (const Outcome& outcome : outcomes) EXPECT_TRUE(is(outcome, GQSGD_TIMEOUT, "rank(s)? 2"));
  EXPECT_TRUE(is(Call(2).make(group.comm(2)), GQSGD_REVOKED, "gave up on rank 2"));
}

TEST(Handles, ExitWithLiveCommunicatorsAndAThreadInsideIsClean) {
  Child child([] {
    static gqsgd_comm comms[2];
    if (gqsgd_comm_create_local(2, "", comms) != GQSGD_OK) return "no group";
    std::thread([] { Call(0).make(comms[0]); }).detach();
    wait_until_inside(comms[0]);
    std::exit(21);
  });
  EXPECT_EQ(child.line(), "exited with 21");
}

}  // namespace
}  // namespace gq::test
