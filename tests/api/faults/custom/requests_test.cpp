// Requests over custom transports, whose callers make their progress: calls of every kind one after
// the other, and what a thread looks at while it waits for one of them.
#include <gtest/gtest.h>
#include <malloc.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <thread>

#include "tests/support/operation.h"
#include "tests/support/ranks.h"
#include "tests/support/sanitized.h"
#include "tests/support/socket_group.h"
#include "tests/unit/transport/children.h"

namespace gq::test {
namespace {

constexpr const char* kOptions = "timeout_ms=20000,chunk_value_count=256";

enum class Kind { allreduce, many, reduce_scatter, allgather };

/** A collective on two ranks, whose slices and tensors are the same two counts. */
struct Collective {
  Kind kind;
  const char* format;
};

/** One rank's buffers of a collective, and its request. */
class Started {
 public:
  Started(const Collective& collective, int rank)
      : collective_(collective),
        rank_(static_cast<size_t>(rank)),
        quantizer_(collective.format),
        send_(gradients(2, kCounts[0] + kCounts[1], 31)[rank_]),
        recv_(send_.size(), -1.0f) {}

  gqsgd_status start(gqsgd_comm comm, uint64_t index) {
    const Config config = config_at(5, index, GQSGD_SCHEDULE_AUTO);
    gqsgd_quantizer const q = quantizer_.get();
    const void* const sends[] = {send_.data(), send_.data() + kCounts[0]};
    void* const recvs[] = {recv_.data(), recv_.data() + kCounts[0]};
    switch (collective_.kind) {
      case Kind::many:
        return gqsgd_allreduce_many_start(comm, q, sends, recvs, kCounts, 2, GQSGD_FLOAT32,
                                          GQSGD_SUM, config, nullptr, &request);
      case Kind::reduce_scatter:
        return gqsgd_reduce_scatter_start(comm, q, send_.data(), recv_.data(), kCounts,
                                          GQSGD_FLOAT32, GQSGD_SUM, config, nullptr, &request);
      case Kind::allgather:
        return gqsgd_allgather_start(comm, q, sends[rank_], recv_.data(), kCounts, GQSGD_FLOAT32,
                                     config, nullptr, &request);
      default:
        return gqsgd_allreduce_start(comm, q, send_.data(), recv_.data(), send_.size(),
                                     GQSGD_FLOAT32, GQSGD_SUM, config, nullptr, &request);
    }
  }
  const Values& result() const { return recv_; }

  gqsgd_request request = nullptr;

 private:
  static constexpr size_t kCounts[] = {385, 700};

