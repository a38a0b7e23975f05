// Processes on memory of devices, whichever way words go: the bits of virtual ranks; deaths and
// delays are failures in time.
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include "tests/gpu/streams/local_group.h"
#include "tests/support/ranks.h"

namespace gq::test {
namespace {

std::string run_calls(const Device& of_tests, int ranks, const std::vector<Calls>& all,
                      const std::string& options) {
  const UseHostDevice device(of_tests);
  return run_processes(ranks, options, [&](int rank, gqsgd_comm comm) {
    std::string found;
    for (const Calls& calls : all) found += calls.make_and_compare(rank, comm);
    return found;
  });
}

void expect_same_bits(const std::vector<const char*>& formats,
                      const std::vector<gqsgd_schedule>& schedules, const std::string& options,
                      const Device& device = host_device()) {
  for (const int ranks : {1, 2, 3, 5, 8}) {
    std::vector<Calls> all;
    for (const char* format : formats) {
      all.emplace_back(ranks, calls_of(format, schedules), std::vector<size_t>{1000, 1, 4099, 33});
    }
    EXPECT_EQ(run_calls(device, ranks, all, options), "") << ranks << " ranks";
  }
}

const std::vector<const char*> kPlain(std::begin(kPresets), std::end(kPresets));
const std::vector<gqsgd_schedule> kAll(std::begin(kSchedules), std::end(kSchedules));

TEST(SameBits, Presets_SameBits) { expect_same_bits(kPlain, kAll, "timeout_ms=20000"); }
TEST(SameBits, PresetsInChunks_SameBits) {
  expect_same_bits(kPlain, kAll, "timeout_ms=20000,chunk_value_count=64");
}
TEST(SameBits, ThroughHostMemory_SameBits) {
  expect_same_bits({"paper-gl8", "paper-ge4", "paper-ge8,block=64"}, kAll,
                   "timeout_ms=20000,chunk_value_count=64", host_device_alone());
}
TEST(SameBits, BlocksAndReencodedByOwners_SameBits) {
  expect_same_bits({"paper-gl8,block=32", "blocks-8", "rotated-4-8", "paper-gl8,norm=2:2"},
                   {GQSGD_SCHEDULE_DIRECT}, "timeout_ms=20000,chunk_value_count=256");
}

TEST(SameBits, Nodes_SameBits) {
  const std::string nodes = nodes_option(uneven_nodes(5));
  for (const Device* device : {&host_device(), &host_device_alone()}) {
    std::vector<Calls> all;
    for (const char* format : {"blocks-8", "relative-8", "rice-4"}) {
      all.emplace_back(5, calls_of(format, {GQSGD_SCHEDULE_HIERARCHICAL}),
                       std::vector<size_t>{20000, 1, 4099, 33}, nodes);
    }
    EXPECT_EQ(run_calls(*device, 5, all, "timeout_ms=20000," + nodes), "");
  }
}

/** Norms of order 2 make most codes zero. */
TEST(SameBits, SparseEntries_SameBits) {
  for (const Device* device : {&host_device(), &host_device_alone()}) {
    for (const int ranks : {2, 3, 5}) {
      std::vector<Calls> all;
      for (const char* format : {"paper-gl4,norm=2:2", "paper-ge4,norm=2:2"}) {
        const std::vector<gqsgd_schedule> schedules = {GQSGD_SCHEDULE_SPARSE, GQSGD_SCHEDULE_DIRECT,
                                                       GQSGD_SCHEDULE_SPARSE};
        all.emplace_back(ranks, calls_of(format, schedules), std::vector<size_t>{40000, 900, 33});
      }
      EXPECT_EQ(run_calls(*device, ranks, all, "timeout_ms=20000"), "") << ranks << " ranks";
    }
  }
}

void expect_same_bits_beside_host_memory(const Operation& call) {
  const auto inputs = gradients(3, 40000, 4);
  const Values expected = simulate(call, inputs);
  const UseHostDevice device;
  EXPECT_EQ(run_processes(3, "timeout_ms=20000",
                          [&](int rank, gqsgd_comm comm) -> std::string {
                            const Values& input = inputs[static_cast<size_t>(rank)];
                            for (int turn = 0; turn < 3; ++turn) {
                              Values result;
                              std::string found = allreduce(comm, call, input, &result);
                              if (found.empty()) found = difference(result, expected);
                              StreamCall made(input);
                              if (made.make(comm, call) != GQSGD_OK)
                                return found + gqsgd_last_error();
                              if (!made.wait()) return found + "the stream does not get through";
                              found += difference(made.result(), expected);
                              if (!found.empty()) return found;
                            }
                            return "";
                          }),
            "");
}

TEST(SameBits, BetweenCallsOnHostMemory_SameBits) {
  expect_same_bits_beside_host_memory({"paper-gl8"});
  expect_same_bits_beside_host_memory({"paper-gl4,norm=2:2", GQSGD_SCHEDULE_SPARSE});
}

void expect_dead_rank_named(const Device& of_tests, int life_ms) {
  const UseHostDevice device(of_tests);
  RankProcesses ranks(3, "timeout_ms=20000", [](int rank, gqsgd_comm comm) -> std::string {
    Operation call;
    call.quantizer = "paper-gl8";
    for (;;) {
      StreamCall made(gradients(3, 100, 4)[static_cast<size_t>(rank)]);
      const gqsgd_status status = made.make(comm, call);
      if (!made.wait()) return "the stream does not get through";
      if (status != GQSGD_OK) return gqsgd_status_name(status);
    }
  });
  usleep(static_cast<useconds_t>(life_ms) * 1000);
  ASSERT_EQ(kill(ranks.pid(1), SIGKILL), 0);
  const auto said = ranks.wait_each();
  EXPECT_EQ(said[0], "PEER_LOST");
  EXPECT_EQ(said[2], "PEER_LOST");
}

TEST(DeadRank, Direct_Named) {
  for (const int life_ms : {200, 203, 211, 229}) expect_dead_rank_named(host_device(), life_ms);
}
TEST(DeadRank, ThroughHostMemory_Named) { expect_dead_rank_named(host_device_alone(), 200); }

/** Here the host waits for its stream, and says so when that takes too long. */
TEST(SlowStream, SlowStream_Timeout) {
  const UseHostDevice device;
  EXPECT_EQ(run_processes(2, "timeout_ms=300",
                          [](int rank, gqsgd_comm comm) -> std::string {
                            Operation call;
                            call.quantizer = "paper-gl8";
                            StreamCall made(gradients(2, 100, 4)[static_cast<size_t>(rank)]);
                            if (rank == 1) made.stream.sleep(1500);
                            const gqsgd_status status = made.make(comm, call);
                            const std::string sentence = gqsgd_last_error();
                            if (!made.wait()) return "the stream does not get through";
                            const bool named = sentence.find("rank 1") != std::string::npos;
                            return status == GQSGD_TIMEOUT || (status == GQSGD_REVOKED && rank == 1)
                                       ? (named ? "" : sentence)
                                       : gqsgd_status_name(status) + sentence;
                          }),
            "");
}

}  // namespace
}  // namespace gq::test
