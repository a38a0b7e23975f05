// What goes wrong among threads on memory of devices: ranks that are missing, abort or leave,
// memory that is short, streams that take too long; each a status and a sentence, and no wait
// without end.
#include <gtest/gtest.h>

#include <atomic>
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

/** The workspace has moved: the refused call has enqueued where its operands are now, on a stream
 *  that is late, and the next call of its kind is on another one. */
TEST(Refused, NextCallOnAnotherStream_ComesBehindIt) {
  const LocalGroup group(2);
  Operation usual_call{"adaptive-4", GQSGD_SCHEDULE_DIRECT};
  const std::vector<Values> inputs = gradients(2, 4096, 2), longer = gradients(2, 65536, 2);
  const Values expected = simulate(usual_call, inputs);
  std::atomic<bool> goes_on{false};
  EXPECT_EQ(group.run([&](int rank, gqsgd_comm comm) -> std::string {
    const auto number = static_cast<size_t>(rank);
    StreamCall first(inputs[number]), grows(longer[number]), refused(inputs[number]),
        next(inputs[number]);
    if (first.make(comm, usual_call) != GQSGD_OK || !first.wait()) return gqsgd_last_error();
    if (grows.make(comm, usual_call) != GQSGD_OK || !grows.wait()) return gqsgd_last_error();
    refused.stream.await(goes_on);
    Operation call = usual_call;
    if (rank == 1) call.schedule = with_number<gqsgd_schedule>(99);
    const bool is_refused = refused.make(comm, call) != GQSGD_OK;
    const gqsgd_status status = next.make(comm, usual_call);
    (void)next.wait(50);  // if it does not wait, it comes first
    goes_on = true;
    if (!is_refused || status != GQSGD_OK || !next.wait()) return gqsgd_last_error();
    return difference(next.result(), expected);
  }),
            "");
}

thread_local bool has_no_device = false;

/** The others learn of it at once, and not by their deadline. */
TEST(MissingRank, DeviceFailsBeforeTheCall_GroupBroken) {
  Device device = host_device();
  device.current = [](int32_t* ordinal) {
    if (!has_no_device) return host_device().current(ordinal);
    return fail(GQSGD_BACKEND, "the driver has ended");
  };
  const LocalGroup group(3);
  const UseHostDevice here(device);
  EXPECT_EQ(group.run([](int, gqsgd_comm comm) { return make_ok(comm); }), "");
  EXPECT_EQ(group.run([](int rank, gqsgd_comm comm) -> std::string {
    has_no_device = rank == 1;
    const std::string failure =
        rank == 1 ? make_broken(comm, GQSGD_BACKEND, "the driver has ended")
                  : make_broken(comm, GQSGD_REMOTE_ERROR, "rank 1");
    has_no_device = false;
    return failure;
  }),
            "");
}

std::atomic<bool> capture_has_ended{false};  // by an error

/** A program's error ends its capture, and then the stream takes nothing. That is no call: other
 *  ranks have no part in it. */
TEST(Unsupported, CaptureEndedByAnError_NothingCountedAndGroupUsable) {
  Device device = host_device();
  device.is_capturing = [](StreamHandle stream, bool* capturing) {
    if (!capture_has_ended) return host_device().is_capturing(stream, capturing);
    *capturing = true;
    return fail(GQSGD_UNSUPPORTED, "an error has ended its capture");
  };
  const LocalGroup group(1);
  const UseHostDevice here(device);
  const gqsgd_comm comm = group.comm(0);
  EXPECT_EQ(make_ok(comm), "");
  uint64_t before = 0, after = 0;
  EXPECT_EQ(gqsgd_comm_counter(comm, &before), GQSGD_OK);
  StreamCall made(some_values());
  const Quantizer quantizer(usual().quantizer);
  DeviceMemory values(64 * sizeof(float));
  capture_has_ended = true;
  EXPECT_EQ(gqsgd_allreduce(comm, quantizer.get(), values.as<float>(), values.as<float>(), 64,
                            GQSGD_FLOAT32, GQSGD_MEAN, nullptr, made.stream.get()),
            GQSGD_UNSUPPORTED);
  capture_has_ended = false;
  EXPECT_NE(std::string(gqsgd_last_error()).find("ended its capture"), std::string::npos);
  EXPECT_EQ(gqsgd_comm_counter(comm, &after), GQSGD_OK);
  EXPECT_EQ(after, before);
  EXPECT_EQ(make_ok(comm), "");
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
