// Requests on streams: the bits of blocking calls, an end when the stream is through, and what the
// device finds returned by the request that it belongs to.
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "tests/gpu/nccl/group.h"

namespace gq::test {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kCount = 800;

Operation usual() { return {"blocks-8", GQSGD_SCHEDULE_DIRECT}; }

Values values_of(int rank) { return gradients(4, kCount, 15)[static_cast<size_t>(rank)]; }

bool has_ended(gqsgd_request request, gqsgd_status* status) {
  int32_t done = 0;
  *status = gqsgd_request_test(request, &done);
  return done != 0;
}

/** Makes the usual call so often that it is the expected one. */
std::string warm(gqsgd_comm comm, int rank) {
  for (int k = 0; k < 2; ++k) {
    StreamCall made(values_of(rank));
    if (made.make(comm, usual()) != GQSGD_OK) return gqsgd_last_error();
    if (!made.wait()) return "the stream does not get through";
  }
  return "";
}

TEST(Requests, AllCalls_BitsOfBlockingCalls) {
  const NcclGroup group(3);
  const std::vector<Values> inputs = gradients(3, kCount, 15);
  std::vector<Operation> calls(4, usual());
  calls[1].quantizer = "paper-ge8";
  calls[2].schedule = GQSGD_SCHEDULE_RING;
  calls[2].quantizer = "paper-gl8";
  calls[3].in_place = true;
  std::vector<Values> expected;
  for (const Operation& call : calls) expected.push_back(simulate(call, inputs));
  EXPECT_EQ(group.run([&](int rank, gqsgd_comm comm) -> std::string {
    std::vector<std::unique_ptr<StreamCall>> made;
    std::vector<gqsgd_request> requests(2 * calls.size());
    for (size_t k = 0; k < requests.size(); ++k) {
      made.push_back(std::make_unique<StreamCall>(inputs[static_cast<size_t>(rank)]));
      if (made[k]->start(comm, calls[k % 4], &requests[k]) != GQSGD_OK) return gqsgd_last_error();
    }
    for (size_t k = requests.size(); k-- > 0;) {  // waited for in any order
      if (gqsgd_request_wait(requests[k]) != GQSGD_OK) return gqsgd_last_error();
      const std::string found = difference(made[k]->result(), expected[k % 4]);
      if (!found.empty()) return describe(calls[k % 4]) + ": " + found;
    }
    return "";
  }),
            "");
}

TEST(Requests, StreamDone_RequestEnds) {
  const NcclGroup group(2);
  EXPECT_EQ(group.run([](int rank, gqsgd_comm comm) -> std::string {
    if (const std::string failure = warm(comm, rank); !failure.empty()) return failure;
    StreamCall made(values_of(rank));
    made.stream.sleep(200);
    gqsgd_request request = nullptr;
    const auto begun = Clock::now();
    if (made.start(comm, usual(), &request) != GQSGD_OK) return gqsgd_last_error();
    gqsgd_status status = GQSGD_OK;
    if (has_ended(request, &status)) return "it ended before the stream came to it";
    if (Clock::now() - begun > std::chrono::milliseconds(150)) return "it was not started at once";
    while (!has_ended(request, &status)) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    if (status != GQSGD_OK || made.untouched()) return "it ended without a result";
    int32_t done = 0;
    return gqsgd_request_test(request, &done) == GQSGD_BAD_HANDLE ? "" : "it was not freed";
  }),
            "");
}

/** The call after it knows nothing of it. */
TEST(Requests, DeviceFinding_Reported) {
  const NcclGroup group(3);
  EXPECT_EQ(group.run([](int rank, gqsgd_comm comm) -> std::string {
    if (const std::string failure = warm(comm, rank); !failure.empty()) return failure;
    StreamCall wrong(values_of(rank)), right(values_of(rank));
    Operation call = usual();
    call.step = rank == 1 ? 8 : 7;
    gqsgd_request requests[2];
    if (wrong.start(comm, call, &requests[0]) != GQSGD_OK) return gqsgd_last_error();
    if (right.start(comm, usual(), &requests[1]) != GQSGD_OK) return gqsgd_last_error();
    const gqsgd_status first = gqsgd_request_wait(requests[0]);
    const std::string sentence = gqsgd_last_error();
    const gqsgd_status second = gqsgd_request_wait(requests[1]);
    if (first != GQSGD_MISMATCH || sentence.find("step differs") == std::string::npos) {
      return gqsgd_status_name(first) + sentence;
    }
    if (second != GQSGD_OK || gqsgd_comm_status(comm) != GQSGD_OK) return gqsgd_last_error();
    return wrong.untouched() && !right.untouched() ? "" : "another one was written";
  }),
            "");
}

TEST(Requests, Refusal_ReportedToAllRanks) {
  const NcclGroup group(3);
  EXPECT_EQ(group.run([](int rank, gqsgd_comm comm) -> std::string {
    StreamCall made(values_of(rank));
    Operation call = usual();
    if (rank == 2) call.schedule = with_number<gqsgd_schedule>(99);
    gqsgd_request request = nullptr;
    if (made.start(comm, call, &request) != GQSGD_OK) return gqsgd_last_error();
    const gqsgd_status status = gqsgd_request_wait(request);
    if (status != (rank == 2 ? GQSGD_INVALID_ARGUMENT : GQSGD_REMOTE_ERROR)) {
      return gqsgd_last_error();
    }
    if (rank == 2 && std::string(gqsgd_last_error()).find("schedule is 99") == std::string::npos) {
      return gqsgd_last_error();
    }
    return warm(comm, rank);
  }),
            "");
}

/** A request whose peer never calls ends by its timeout, by an abort, or with its communicator. */
TEST(Requests, PeersMissing_RequestEnds) {
  enum class By { wait, test, abort, destroy };
  for (const By by : {By::wait, By::test, By::abort, By::destroy}) {
    const bool times_out = by == By::wait || by == By::test;
    NcclGroup group(2, times_out ? "timeout_ms=300" : "timeout_ms=1000");
    gqsgd_request request = nullptr;
    std::unique_ptr<StreamCall> lost;
    EXPECT_EQ(group.run([&](int rank, gqsgd_comm comm) -> std::string {
      const std::string failure = warm(comm, rank);
      if (!failure.empty() || rank == 1) return failure;
      lost = std::make_unique<StreamCall>(values_of(rank));
      return lost->start(comm, usual(), &request) == GQSGD_OK ? "" : gqsgd_last_error();
    }),
              "");
    if (by == By::abort) {
      EXPECT_EQ(gqsgd_comm_abort(group.comm(0)), GQSGD_OK);
    }
    if (by == By::destroy) group.destroy(0);
    gqsgd_status status = GQSGD_OK;
    const auto begun = Clock::now();
    if (by == By::test) {
      while (!has_ended(request, &status) && Clock::now() - begun < std::chrono::seconds(10)) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
    } else {
      status = gqsgd_request_wait(request);
    }
    EXPECT_LT(Clock::now() - begun, std::chrono::seconds(3));
    EXPECT_EQ(status, times_out ? GQSGD_TIMEOUT : GQSGD_ABORTED) << gqsgd_last_error();
    EXPECT_TRUE(lost->wait(5000) && lost->untouched());
  }
}

TEST(Requests, CommunicatorDestroyed_OkReported) {
  NcclGroup group(1);
  StreamCall made(values_of(0));
  gqsgd_request request = nullptr;
  ASSERT_EQ(made.start(group.comm(0), usual(), &request), GQSGD_OK);
  group.destroy(0);
  EXPECT_EQ(gqsgd_request_wait(request), GQSGD_OK) << gqsgd_last_error();
  EXPECT_FALSE(made.untouched());
}

/** The event of a request belongs to the group's device, whichever one its thread has. */
TEST(Requests, ThreadIsOnAnotherDevice_OkReported) {
  const NcclGroup group(1);
  StreamCall made(values_of(0));
  gqsgd_request request = nullptr;
  (void)host_device().set_current(1).ok();
  EXPECT_EQ(made.start(group.comm(0), usual(), &request), GQSGD_OK);
  const gqsgd_status status = gqsgd_request_wait(request);
  (void)host_device().set_current(0).ok();
  EXPECT_EQ(status, GQSGD_OK) << gqsgd_last_error();
  EXPECT_FALSE(made.untouched());
}

/** Events and places of requests that have ended are used again. */
TEST(Requests, AllEnded_NothingLeftBehind) {
  const size_t memory_before = allocations_in_use();
  {
    const NcclGroup group(1);
    size_t after_first = 0;
    for (int k = 0; k < 20; ++k) {
      StreamCall made(values_of(0));
      gqsgd_request request = nullptr;
      ASSERT_EQ(made.start(group.comm(0), usual(), &request), GQSGD_OK);
      ASSERT_EQ(gqsgd_request_wait(request), GQSGD_OK);
      if (k == 0) after_first = allocations_in_use();
      EXPECT_EQ(allocations_in_use(), after_first);
    }
  }
  EXPECT_EQ(allocations_in_use(), memory_before);
}

}  // namespace
}  // namespace gq::test
