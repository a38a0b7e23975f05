// Allreduces by one kernel of each rank where ranks are processes: who makes them, which bits they
// have, and what ends kernels that wait for one that never begins.
#include <gqsgd_log.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <functional>
#include <thread>

#include "tests/gpu/stream_calls/counted_call.h"
#include "tests/gpu/streams/local_group.h"
#include "tests/support/host_device/host_fused.h"
#include "tests/support/host_device/host_memory.h"
#include "tests/support/ranks.h"

namespace gq::test {
namespace {

using Clock = std::chrono::steady_clock;

constexpr char kOptions[] = "timeout_ms=20000";

Operation direct(const char* quantizer = "paper-ge8") {
  return {quantizer, GQSGD_SCHEDULE_DIRECT};
}

std::string expect(const char* what, size_t found, size_t expected) {
  if (found == expected) return "";
  return std::string(what) + ": " + std::to_string(found) + ", not " + std::to_string(expected) +
         "\n";
}

/** A call that all ranks get through: kernels are known then. */
std::string make_first(int rank, gqsgd_comm comm) {
  return Calls(3, {direct()}, {5000}).make_and_compare(rank, comm);
}

/** A call whose kernel of rank 1 never begins, after one that all get through. */
std::string make_lost(int rank, gqsgd_comm comm, StreamCall* made) {
  const std::string first = make_first(rank, comm);
  if (!first.empty()) return first;
  lose_fused_kernels_of(1);
  return made->make(comm, direct()) == GQSGD_OK ? "" : gqsgd_last_error();
}

/** `body` by processes of which each has a device of its own. */
std::string run_on_own_devices(int ranks, const std::string& options, const RankBody& body) {
  const UseHostDevice device;
  return run_processes(ranks, options, [&](int rank, gqsgd_comm comm) {
    const Status here = host_device().set_current(rank);
    return here.ok() ? body(rank, comm) : here.sentence();
  });
}

TEST(ProcessFused, OwnDevices_OneKernelOfEachRank) {
  for (const int ranks : {2, 3, 5, 8}) {
    std::vector<Calls> all;
    for (const char* quantizer : {"paper-gl8", "paper-ge8", "paper-gl4", "paper-ge4", "relative-8",
                                  "blocks-8", "paper-gl4,block=64,rescale=true", "none"}) {
      all.emplace_back(ranks, calls_of(quantizer, {GQSGD_SCHEDULE_DIRECT}),
                       std::vector<size_t>{5000, 1, 9001, 31});
    }
    const size_t calls = 8 * calls_of("paper-gl8", {GQSGD_SCHEDULE_DIRECT}).size();
    EXPECT_EQ(run_on_own_devices(ranks, kOptions,
                                 [&](int rank, gqsgd_comm comm) {
                                   std::string found;
                                   for (const Calls& some : all) {
                                     found += some.make_and_compare(rank, comm);
                                   }
                                   found += expect("kernels", fused_kernels_enqueued(), calls);
                                   return found;
                                 }),
              "")
        << ranks << " ranks";
  }
}

/** Calls that are one kernel and calls that are not, of all lengths: the arena grows meanwhile. */
TEST(ProcessFused, BesideOtherCalls_SameBits) {
  std::vector<Operation> operations;
  for (size_t k = 0; k < 40; ++k) {
    Operation call = direct(k % 3 == 0 ? "rotated-8" : k % 3 == 1 ? "paper-gl8" : "paper-ge4");
    if (k % 5 == 4) call.schedule = GQSGD_SCHEDULE_HIERARCHICAL;
    call.in_place = k % 2 == 0;
    call.step = k;
    operations.push_back(call);
  }
  const Calls calls(4, operations, {4000, 900, 900001, 1, 40});
  EXPECT_EQ(run_on_own_devices(4, kOptions,
                               [&](int rank, gqsgd_comm comm) {
                                 std::string found = calls.make_and_compare(rank, comm);
                                 found += expect("freed while open", released_while_open(), 0);
                                 return found + expect("kernels", fused_kernels_enqueued(), 21);
                               }),
            "");
}

/** No kernel is made, and a line of the log says why. */
void expect_stages(const std::function<void(int rank)>& prepare, const std::string& why) {
  const Calls calls(3, {direct(), direct(), direct()}, {5000, 77, 3000});
  EXPECT_EQ(run_on_own_devices(
                3, kOptions,
                [&](int rank, gqsgd_comm comm) -> std::string {
                  prepare(rank);
                  std::string lines;
                  gqsgd_set_log(
                      GQSGD_LOG_INFO,
                      [](void* text, gqsgd_log_level, const char* line) {
                        *static_cast<std::string*>(text) += line;
                      },
                      &lines);
                  std::string found = calls.make_and_compare(rank, comm);
                  gqsgd_set_log(GQSGD_LOG_NONE, nullptr, nullptr);
                  found += expect("kernels", fused_kernels_enqueued(), 0);
                  found += expect("pages", pages_registered(), 0);
                  found += expect("freed while open", released_while_open(), 0);
                  return lines.find(why) != std::string::npos ? found : found + "log: " + lines;
                }),
            "");
}

TEST(ProcessFused, DeviceOfTwoRanks_MadeByStages) {
  expect_stages([](int rank) { (void)host_device().set_current(rank == 2 ? 0 : rank).ok(); },
                "made by stages and not by one kernel: rank 0 shares its device with another one");
}
TEST(ProcessFused, PageOfHostNotReached_MadeByStages) {
  expect_stages([](int rank) { refuse_pages(rank == 1); },
                "made by stages and not by one kernel: the double registers nothing");
}
TEST(ProcessFused, NoRoomOnOneDevice_MadeByStages) {
  expect_stages([](int rank) { set_fused_blocks_at_once(rank == 2 ? 1 : kFusedBlocks); },
                "kernels that wait have no room on the device of rank 2");
}
TEST(ProcessFused, MemoryNotOpened_MadeByStages) {
  expect_stages([](int rank) { refuse_opens(rank == 2); }, "rank 2 cannot open the memory of");
}
TEST(ProcessFused, MemoryNotExported_MadeByStages) {
  expect_stages([](int rank) { refuse_exports(rank == 0); }, "rank 0 cannot export its memory");
}

/** Ranks whose devices have different room have kernels of as many blocks. */
TEST(ProcessFused, UnequalDevices_SameBits) {
  const Calls calls(3, {direct(), direct("blocks-8")}, {30000, 20000});
  EXPECT_EQ(run_on_own_devices(3, kOptions,
                               [&](int rank, gqsgd_comm comm) {
                                 set_fused_blocks_at_once(4u << rank);
                                 std::string found = calls.make_and_compare(rank, comm);
                                 return found + expect("kernels", fused_kernels_enqueued(), 2);
                               }),
            "");
}

/** Nothing is left of a group, and the next one has the device to itself. */
TEST(ProcessFused, GroupAfterGroup_NothingLeft) {
  const Calls calls(2, {direct()}, {5000});
  gqsgd_unique_id ids[3];
  for (gqsgd_unique_id& id : ids) ASSERT_EQ(gqsgd_unique_id_create(&id), GQSGD_OK);
  EXPECT_EQ(run_on_own_devices(2, kOptions,
                               [&](int rank, gqsgd_comm) {
                                 set_fused_blocks_at_once(2);
                                 std::string found;
                                 for (const gqsgd_unique_id& id : ids) {
                                   gqsgd_comm comm = nullptr;
                                   gqsgd_comm_create_process(&id, static_cast<uint32_t>(rank), 2,
                                                             kOptions, &comm);
                                   found += calls.make_and_compare(rank, comm);
                                   gqsgd_comm_destroy(comm);
                                   found += expect("pages", pages_registered(), 0);
                                 }
                                 found += expect("freed while open", released_while_open(), 0);
                                 found += expect("open", blocks_open(), 0);
                                 return found + expect("kernels", fused_kernels_enqueued(), 3);
                               }),
            "");
}

/** The kernel of rank 1 never begins. */
TEST(LostKernel, NextCall_NamesIt) {
  EXPECT_EQ(run_on_own_devices(
                3, "timeout_ms=300",
                [](int rank, gqsgd_comm comm) -> std::string {
                  StreamCall made(gradients(1, 5000, 2)[0]);
                  const std::string failure = make_lost(rank, comm, &made);
                  if (!failure.empty()) return failure;
                  if (!made.wait()) return "the stream does not get through";
                  if (!made.untouched()) return "values were written";
                  // What a kernel writes, other processes see: so that none is asked too early.
                  std::this_thread::sleep_for(std::chrono::seconds(1));
                  const gqsgd_status status = made.make(comm, direct());
                  const std::string sentence = gqsgd_last_error();
                  const bool named = sentence.find("rank 1") != std::string::npos;
                  const bool told = status == GQSGD_TIMEOUT || status == GQSGD_REVOKED;
                  return told && named ? "" : gqsgd_status_name(status) + (": " + sentence);
                }),
            "");
}

/** Hosts owe each other nothing any more, but a kernel waits for that of a rank that has died. */
void expect_death_seen(const char* options, bool by_request) {
  const UseHostDevice device;
  const auto begun = Clock::now();
  RankProcesses ranks(3, options, [&](int rank, gqsgd_comm comm) -> std::string {
    if (!host_device().set_current(rank).ok()) return "no device";
    const std::string first = make_first(rank, comm);
    if (!first.empty()) return first;
    lose_fused_kernels_of(1);
    StreamCall made(gradients(1, 5000, 2)[0]);
    gqsgd_request request = nullptr;
    gqsgd_status status = by_request && rank != 1 ? made.start(comm, direct(), &request)
                                                  : made.make(comm, direct());
    if (rank == 1) raise(SIGKILL);
    if (request != nullptr) status = gqsgd_request_wait(request);
    const std::string sentence = gqsgd_last_error();
    if (!made.wait()) return "the stream does not get through";
    if (!made.untouched()) return "values were written";
    return status == GQSGD_PEER_LOST ? "" : gqsgd_status_name(status) + (": " + sentence);
  });
  const std::vector<std::string> said = ranks.wait_each();
  EXPECT_EQ(said[0] + said[2], "");
  EXPECT_LT(Clock::now() - begun, std::chrono::seconds(15));
}
TEST(DeadRank, RequestWaits_PeerLost) { expect_death_seen("timeout_ms=60000", true); }
/** Without a deadline a call waits for its kernel. */
TEST(DeadRank, NoDeadline_PeerLost) { expect_death_seen("timeout_ms=-1", false); }

/** Hosts wait for their streams by themselves: the kernel's deadline ends that. */
TEST(DeadRank, CallAfterCall_PeerLost) {
  const UseHostDevice device;
  RankProcesses ranks(3, "timeout_ms=1500", [](int rank, gqsgd_comm comm) -> std::string {
    if (!host_device().set_current(rank).ok()) return "no device";
    for (;;) {
      StreamCall made(gradients(3, 100, 4)[static_cast<size_t>(rank)]);
      const gqsgd_status status = made.make(comm, direct());
      if (!made.wait()) return "the stream does not get through";
      if (status != GQSGD_OK) return gqsgd_status_name(status);
    }
  });
  usleep(300000);
  ASSERT_EQ(kill(ranks.pid(1), SIGKILL), 0);
  const auto said = ranks.wait_each();
  EXPECT_EQ(said[0], "PEER_LOST");
  EXPECT_EQ(said[2], "PEER_LOST");
}

/** An abort by one process ends the kernels of all. */
TEST(Abort, KernelsUnderWay_End) {
  EXPECT_EQ(run_on_own_devices(
                3, "timeout_ms=60000",
                [](int rank, gqsgd_comm comm) -> std::string {
                  StreamCall made(gradients(1, 5000, 2)[0]);
                  const std::string failure = make_lost(rank, comm, &made);
                  if (!failure.empty()) return failure;
                  if (rank == 0) {
                    if (made.wait(50)) return "the kernel has not waited";
                    if (gqsgd_comm_abort(comm) != GQSGD_OK) return gqsgd_last_error();
                  }
                  if (!made.wait(10000)) return "the stream does not get through";
                  if (!made.untouched()) return "values were written";
                  if (rank == 1) std::this_thread::sleep_for(std::chrono::milliseconds(300));
                  const gqsgd_status status = made.make(comm, direct());
                  const bool told = status == GQSGD_ABORTED || status == GQSGD_REVOKED;
                  return told ? "" : gqsgd_status_name(status) + std::string(gqsgd_last_error());
                }),
            "");
}

/** No host meets another one at a replay. */
void expect_replays(const Operation& operation) {
  constexpr int kRanks = 3;
  const std::vector<Values> same = inputs_of(0, kRanks);
  Operation last = operation;
  last.step = 6;
  const Values expected = simulate(last, same);
  EXPECT_EQ(run_on_own_devices(
                kRanks, kOptions,
                [&](int rank, gqsgd_comm comm) -> std::string {
                  CountedCall call(operation, kCount);
                  HostGraph graph;
                  const OwnStream stream;
                  const std::string failure =
                      capture(comm, &call, stream, same[static_cast<size_t>(rank)], &graph);
                  if (!failure.empty()) return failure;
                  std::this_thread::sleep_for(std::chrono::milliseconds(100 * rank));
                  for (int k = 0; k < 6; ++k) graph.replay(stream.get());
                  if (!stream.synchronize()) return "the stream does not get through";
                  return difference(call.result(), expected);
                }),
            "");
}

TEST(Graphs, Replays_SameBits) { expect_replays(direct()); }

TEST(Graphs, ReplaysOfListOfOneTensor_SameBits) {
  Operation list = direct();
  list.in_list = true;
  expect_replays(list);
}

/** The calls of one step of a training: a list of codes and one of float32, in one graph. */
TEST(Graphs, ListsOfCodesAndOfFloats_SameBits) {
  constexpr int kRanks = 3;
  constexpr uint64_t kReplays = 4;
  Operation codes = direct("blocks-8"), floats = direct("none");
  codes.counts = {1000, 0, 1900, 100};
  floats.counts = std::vector<size_t>(100, 30);
  const std::vector<Values> same = inputs_of(0, kRanks);
  codes.step = 2 * kReplays;  // two calls before the first replay
  const Values of_codes = simulate(codes, same), of_floats = simulate(floats, same);
  EXPECT_EQ(run_on_own_devices(
                kRanks, kOptions,
                [&](int rank, gqsgd_comm comm) -> std::string {
                  CountedCall first(codes, kCount), second(floats, kCount);
                  const OwnStream stream;
                  const auto make = [&] {
                    return first.make(comm, stream) == GQSGD_OK &&
                           second.make(comm, stream) == GQSGD_OK;
                  };
                  for (CountedCall* call : {&first, &second}) {
                    call->give(same[static_cast<size_t>(rank)]);
                  }
                  if (!make() || !stream.synchronize()) return gqsgd_last_error();
                  HostGraph graph;
                  graph.begin_capture(stream.get());
                  const std::string failure = make() ? "" : gqsgd_last_error();
                  graph.end_capture(stream.get());
                  if (!failure.empty()) return failure;
                  std::this_thread::sleep_for(std::chrono::milliseconds(100 * rank));
                  for (uint64_t k = 0; k < kReplays; ++k) graph.replay(stream.get());
                  if (!stream.synchronize()) return "the stream does not get through";
                  return difference(first.result(), of_codes) +
                         difference(second.result(), of_floats) +
                         expect("kernels", fused_kernels_enqueued(), 4);
                }),
            "");
}

}  // namespace
}  // namespace gq::test
