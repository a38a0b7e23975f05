// What goes wrong among threads on memory of devices: ranks that are missing, abort or leave,
// memory that is short, streams that take too long; each a status and a sentence, and no wait
// without end.
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "tests/gpu/nccl/short_memory.h"
#include "tests/gpu/streams/local_group.h"

namespace gq::test {
namespace {

using Clock = std::chrono::steady_clock;

Operation usual() { return {"paper-ge8", GQSGD_SCHEDULE_DIRECT}; }

Values some_values() { return gradients(1, 600, 2)[0]; }

std::string make_ok(gqsgd_comm comm) {
  StreamCall made(some_values());
  if (made.make(comm, usual()) != GQSGD_OK) return gqsgd_last_error();
  return made.wait() && !made.untouched() ? "" : "the stream does not get through";
}

/** "" if the call is refused with this status and these words; afterwards it always is. */
std::string make_broken(gqsgd_comm comm, gqsgd_status expected, const std::string& part) {
  StreamCall made(some_values());
  const gqsgd_status status = made.make(comm, usual());
  const std::string sentence = gqsgd_last_error();
  if (!made.wait()) return "the stream does not get through";
  if (status != expected || sentence.find(part) == std::string::npos) {
    return gqsgd_status_name(status) + (": " + sentence);
  }
  if (gqsgd_comm_status(comm) != expected) return "gqsgd_comm_status says something else";
  return made.make(comm, usual()) == expected ? "" : "the next call says something else";
}

TEST(MissingRank, RankDoesNotCall_NamedInTime) {
  const LocalGroup group(3, "timeout_ms=300");
  EXPECT_EQ(group.run([](int, gqsgd_comm comm) { return make_ok(comm); }), "");
  const auto begun = Clock::now();
  EXPECT_EQ(group.run([](int rank, gqsgd_comm comm) -> std::string {
    return rank == 1 ? "" : make_broken(comm, GQSGD_TIMEOUT, "rank 1");
  }),
            "");
  EXPECT_LT(Clock::now() - begun, std::chrono::seconds(10));
  StreamCall late(some_values());
  EXPECT_EQ(late.make(group.comm(1), usual()), GQSGD_REVOKED) << gqsgd_last_error();
  EXPECT_TRUE(late.untouched());
}

TEST(MissingRank, RankIsGone_Named) {
  LocalGroup group(3);
  EXPECT_EQ(group.run([](int, gqsgd_comm comm) { return make_ok(comm); }), "");
  group.destroy(2);
  EXPECT_EQ(group.run([](int rank, gqsgd_comm comm) -> std::string {
    return rank == 2 ? "" : make_broken(comm, GQSGD_PEER_LOST, "rank 2");
  }),
            "");
}

TEST(Abort, WaitingCall_Ends) {
  const LocalGroup group(3);
  EXPECT_EQ(group.run([](int, gqsgd_comm comm) { return make_ok(comm); }), "");
  EXPECT_EQ(group.run([](int rank, gqsgd_comm comm) -> std::string {
    if (rank != 0) return make_broken(comm, GQSGD_ABORTED, "rank 0");
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    return gqsgd_comm_abort(comm) == GQSGD_OK ? "" : gqsgd_last_error();
  }),
            "");
}

/** Memory is short on one rank, in whatever step: no rank hangs, and nothing is left. */
TEST(Memory, AllocationFailsAnywhere_NoMemory) {
  make_with_short_memory<LocalGroup>(usual(), some_values());
}

TEST(Memory, Destroyed_GivenBack) {
  const size_t before = allocations_in_use();
  for (int k = 0; k < 10; ++k) {
    const LocalGroup group(3);
    EXPECT_EQ(group.run([](int, gqsgd_comm comm) { return make_ok(comm); }), "");
  }
  EXPECT_EQ(allocations_in_use(), before);
}

/** Peers may still read from the memory of a rank that has given up. */
TEST(Memory, BrokenGroup_KeptUntilReadersAreGone) {
  const size_t before = allocations_in_use();
  {
    LocalGroup group(2, "timeout_ms=300");
    EXPECT_EQ(group.run([](int, gqsgd_comm comm) { return make_ok(comm); }), "");
    const size_t of_a_rank = (allocations_in_use() - before) / 2;
    EXPECT_EQ(make_broken(group.comm(0), GQSGD_TIMEOUT, "rank 1"), "");
    group.destroy(0);
    // Its arena and its scratch memory, and two for kernels that wait.
    EXPECT_EQ(allocations_in_use(), before + of_a_rank + 4);
  }
  EXPECT_EQ(allocations_in_use(), before);
}

TEST(Memory, Reserved_NothingAllocated) {
  const LocalGroup group(2);
  EXPECT_EQ(group.run([](int, gqsgd_comm comm) -> std::string {
    const Quantizer quantizer(usual().quantizer);
    const std::string said = make_ok(comm);
    if (!said.empty()) return said;
    if (gqsgd_comm_reserve(comm, quantizer.get(), 100000, GQSGD_FLOAT32) != GQSGD_OK) {
      return gqsgd_last_error();
    }
    uint64_t reserved = 0, used = 0;
    gqsgd_comm_stat(comm, "workspace_bytes", &reserved);
    StreamCall made(gradients(1, 100000, 2)[0]);
    if (made.make(comm, usual()) != GQSGD_OK || !made.wait()) return gqsgd_last_error();
    gqsgd_comm_stat(comm, "workspace_bytes", &used);
    return used == reserved ? "" : std::to_string(reserved) + " were reserved";
  }),
            "");
}

/** Work before a call that takes longer than the timeout is no reason to give up. */
TEST(SlowStream, SlowStream_NoFailure) {
  const LocalGroup group(2, "timeout_ms=200");
  EXPECT_EQ(group.run([](int rank, gqsgd_comm comm) -> std::string {
    StreamCall made(some_values());
    if (rank == 1) made.stream.sleep(700);
    if (made.make(comm, usual()) != GQSGD_OK) return gqsgd_last_error();
    return made.wait() && !made.untouched() ? "" : "it was not carried out";
  }),
            "");
}

TEST(Unsupported, UnsupportedCalls_Refused) {
  const LocalGroup group(2);
  EXPECT_EQ(group.run([](int, gqsgd_comm comm) -> std::string {
    StreamCall made(some_values());
    HostGraph graph;
    graph.begin_capture(made.stream.get());
    const gqsgd_status status = made.make(comm, usual());
    const std::string sentence = gqsgd_last_error();
    graph.end_capture(made.stream.get());
    const bool named = sentence.find("is being captured") != std::string::npos;
    return status == GQSGD_UNSUPPORTED && named && made.untouched() ? "" : sentence;
  }),
            "");
  EXPECT_EQ(group.run([](int, gqsgd_comm comm) { return make_ok(comm); }), "");
}

}  // namespace
}  // namespace gq::test
