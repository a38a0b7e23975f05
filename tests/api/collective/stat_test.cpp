// gqsgd_comm_stat from threads of its own while calls go on: an answer at every moment, never less
// than before, exact when calls have ended, and none after destroy.
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <thread>

#include "tests/support/adding_sockets.h"
#include "tests/support/monitor.h"
#include "tests/support/operation.h"
#include "tests/support/ranks.h"

namespace gq::test {
namespace {

constexpr int kRanks = 3;
constexpr int kRounds = 40;

struct Work {
  std::vector<Operation> operations;
  Values input;  ///< of every rank
};

/** Several messages in each call, and blocks that are not finite. */
Work work_of(bool adds) {
  Work work{{{"paper-gl8", GQSGD_SCHEDULE_RING}, {"blocks-8", GQSGD_SCHEDULE_DIRECT}},
            Values(3000, 1.0f)};
  if (adds) work.operations.push_back({"none", GQSGD_SCHEDULE_NATIVE});
  work.input[1234] = NAN;
  return work;
}

std::string make_round(gqsgd_comm comm, const Work& work) {
  for (const Operation& operation : work.operations) {
    Values result;
    const std::string failure = allreduce(comm, operation, work.input, &result);
    if (!failure.empty()) return failure;
  }
  return "";
}

/** The same as requests, all in flight at once. */
std::string start_round(gqsgd_comm comm, const Work& work) {
  std::vector<gqsgd_request> requests(work.operations.size());
  std::vector<Values> results(requests.size(), Values(work.input.size()));
  std::string failure;
  for (size_t k = 0; k < requests.size(); ++k) {
    const Operation& operation = work.operations[k];
    const Quantizer quantizer(operation.quantizer);
    const gqsgd_status status = gqsgd_allreduce_start(
        comm, quantizer.get(), work.input.data(), results[k].data(), work.input.size(),
        GQSGD_FLOAT32, operation.op, config_of(operation), nullptr, &requests[k]);
    if (status != GQSGD_OK) failure = failure_of(status, "start");
  }
  for (gqsgd_request request : requests) {
    if (request == nullptr) continue;
    const gqsgd_status status = gqsgd_request_wait(request);
    if (status != GQSGD_OK && failure.empty()) failure = failure_of(status, "wait");
  }
  return failure;
}

/** What a monitor saw of many rounds, which count that many times what a quiet one does. */
std::string count_rounds(gqsgd_comm comm, const Work& work) {
  Stats quiet{}, begin{}, end{};
  std::string failure = make_round(comm, work);  // allocates workspace
  if (failure.empty()) failure = read_stats(comm, &quiet);
  if (failure.empty()) failure = make_round(comm, work);
  if (failure.empty()) failure = read_stats(comm, &begin);
  Monitor monitor(comm);
  for (int round = 0; round < kRounds && failure.empty(); ++round) {
    failure = round % 2 == 0 ? make_round(comm, work) : start_round(comm, work);
  }
  const std::string seen = monitor.end();
  if (failure.empty()) failure = read_stats(comm, &end);
  if (!failure.empty() || !seen.empty()) return failure + seen;
  for (size_t k = 0; k < kExactStats; ++k) {
    const uint64_t each = begin[k] - quiet[k], all = end[k] - begin[k];
    if (all == kRounds * each) continue;
    return std::string(kStatNames[k]) + " grew by " + std::to_string(all) + " in " +
           std::to_string(kRounds) + " rounds of " + std::to_string(each);
  }
  const bool idle = begin[1] == quiet[1] || begin[5] == quiet[5];
  return idle ? "no messages, or no blocks that are not finite, were counted" : "";
}

RankBody counting(bool adds) {
  return [work = work_of(adds)](int, gqsgd_comm comm) { return count_rounds(comm, work); };
}

TEST(Stat, CallsAndRequestsOfThreads_Monotone_ExactAtTheEnd) {
  EXPECT_EQ(run_threads(kRanks, "chunk_value_count=512", counting(false)), "");
}

TEST(Stat, CallsAndRequestsOfProcesses_Monotone_ExactAtTheEnd) {
  EXPECT_EQ(run_processes(kRanks, "chunk_value_count=512", counting(false)), "");
}

TEST(Stat, CallsAndRequestsOverSockets_Monotone_ExactAtTheEnd) {
  AddingGroup group(kRanks);
  EXPECT_EQ(run_threads(group.comms("chunk_value_count=512"), counting(true)), "");
}

/** Asks, while this rank's first call waits for its peers, until `name` is more than `less`. */
std::string await(gqsgd_comm comm, const char* name, uint64_t* less) {
  const uint64_t before = *less;
  while (*less == before) {
    const gqsgd_status status = gqsgd_comm_stat(comm, name, less);
    if (status != GQSGD_OK) return failure_of(status, name);
    std::this_thread::yield();
  }
  return "";
}

/** What can be seen of a call that no peer has joined. */
std::string watch_waiting_call(gqsgd_comm comm) {
  uint64_t calls = 0, headers = 0, waited = 0;
  std::string wrong = await(comm, "calls", &calls);
  while (wrong.empty() && headers < 80 * (kRanks - 1)) {
    wrong = await(comm, "header_bytes_sent", &headers);
  }
  for (int turn = 0; turn < 3 && wrong.empty(); ++turn) wrong = await(comm, "wait_ns", &waited);
  Stats now{};
  if (wrong.empty()) wrong = read_stats(comm, &now);
  if (!wrong.empty()) return wrong;
  return now[0] == 1 && now[2] == 0 && now[3] == 80 * (kRanks - 1) ? "" : "calls, codes or headers";
}

/** Rank 0 makes a call; its peers do when a thread beside it has seen it wait. */
std::string call_watched(int rank, gqsgd_comm comm, std::atomic<uint32_t>* seen, bool request) {
  const Work work{{{"paper-gl8", GQSGD_SCHEDULE_DIRECT}}, Values(1000, 1.0f)};
  std::string wrong;
  std::thread monitor([&] {
    if (rank == 0) wrong = watch_waiting_call(comm);
    if (rank == 0) seen->store(1);
  });
  while (rank != 0 && seen->load() == 0) std::this_thread::yield();
  const std::string failure = request ? start_round(comm, work) : make_round(comm, work);
  monitor.join();
  return wrong + failure;
}

class StatDuringACall : public testing::TestWithParam<bool> {
 protected:
  RankBody body() const {
    return [this](int rank, gqsgd_comm comm) {
      return call_watched(rank, comm, seen_.data(), GetParam());
    };
  }

