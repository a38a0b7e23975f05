// Processes on memory of devices: words go through host memory, with the bits of virtual ranks;
// deaths and delays are failures in time.
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include "tests/device/local_group.h"
#include "tests/support/ranks.h"

namespace gq::test {
namespace {

std::string run_calls(int ranks, const std::vector<Calls>& all, const std::string& options) {
  const UseHostDevice device;
  return run_processes(ranks, options, [&](int rank, gqsgd_comm comm) {
    std::string found;
    for (const Calls& calls : all) found += calls.make_and_compare(rank, comm);
    return found;
  });
}

void expect_same_bits(const std::vector<const char*>& formats,
                      const std::vector<int32_t>& schedules, const std::string& options) {
  for (const int ranks : {1, 2, 3, 5}) {
    std::vector<Calls> all;
    for (const char* format : formats) {
      all.emplace_back(ranks, calls_of(format, schedules), std::vector<size_t>{1000, 1, 4099, 33});
    }
    EXPECT_EQ(run_calls(ranks, all, options), "") << ranks << " ranks";
  }
}

const std::vector<const char*> kPlain(std::begin(kPresets), std::end(kPresets));
const std::vector<int32_t> kAll(std::begin(kSchedules), std::end(kSchedules));

TEST(SameBits, OfThePresets) { expect_same_bits(kPlain, kAll, "timeout_ms=20000"); }
TEST(SameBits, OfThePresetsInChunks) {
  expect_same_bits(kPlain, kAll, "timeout_ms=20000,chunk_value_count=64");
}
TEST(SameBits, OfBlocksAndOwnersThatEncodeAgain) {
  expect_same_bits({"paper-gl8,block=32", "blocks-8", "rotated-4-8", "paper-gl8,norm=2:2"},
                   {GQSGD_SCHEDULE_DIRECT}, "timeout_ms=20000,chunk_value_count=256");
}

TEST(SameBits, BesideCallsOnHostMemory) {
  const auto inputs = gradients(3, 500, 4);
  Operation call;
  call.quantizer = "paper-gl8";
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

/** Its way through host memory is said once. */
TEST(Staging, IsLogged) {
  const UseHostDevice device;
  EXPECT_EQ(run_processes(2, "timeout_ms=20000",
                          [&](int rank, gqsgd_comm comm) -> std::string {
                            static std::string lines;
                            lines.clear();
                            gqsgd_set_log(
                                [](void*, const char* line) { lines += line + std::string("\n"); },
                                nullptr);
                            for (int turn = 0; turn < 2; ++turn) {
                              StreamCall made(gradients(2, 100, 4)[static_cast<size_t>(rank)]);
                              Operation call;
                              call.quantizer = "paper-gl8";
                              if (made.make(comm, call) != GQSGD_OK || !made.wait())
                                return gqsgd_last_error();
                            }
                            gqsgd_set_log(nullptr, nullptr);
                            const std::string expected =
                                "rank " + std::to_string(rank) +
                                ": words of host double device 0 go to other processes through "
                                "host memory\n";
                            return lines == expected ? "" : lines;
                          }),
            "");
}

TEST(DeadRank, IsNamed) {
  const UseHostDevice device;
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
  usleep(200000);
  ASSERT_EQ(kill(ranks.pid(1), SIGKILL), 0);
  const auto said = ranks.wait_each();
  EXPECT_EQ(said[0], "PEER_LOST");
  EXPECT_EQ(said[2], "PEER_LOST");
}

/** Here the host waits for its stream, and says so when that takes too long. */
TEST(SlowStream, IsATimeout) {
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
