// Requests when things go wrong: refused, mismatched, aborted, destroyed, forked, late, dead. Every
// request ends, with the status of a blocking call, and is gone afterwards.
#include <chrono>
#include <csignal>
#include <memory>
#include <thread>

#include "tests/api/faults/support/call.h"
#include "tests/support/ranks.h"
#include "tests/unit/transport/children.h"

namespace gq::test {
namespace {

constexpr int kInFlight = 4;

using Clock = std::chrono::steady_clock;

int64_t ms_since(Clock::time_point begin) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - begin).count();
}

Outcome wait_for(const Call& call) { return outcome_of(gqsgd_request_wait(call.request)); }

/** Requests of one rank, all started. */
std::vector<std::unique_ptr<Call>> start(int rank, gqsgd_comm comm) {
  std::vector<std::unique_ptr<Call>> calls;
  for (int i = 0; i < kInFlight; ++i) {
    calls.push_back(std::make_unique<Call>(rank));
    EXPECT_TRUE(is_ok(outcome_of(calls.back()->start(comm))));
  }
  return calls;
}

TEST(Requests, ThatAreNoneAreRefused) {
  Group group(1);
  Call call(0);
  int32_t done = 7;
  ASSERT_TRUE(is_ok(outcome_of(call.start(group.comm(0)))));
  const gqsgd_request ended = call.request;
  EXPECT_TRUE(is_ok(wait_for(call)));
  for (const gqsgd_request wrong : {ended, gqsgd_request{}, reinterpret_cast<gqsgd_request>(&call),
                                    reinterpret_cast<gqsgd_request>(group.comm(0))}) {
    EXPECT_TRUE(is(outcome_of(gqsgd_request_test(wrong, &done)), GQSGD_BAD_HANDLE, "request"));
    EXPECT_EQ(done, 0);
    EXPECT_TRUE(is(outcome_of(gqsgd_request_wait(wrong)), GQSGD_BAD_HANDLE, "request"));
  }
  EXPECT_TRUE(
      is(outcome_of(gqsgd_request_test(ended, nullptr)), GQSGD_INVALID_ARGUMENT, "done is NULL"));
  EXPECT_EQ(gqsgd_comm_abort(reinterpret_cast<gqsgd_comm>(ended)), GQSGD_BAD_HANDLE);
}

// The call that this rank refuses is the second of three: it takes its turn, and the others go on.
TEST(Requests, ThatAreRefusedTakeTheirTurn) {
  Group group(3);
  const auto body = [&](int rank) {
    Call first(rank), second(rank), third(rank);
    if (rank == 1) second.recv = nullptr;
    for (Call* call : {&first, &second, &third}) {
      EXPECT_TRUE(is_ok(outcome_of(call->start(group.comm(rank)))));
    }
    EXPECT_TRUE(is_ok(wait_for(third)));
    EXPECT_TRUE(is_ok(wait_for(first)));
    EXPECT_TRUE(rank == 1 ? is(wait_for(second), GQSGD_INVALID_ARGUMENT, "recv is NULL")
                          : is(wait_for(second), GQSGD_REMOTE_ERROR, "rank 1 refused"));
    EXPECT_TRUE(first.result_is_finite() && third.result_is_finite());
    EXPECT_TRUE(second.result_untouched());
  };
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 3; ++rank) threads.emplace_back(body, rank);
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(group.still_works());
}

TEST(Requests, WithoutAPlaceForTheTokenAreRefusedOnAllRanks) {
  Group group(2);
  std::thread other([&] {
    Call call(1);
    EXPECT_TRUE(is_ok(outcome_of(call.start(group.comm(1)))));
    EXPECT_TRUE(is(wait_for(call), GQSGD_REMOTE_ERROR, "rank 0 refused"));
  });
  Call call(0);
  EXPECT_TRUE(is(outcome_of(gqsgd_allreduce_start(group.comm(0), call.quantizer, call.send,
                                                  call.recv, call.value_count, call.dtype, call.op,
                                                  call.config, nullptr, nullptr)),
                 GQSGD_INVALID_ARGUMENT, "request is NULL"));
  other.join();
  EXPECT_TRUE(group.still_works());
}

TEST(Requests, ThatDifferAreMismatchesWithTheBlockingCallsSentence) {
  Group group(2);
  const auto body = [&](int rank) {
    Call call(rank);
    if (rank == 1) call.value_count = 999;
    EXPECT_TRUE(is_ok(outcome_of(call.start(group.comm(rank)))));
    EXPECT_TRUE(
        is(wait_for(call), GQSGD_MISMATCH, "count differs: rank 0 has 1000, rank 1 has 999"));
    EXPECT_TRUE(call.result_untouched());
  };
  std::thread other(body, 1);
  body(0);
  other.join();
  EXPECT_TRUE(group.still_works());
}

TEST(Requests, EndWithAnAbortAndSoDoLaterOnes) {
  Group group(2);
  const auto calls = start(0, group.comm(0));
  EXPECT_TRUE(is_ok(outcome_of(gqsgd_comm_abort(group.comm(0)))));
  const Clock::time_point begin = Clock::now();
  for (const auto& call : calls) EXPECT_TRUE(is(wait_for(*call), GQSGD_ABORTED, "rank 0 aborted"));
  EXPECT_LT(ms_since(begin), 1000);
  Call later(0);
  EXPECT_TRUE(is(outcome_of(later.start(group.comm(0))), GQSGD_ABORTED, "rank 0 aborted"));
  EXPECT_EQ(later.request, nullptr);
  for (const auto& call : calls) EXPECT_TRUE(call->result_untouched());
}