 private:
  SharedArray<std::atomic<uint32_t>> seen_{1};
};

TEST_P(StatDuringACall, OfThreads_ReportsProgress) {
  EXPECT_EQ(run_threads(kRanks, "", body()), "");
}

TEST_P(StatDuringACall, OfProcesses_ReportsProgress) {
  EXPECT_EQ(run_processes(kRanks, "", body()), "");
}

TEST_P(StatDuringACall, OverSockets_ReportsProgress) {
  EXPECT_EQ(run_threads(custom_comms(socket_tables(kRanks), ""), body()), "");
}

INSTANTIATE_TEST_SUITE_P(CallOrRequest, StatDuringACall, testing::Bool(),
                         [](const auto& info) { return info.param ? "Request" : "Call"; });

/** Sockets that note the thread on which they are closed. */
struct NotingSockets {
  gqsgd_transport sockets;
  std::atomic<std::thread::id> closed_on{};

  bool done(uint64_t) { return false; }
};

gqsgd_transport noting(NotingSockets* self) {
  gqsgd_transport table = wrapped(self);
  table.close = [](void* user) {
    NotingSockets& self = *static_cast<NotingSockets*>(user);
    self.closed_on = std::this_thread::get_id();
    return self.sockets.close(self.sockets.user);
  };
  return table;
}

/** Asks until the handle is out of use, in every way that any thread may. */
gqsgd_status ask_to_the_end(gqsgd_comm comm) {
  for (;;) {
    uint64_t value = 0;
    int32_t rank = 0;
    gqsgd_status status = gqsgd_comm_stat(comm, "wait_ns", &value);
    if (status == GQSGD_OK) status = gqsgd_comm_rank(comm, &rank);
    if (status == GQSGD_OK) status = gqsgd_comm_counter(comm, &value);
    if (status == GQSGD_OK) status = gqsgd_comm_status(comm);
    if (status != GQSGD_OK) return status;
  }
}

// A communicator that ended with the answer to a question would be closed on the wrong thread, and
// after destroy has returned.
TEST(Stat, ReadWhileDestroyed_BadHandle_DestroyerFreesOnItsOwnThread) {
  for (int round = 0; round < 150; ++round) {
    NotingSockets user{socket_tables(1)[0]};
    const gqsgd_comm comm = custom_comms({noting(&user)}, "")[0];
    std::atomic<int> asking{0};
    gqsgd_status last[2];
    const auto ask = [&](int k) {
      ++asking;
      last[k] = ask_to_the_end(comm);
    };
    std::thread first(ask, 0), second(ask, 1);
    while (asking < 2) std::this_thread::yield();
    EXPECT_EQ(gqsgd_comm_destroy(comm), GQSGD_OK);
    const bool closed_here = user.closed_on.load() == std::this_thread::get_id();
    first.join();
    second.join();
    ASSERT_TRUE(closed_here) << "round " << round;
    ASSERT_EQ(last[0], GQSGD_BAD_HANDLE) << "round " << round;
    ASSERT_EQ(last[1], GQSGD_BAD_HANDLE) << "round " << round;
  }
}

}  // namespace
}  // namespace gq::test