  Collective collective_;
  size_t rank_;
  Quantizer quantizer_;
  Values send_, recv_;
};

/** Each collective right after each other one, and after itself. */
std::vector<Collective> in_every_order() {
  constexpr Collective kAll[] = {
      {Kind::allreduce, "paper-gl4,block=128"}, {Kind::allreduce, "rotated-4-8"},
      {Kind::many, "paper-gl8"},                {Kind::many, "adaptive-4"},
      {Kind::reduce_scatter, "paper-gl4"},      {Kind::reduce_scatter, "rice-4"},
      {Kind::allgather, "blocks-8"},            {Kind::allgather, "rice-4"}};
  std::vector<Collective> ordered;
  for (const Collective& before : kAll) {
    for (const Collective& after : kAll) ordered.insert(ordered.end(), {before, after});
  }
  return ordered;
}

/** The results of one rank: of requests that are all in flight at once, or of one after the other.
 */
std::string results_of(int rank, gqsgd_comm comm, bool at_once, std::vector<Values>* results) {
  std::vector<std::unique_ptr<Started>> calls;
  for (const Collective& collective : in_every_order()) {
    calls.push_back(std::make_unique<Started>(collective, rank));
    gqsgd_status status = calls.back()->start(comm, calls.size());
    if (status == GQSGD_OK && !at_once) status = gqsgd_request_wait(calls.back()->request);
    if (status != GQSGD_OK) return failure_of(status, "a collective");
  }
  for (const auto& call : calls) {
    const gqsgd_status status = at_once ? gqsgd_request_wait(call->request) : GQSGD_OK;
    if (status != GQSGD_OK) return failure_of(status, "gqsgd_request_wait");
    results->push_back(call->result());
  }
  return "";
}

// The queue of a communicator makes all its calls by one state machine.
TEST(CustomRequests, CollectivesOfEveryKindInTurn_BitsOfThreads) {
  const auto body = [](int rank, gqsgd_comm threads, gqsgd_comm sockets) -> std::string {
    std::vector<Values> expected, results;
    std::string failure = results_of(rank, threads, false, &expected);
    if (failure.empty()) failure = results_of(rank, sockets, true, &results);
    const std::vector<Collective> collectives = in_every_order();
    for (size_t k = 0; k < results.size() && failure.empty(); ++k) {
      const std::string wrong = difference(results[k], expected[k]);
      if (!wrong.empty()) failure = std::string(collectives[k].format) + ": " + wrong;
    }
    return failure;
  };
  const auto sockets = custom_comms(socket_tables(2), kOptions);
  EXPECT_EQ(run_threads(2, kOptions,
                        [&](int rank, gqsgd_comm comm) {
                          return body(rank, comm, sockets[static_cast<size_t>(rank)]);
                        }),
            "");
  for (gqsgd_comm comm : sockets) EXPECT_EQ(gqsgd_comm_destroy(comm), GQSGD_OK);
}

/** Three floats to add, over and over. */
struct Sum {
  Sum() : quantizer("none") {}
  gqsgd_status start(gqsgd_comm comm) {
    return gqsgd_allreduce_start(comm, quantizer.get(), values, result, 3, GQSGD_FLOAT32,
                                 GQSGD_SUM, nullptr, nullptr, &request);
  }
  gqsgd_status make(gqsgd_comm comm) {
    return gqsgd_allreduce(comm, quantizer.get(), values, result, 3, GQSGD_FLOAT32, GQSGD_SUM,
                           nullptr, nullptr);
  }