TEST(Requests, OfADestroyedCommunicatorEndBeforeDestroyReturns) {
  gqsgd_comm comms[2];
  ASSERT_TRUE(is_ok(outcome_of(gqsgd_comm_create_local(2, "timeout_ms=20000", comms))));
  const auto calls = start(0, comms[0]);
  const Clock::time_point begin = Clock::now();
  EXPECT_TRUE(is_ok(outcome_of(gqsgd_comm_destroy(comms[0]))));
  EXPECT_LT(ms_since(begin), 1000) << "100 ms and the scheduler";
  for (const auto& call : calls) {
    EXPECT_TRUE(is(wait_for(*call), GQSGD_ABORTED, "rank 0 was destroyed during a call"));
    EXPECT_EQ(gqsgd_request_wait(call->request), GQSGD_BAD_HANDLE);
  }
  EXPECT_TRUE(is(Call(1).make(comms[1]), GQSGD_ABORTED, "rank 0"));
  EXPECT_EQ(gqsgd_comm_destroy(comms[1]), GQSGD_OK);
}

TEST(Requests, ThatEndedWellKeepTheirResultWhenTheCommunicatorIsDestroyed) {
  gqsgd_comm comm;
  ASSERT_TRUE(is_ok(outcome_of(gqsgd_comm_create_local(1, "", &comm))));
  auto calls = start(0, comm);
  EXPECT_TRUE(is_ok(wait_for(*calls.back())));
  calls.pop_back();
  EXPECT_EQ(gqsgd_comm_destroy(comm), GQSGD_OK);
  for (const auto& call : calls) {
    EXPECT_TRUE(is_ok(wait_for(*call)));
    EXPECT_TRUE(call->result_is_finite());
  }
}

TEST(Requests, TimeOutAsBlockingCallsDo) {
  Group group(2, "timeout_ms=200");
  const Clock::time_point begin = Clock::now();
  const auto calls = start(0, group.comm(0));
  for (const auto& call : calls) EXPECT_TRUE(is(wait_for(*call), GQSGD_TIMEOUT, "rank 1"));
  EXPECT_GE(ms_since(begin), 200);
  EXPECT_LT(ms_since(begin), 1270) << "1.1 times the timeout, 50 ms, and the scheduler";
  EXPECT_TRUE(is(Call(0).make(group.comm(0)), GQSGD_TIMEOUT, "rank 1"));
}

TEST(Requests, LetNoSecondThreadIn) {
  Group group(2);
  Call waiting(0), call(0);
  ASSERT_TRUE(is_ok(outcome_of(waiting.start(group.comm(0)))));
  ASSERT_TRUE(is_ok(outcome_of(call.start(group.comm(0)))));
  std::thread waiter([&] {
    Outcome waited = wait_for(waiting);  // the question below may be in its way
    while (waited.status == GQSGD_BUSY) waited = wait_for(waiting);
    EXPECT_TRUE(is_ok(waited));
  });
  int32_t done = 1;
  Outcome asked = outcome_of(gqsgd_request_test(call.request, &done));
  while (asked.status == GQSGD_OK && done == 0) {  // until the waiter is inside
    std::this_thread::yield();
    asked = outcome_of(gqsgd_request_test(call.request, &done));
  }
  EXPECT_TRUE(is(asked, GQSGD_BUSY, "rank 0"));
  EXPECT_EQ(done, 0);
  EXPECT_TRUE(is(wait_for(call), GQSGD_BUSY, "rank 0"));
  for (int turn = 0; turn < 2; ++turn) EXPECT_TRUE(is_ok(Call(1).make(group.comm(1))));
  waiter.join();
  EXPECT_TRUE(is_ok(wait_for(call))) << "it was not disturbed";
}

TEST(Requests, OfAParentAreForkedInItsChild) {
  const std::string lines = run_processes(2, "timeout_ms=20000", [](int rank, gqsgd_comm comm) {
    Call call(rank), second(rank);
    if (call.start(comm) != GQSGD_OK || second.start(comm) != GQSGD_OK) return std::string("start");
    Child child([&] {
      int32_t done = 0;
      return outcome_of(gqsgd_request_test(call.request, &done)).text() + " | " +
             wait_for(call).text() + " | " + outcome_of(gqsgd_comm_destroy(comm)).text();
    });
    const std::string line = child.line();
    if (!matches(line, "^FORKED: request .* \\| FORKED: request .* \\| FORKED")) return line;
    const Outcome first = wait_for(call), last = wait_for(second);
    return first.status != GQSGD_OK ? first.text() : last.status != GQSGD_OK ? last.text() : "";
  });
  EXPECT_EQ(lines, "");
}

TEST(Requests, NameAPeerThatDies) {
  RankProcesses ranks(3, "timeout_ms=20000", [](int rank, gqsgd_comm comm) {
    std::vector<std::unique_ptr<Call>> calls;
    for (int i = 0; i < kInFlight; ++i) calls.push_back(std::make_unique<Call>(rank));
    for (auto& call : calls) {
      if (rank == 1 && call == calls[2]) raise(SIGKILL);
      if (call->start(comm) != GQSGD_OK) return std::string("start failed: ") + gqsgd_last_error();
    }
    std::string line;
    for (auto& call : calls) line += gqsgd_status_name(wait_for(*call).status) + std::string(" ");
    return line + gqsgd_last_error();
  });
  const auto lines = ranks.wait_each();
  EXPECT_EQ(lines[1], "killed by signal 9");
  for (const int rank : {0, 2}) {
    EXPECT_TRUE(found(lines[static_cast<size_t>(rank)],
                      "^(OK |PEER_LOST |start failed: )+.*rank 1 has died or gone away"));
  }
}

}  // namespace
}  // namespace gq::test
