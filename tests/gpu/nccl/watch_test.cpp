// The thread that watches over a communicator: what it ends, while the program waits for a stream
// or NCCL keeps its thread, and nothing of the library is called.
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "tests/gpu/nccl/faults.h"

namespace gq::test {
namespace {

/** After one call of all ranks, rank 0 enqueues one more; the others do not come. */
void lose_a_call(const NcclGroup& group, StreamCall* lost) {
  EXPECT_EQ(group.run([&](int rank, gqsgd_comm comm) -> std::string {
    StreamCall first(some_values());
    if (first.make(comm, usual()) != GQSGD_OK || !first.wait()) return "the first call failed";
    if (rank == 0 && lost->make(comm, usual()) != GQSGD_OK) return gqsgd_last_error();
    return "";
  }),
            "");
}

class Watch : public testing::TestWithParam<const char*> {};

TEST_P(Watch, GroupAborted_StreamCompletes) {
  const NcclGroup group(2, GetParam());
  StreamCall lost(some_values());
  lose_a_call(group, &lost);
  EXPECT_FALSE(lost.wait(300)) << "it ended without its peer";
  EXPECT_EQ(gqsgd_comm_abort(group.comm(0)), GQSGD_OK);
  EXPECT_TRUE(lost.wait(5000) && lost.untouched());
  EXPECT_TRUE(says(gqsgd_comm_status(group.comm(0)), GQSGD_ABORTED, "rank 0 aborted"));
}

TEST_P(Watch, ErrorOfNcclLater_StreamCompletes) {
  const NcclGroup group(2, GetParam());
  StreamCall lost(some_values());
  lose_a_call(group, &lost);
  EXPECT_FALSE(lost.wait(300)) << "it ended without its peer";
  StandInFaults later{};
  later.async_error = 6;
  const With faults(later);
  EXPECT_TRUE(lost.wait(5000) && lost.untouched());
  for (int k = 0; k < 2; ++k) {
    EXPECT_TRUE(
        says(gqsgd_comm_status(group.comm(0)), GQSGD_BACKEND, "NCCL error 6 (remote process"));
  }
}

INSTANTIATE_TEST_SUITE_P(, Watch, testing::Values("nccl_blocking=on", "nccl_blocking=off"),
                         [](const auto& instance) {
                           return std::string(instance.index == 0 ? "Blocking" : "NotBlocking");
                         });

/** As when NCCL connects ranks anew and one is missing. */
TEST(OperationOfNcclThatBlocks, DoesNotReturn_Timeout) {
  const NcclGroup group(2);
  EXPECT_EQ(group.run([&](int rank, gqsgd_comm comm) -> std::string {
    if (gqsgd_comm_set_timeout(comm, 400) != GQSGD_OK) return gqsgd_last_error();
    StreamCall first(some_values());
    if (first.make(comm, usual()) != GQSGD_OK || !first.wait()) return "the first call failed";
    if (rank == 1) return "";
    StandInFaults stuck{};
    stuck.stuck_group = 1;
    const With faults(stuck);
    StreamCall lost(some_values());
    const auto begun = Clock::now();
    const gqsgd_status status = lost.make(comm, usual());
    const std::string sentence = gqsgd_last_error();
    if (status != GQSGD_TIMEOUT) return gqsgd_status_name(status) + sentence;
    if (sentence.find("ncclGroupEnd: NCCL was not through after 400 ms") == std::string::npos) {
      return sentence;
    }
    if (Clock::now() - begun > std::chrono::seconds(3)) return "it took its time";
    if (!lost.wait(5000)) return "the stream does not get through";
    if (gqsgd_comm_status(comm) != GQSGD_TIMEOUT) return "it is not broken";
    return lost.untouched() ? "" : "something was written";
  }),
            "");
}

/** To ask NCCL for errors is to end the thread that it made for the last operation. */
TEST(OperationsThatDoNotBlock, UnderWatch_OneThreadAsksAtATime) {
  const NcclGroup group(2, "nccl_blocking=off");
  StandInFaults slow{};
  slow.in_progress_polls = 2;
  slow.look_time_ms = 20;
  const int before = crowds();
  const With faults(slow);
  EXPECT_EQ(group.run([&](int, gqsgd_comm comm) -> std::string {
    for (int k = 0; k < 4; ++k) {
      StreamCall call(some_values());
      if (call.make(comm, usual()) != GQSGD_OK || !call.wait()) return gqsgd_last_error();
    }
    return "";
  }),
            "");
  EXPECT_EQ(crowds(), before);
}

/** Rank 0 makes a call of which `faults` are, rank 1 aborts it meanwhile; what became of it. */
std::string abort_inside(const StandInFaults& faults_of_call) {
  const NcclGroup group(2);
  return group.run([&](int rank, gqsgd_comm comm) -> std::string {
    StreamCall first(some_values());
    if (first.make(comm, usual()) != GQSGD_OK || !first.wait()) return "the first call failed";
    if (rank == 1) {
      std::this_thread::sleep_for(std::chrono::milliseconds(80));
      return gqsgd_comm_abort(group.comm(0)) == GQSGD_OK ? "" : gqsgd_last_error();
    }
    const With faults(faults_of_call);
    StreamCall lost(some_values());
    const gqsgd_status status = lost.make(comm, usual());
    if (!lost.wait(5000) || !lost.untouched()) return "the stream does not get through, or wrote";
    return status == GQSGD_ABORTED ? "" : std::string(gqsgd_last_error());
  });
}

/** NCCL frees the communicator: not under a thread that would come out by itself. */
TEST(OperationOfNcclThatBlocks, GroupAborted_ItsEndIsWaitedFor) {
  StandInFaults slow{};
  slow.enqueue_time_ms = 150;
  const int before = aborted_inside();
  EXPECT_EQ(abort_inside(slow), "");
  EXPECT_EQ(aborted_inside(), before);
}

/** ... but for one that waits for the abort. */
TEST(OperationOfNcclThatBlocks, DoesNotReturnGroupAborted_Returns) {
  StandInFaults stuck{};
  stuck.stuck_group = 1;
  const int before = aborted_inside();
  EXPECT_EQ(abort_inside(stuck), "");
  EXPECT_EQ(aborted_inside(), before + 1);
}

}  // namespace
}  // namespace gq::test