  Quantizer quantizer;
  float values[3] = {1, 2, 3}, result[3] = {};
  gqsgd_request request = nullptr;
};

// What a child waits for is its own: bytes of its parent's requests are in sockets that it has too.
TEST(CustomRequests, ChildWaitsInAGroupOfItsOwn_ParentsRequestsLeftAlone) {
  const auto comms = custom_comms(socket_tables(2), "timeout_ms=2000");
  Sum sums[2];
  int32_t done[2] = {};
  const auto test_both = [&] {
    for (size_t rank = 0; rank < 2; ++rank) {
      if (done[rank] != 0) continue;
      EXPECT_EQ(gqsgd_request_test(sums[rank].request, &done[rank]), GQSGD_OK)
          << gqsgd_last_error();
    }
  };
  for (size_t rank = 0; rank < 2; ++rank) ASSERT_EQ(sums[rank].start(comms[rank]), GQSGD_OK);
  test_both();
  Child child([] {
    const auto own = custom_comms(socket_tables(2), "timeout_ms=100");
    return std::string(gqsgd_status_name(Sum().make(own[0])));
  });
  EXPECT_EQ(child.line(), "TIMEOUT");
  for (int turn = 0; turn < 1000 && !(done[0] && done[1]); ++turn) {
    test_both();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_TRUE(done[0] && done[1]) << "for bytes that the child has taken";
  for (gqsgd_comm comm : comms) EXPECT_EQ(gqsgd_comm_destroy(comm), GQSGD_OK);
}

/** What is left to do when the process of a test exits: written to a pipe for its parent. */
struct AtExit {
  std::vector<gqsgd_comm> comms;
  int pipe_end = -1;

  void run() {
    Sum here;
    std::thread peer([&] { Sum().make(comms[1]); });
    gqsgd_status status = here.start(comms[0]);
    if (status == GQSGD_OK) status = gqsgd_request_wait(here.request);
    peer.join();
    const char is_right = status == GQSGD_OK && here.result[0] == 2 ? 'y' : 'n';
    if (write(pipe_end, &is_right, 1) != 1) _exit(1);
  }
};

AtExit& at_exit() {
  static AtExit* const object = new AtExit;
  return *object;
}

// Functions of atexit(), as destructors of static objects, run behind those of thread_local ones.
TEST(CustomRequests, MadeWhileTheProcessExits_AsEver) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  Child child([&]() -> std::string {
    at_exit().comms = custom_comms(socket_tables(2), "timeout_ms=20000");
    at_exit().pipe_end = ends[1];
    Sum first;
    std::thread peer([] { Sum().make(at_exit().comms[1]); });
    const bool made = first.start(at_exit().comms[0]) == GQSGD_OK &&
                      gqsgd_request_wait(first.request) == GQSGD_OK;
    peer.join();
    if (!made || std::atexit([] { at_exit().run(); }) != 0) return "no request";
    std::exit(3);
  });
  close(ends[1]);
  EXPECT_EQ(child.line(), "exited with 3");
  char is_right = '-';
  EXPECT_EQ(read(ends[0], &is_right, 1), 1);
  EXPECT_EQ(is_right, 'y');
  close(ends[0]);
}

// A thread that waits in one group looks at a second one, in which it has started a request. That
// is no call of the second group: another thread makes its calls meanwhile.
TEST(CustomRequests, GroupLeftToAnotherThread_NeverBusy) {
  constexpr int kCalls = 1000;
  const auto left = custom_comms(socket_tables(2), "timeout_ms=20000");
  const auto waiting = custom_comms(socket_tables(2), "timeout_ms=20000");
  Sum started;
  std::atomic<bool> is_started{false};
  std::thread starter([&] {
    EXPECT_EQ(started.start(left[0]), GQSGD_OK);
    is_started = true;
    EXPECT_EQ(Sum().make(waiting[0]), GQSGD_OK) << gqsgd_last_error();
  });
  std::thread peer([&] {
    Sum sum;
    gqsgd_status status = GQSGD_OK;
    for (int k = 0; k <= kCalls && status == GQSGD_OK; ++k) status = sum.make(left[1]);
    EXPECT_EQ(status, GQSGD_OK) << gqsgd_last_error();
  });
  while (!is_started) std::this_thread::yield();
  gqsgd_status status = gqsgd_request_wait(started.request);
  Sum sum;
  for (int k = 0; k < kCalls && status == GQSGD_OK; ++k) status = sum.make(left[0]);
  EXPECT_EQ(status, GQSGD_OK) << gqsgd_last_error();
  if (status != GQSGD_OK) gqsgd_comm_destroy(left[0]);  // for the peer
  peer.join();
  EXPECT_EQ(Sum().make(waiting[1]), GQSGD_OK) << gqsgd_last_error();
  starter.join();
  for (gqsgd_comm comm : left) gqsgd_comm_destroy(comm);
  for (gqsgd_comm comm : waiting) EXPECT_EQ(gqsgd_comm_destroy(comm), GQSGD_OK);
}

/** Of the heap; 0 where a sanitizer does not tell. */
size_t used_bytes() { return kAddressSanitized ? heap_bytes() : mallinfo2().uordblks; }

// A communicator takes some kilobytes.
TEST(CustomRequests, CommunicatorsOfTheirOwn_NothingLeftBehind) {
  const auto make_one = [] {
    const auto comms = custom_comms(socket_tables(1), "");
    Sum sum;
    ASSERT_EQ(sum.start(comms[0]), GQSGD_OK);
    ASSERT_EQ(gqsgd_request_wait(sum.request), GQSGD_OK);
    ASSERT_EQ(gqsgd_comm_destroy(comms[0]), GQSGD_OK);
  };
  for (int k = 0; k < 10; ++k) make_one();
  const size_t before = used_bytes();
  for (int k = 0; k < 500; ++k) make_one();
  EXPECT_LT(used_bytes(), before + (256 << 10));
}

}  // namespace
}  // namespace gq::test
