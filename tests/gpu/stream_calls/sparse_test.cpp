// Schedule sparse on streams: the bits of virtual ranks where sparse entries are sent and where
// they are too many, what is sent, and that nothing is lost where ranks differ, refuse, leave or
// are late. The same for ranks over NCCL and for threads.
#include <gtest/gtest.h>

#include <chrono>
#include <limits>
#include <thread>

#include "tests/gpu/nccl/short_memory.h"
#include "tests/gpu/stream_calls/stream_group.h"
#include "tests/support/few_values.h"

namespace gq::test {
namespace {

struct Case {
  Operation operation;
  std::vector<Values> inputs;
  Values expected;
};

Case case_of(const Operation& operation, const std::vector<Values>& inputs) {
  return {operation, inputs, simulate(operation, inputs)};
}

/** Short and long calls that are sent as sparse entries, and some that are not; direct's between
 *  them. */
std::vector<Case> cases_of(int rank_count) {
  std::vector<Case> cases;
  const auto add = [&](const char* format, const std::vector<Values>& inputs) {
    const uint64_t step = cases.size();
    Operation operation{
        format, GQSGD_SCHEDULE_SPARSE, step % 2 ? GQSGD_SUM : GQSGD_MEAN, step % 3 == 0, step, 1};
    operation.at_device = step % 4 == 1;
    cases.push_back(case_of(operation, inputs));
  };
  for (const char* format : kSparseFormats) {
    for (size_t value_count : {0, 1, 33, 700, 9001}) {
      add(format, few_values(rank_count, value_count, 3 + value_count));
    }
    add(format, gradients(rank_count, 700, 4));
    cases.push_back(case_of({format, GQSGD_SCHEDULE_DIRECT}, gradients(rank_count, 500, 6)));
  }
  add("paper-gl8", few_values(rank_count, 40000, 1));
  add("paper-ge4", gradients(rank_count, 40000, 1));
  return cases;
}

/** Makes all calls, then waits. */
std::string make_and_compare(const std::vector<Case>& cases, int rank, gqsgd_comm comm) {
  std::vector<std::unique_ptr<StreamCall>> made;
  for (const Case& one : cases) {
    made.push_back(std::make_unique<StreamCall>(one.inputs[static_cast<size_t>(rank)]));
    made.back()->stream.sleep((rank * 3 + static_cast<int>(made.size())) % 5);
    if (made.back()->make(comm, one.operation) != GQSGD_OK) {
      return describe(one.operation) + ": " + gqsgd_last_error();
    }
  }
  for (size_t k = 0; k < cases.size(); ++k) {
    if (!made[k]->wait()) return describe(cases[k].operation) + ": the stream does not get through";
    const std::string wrong = difference(made[k]->result(), cases[k].expected);
    if (!wrong.empty()) return describe(cases[k].operation) + ": " + wrong;
  }
  return "";
}

class Sparse : public testing::TestWithParam<int> {};

TEST_P(Sparse, AllFormats_BitsOfVirtualRanks) {
  const std::vector<Case> cases = cases_of(GetParam());
  for (const char* options : {"", ",chunk_value_count=64"}) {
    const StreamGroup group(GetParam(), "timeout_ms=20000" + std::string(options));
    EXPECT_EQ(
        group.run([&](int rank, gqsgd_comm comm) { return make_and_compare(cases, rank, comm); }),
        "")
        << options;
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, Sparse, testing::Values(1, 2, 3, 4, 5, 6, 7, 8));

/** Values that are not numbers make all codes zero, and all results NaN. */
TEST(Sparse, NonfiniteValues_BitsOfVirtualRanks) {
  std::vector<Values> inputs = few_values(3, 900, 2);
  inputs[1][5] = std::numeric_limits<float>::quiet_NaN();
  const std::vector<Case> cases = {case_of({"paper-gl8", GQSGD_SCHEDULE_SPARSE}, inputs)};
  const StreamGroup group(3);
  EXPECT_EQ(
      group.run([&](int rank, gqsgd_comm comm) { return make_and_compare(cases, rank, comm); }),
      "");
}

uint64_t stat(gqsgd_comm comm, const char* name) {
  uint64_t value = 0;
  EXPECT_EQ(gqsgd_comm_stat(comm, name, &value), GQSGD_OK) << name;
  return value;
}

TEST(Sparse, Entries_32BitsPerNonzeroCode) {
  constexpr size_t kCount = 6000;
  std::vector<Values> inputs(3, Values(kCount));
  for (size_t k = 0; k < 70; ++k) inputs[0][3 * k] = inputs[2][60 * k] = 1;  // the norm: exact
  const std::vector<Case> cases = {case_of({"paper-gl8", GQSGD_SCHEDULE_SPARSE}, inputs)};
  const StreamGroup group(3);
  EXPECT_EQ(group.run([&](int rank, gqsgd_comm comm) -> std::string {
    const uint64_t bytes = stat(comm, "payload_bytes_sent"), messages = stat(comm, "messages_sent");
    const std::string found = make_and_compare(cases, rank, comm);
    if (!found.empty()) return found;
    if (stat(comm, "payload_bytes_sent") - bytes != (rank == 1 ? 0 : 2 * 4 * 70)) {
      return "other bytes";
    }
    return stat(comm, "messages_sent") - messages == (rank == 1 ? 0 : 2) ? "" : "other messages";
  }),
            "");
}

/** n = 3 and 1,500 words of codes: up to 1,000 sparse entries of a rank. */
TEST(Sparse, Entries_UsedUpToTheBytesOfDirect) {
  for (const size_t entry_count : {1000, 1001}) {
    std::vector<Values> inputs(3, Values(6000));
    for (size_t e = 0; e < entry_count; ++e) inputs[1][e] = -1;
    const std::vector<Case> cases = {case_of({"paper-gl8", GQSGD_SCHEDULE_SPARSE}, inputs)};
    const StreamGroup group(3);
    EXPECT_EQ(group.run([&](int rank, gqsgd_comm comm) -> std::string {
      const uint64_t before = stat(comm, "messages_sent");
      const std::string found = make_and_compare(cases, rank, comm);
      if (!found.empty()) return found;
      const uint64_t as_entries = rank == 1 ? 2 : 0;
      const bool sparse = stat(comm, "messages_sent") - before == as_entries;
      return sparse == (entry_count == 1000) ? "" : "the wrong way";
    }),
              "")
        << entry_count;
  }
}

Operation sparse() { return {"paper-ge8", GQSGD_SCHEDULE_SPARSE}; }

Values some_values() { return few_values(1, 600, 2)[0]; }

std::string make_ok(gqsgd_comm comm) {
  StreamCall made(some_values());
  if (made.make(comm, sparse()) != GQSGD_OK) return gqsgd_last_error();
  return made.wait() && !made.untouched() ? "" : "the stream does not get through";
}

/** "" if the call is refused with this status, and these words in its sentence. */
std::string make_refused(gqsgd_comm comm, const Operation& operation, gqsgd_status expected,
                         const std::string& part) {
  StreamCall made(some_values());
  const gqsgd_status status = made.make(comm, operation);
  const std::string sentence = gqsgd_last_error();
  if (!made.wait()) return "the stream does not get through";
  if (!made.untouched()) return "the result was touched";
  if (status == expected && sentence.find(part) != std::string::npos) return "";
  return gqsgd_status_name(status) + (": " + sentence);
}

/** Also where the call was expected, or the other rank's is. */
TEST(Agreement, Difference_Named_CallContinues) {
  const StreamGroup group(3);
  for (const int turns : {0, 2}) {
    for (const gqsgd_schedule other : {GQSGD_SCHEDULE_DIRECT, GQSGD_SCHEDULE_RING}) {
      for (int k = 0; k < turns; ++k) {
        ASSERT_EQ(group.run([](int, gqsgd_comm comm) { return make_ok(comm); }), "");
      }
      EXPECT_EQ(group.run([&](int rank, gqsgd_comm comm) {
        Operation operation = sparse();
        if (rank == 2) operation.schedule = other;
        return make_refused(comm, operation, GQSGD_MISMATCH, "schedule");
      }),
                "");
      EXPECT_EQ(group.run([](int, gqsgd_comm comm) { return make_ok(comm); }), "");
    }
  }
}

TEST(Agreement, RankRefuses_Reported) {
  const StreamGroup group(2);
  for (int turn = 0; turn < 2; ++turn) {
    EXPECT_EQ(group.run([](int rank, gqsgd_comm comm) {
      Operation operation = sparse();
      if (rank == 1) operation.quantizer = "paper-ge8,block=32";
      return make_refused(comm, operation, rank == 1 ? GQSGD_INVALID_ARGUMENT : GQSGD_REMOTE_ERROR,
                          rank == 1 ? "does not go with block" : "rank 1 refused");
    }),
              "");
    EXPECT_EQ(group.run([](int, gqsgd_comm comm) { return make_ok(comm); }), "");
  }
}

TEST(Capture, Stream_Refused) {
  const StreamGroup group(2);
  EXPECT_EQ(group.run([](int, gqsgd_comm comm) { return make_ok(comm); }), "");
  EXPECT_EQ(group.run([](int, gqsgd_comm comm) -> std::string {
    StreamCall made(some_values());
    HostGraph graph;
    graph.begin_capture(made.stream.get());
    const gqsgd_status status = made.make(comm, sparse());
    const std::string sentence = gqsgd_last_error();
    graph.end_capture(made.stream.get());
    const bool named = sentence.find("is being captured") != std::string::npos;
    return status == GQSGD_UNSUPPORTED && named && made.untouched() ? "" : sentence;
  }),
            "");
  EXPECT_EQ(group.run([](int, gqsgd_comm comm) { return make_ok(comm); }), "");
}

TEST(Requests, Requests_MadeAsCallsAre) {
  const StreamGroup group(3);
  const std::vector<Values> inputs = few_values(3, 900, 8);
  const Values expected = simulate(sparse(), inputs);
  EXPECT_EQ(group.run([&](int rank, gqsgd_comm comm) -> std::string {
    StreamCall made(inputs[static_cast<size_t>(rank)]);
    gqsgd_request request = nullptr;
    if (made.start(comm, sparse(), &request) != GQSGD_OK) return gqsgd_last_error();
    if (gqsgd_request_wait(request) != GQSGD_OK) return gqsgd_last_error();
    return difference(made.result(), expected);
  }),
            "");
}

/** Rank 0 makes no call. Over NCCL every rank gives up by itself. */
TEST(Abort, WaitingCall_Ends) {
  const StreamGroup group(3);
  EXPECT_EQ(group.run([](int, gqsgd_comm comm) { return make_ok(comm); }), "");
  EXPECT_EQ(group.run([](int rank, gqsgd_comm comm) -> std::string {
    const bool aborts = (rank == 0) == kAgreesOnHost;
    std::thread other([=] {
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
      if (aborts) gqsgd_comm_abort(comm);
    });
    const std::string said =
        rank == 0 ? "" : make_refused(comm, sparse(), GQSGD_ABORTED, kAgreesOnHost ? "rank 0" : "");
    other.join();
    return said;
  }),
            "");
}

#ifndef GQ_LOCAL_GROUP
/** Control messages, or counts, do not get through on one rank. */
TEST(Abort, NcclFails_GroupEnds) {
  for (const int nth : {1, 2, 3, 4}) {
    const StreamGroup group(2, "timeout_ms=500");
    StandInFaults faults{};
    faults.fail_call = nth;
    faults.fail_result = 1;
    set_faults(faults);
    std::vector<std::string> said(2);
    EXPECT_EQ(group.run([&](int rank, gqsgd_comm comm) -> std::string {
      StreamCall made(some_values());
      const gqsgd_status status = made.make(comm, sparse());
      said[static_cast<size_t>(rank)] =
          gqsgd_status_name(status) + (": " + std::string(gqsgd_last_error()));
      if (!made.wait()) return "the stream does not get through";
      return made.untouched() ? "" : "the result was touched";
    }),
              "");
    set_faults({});
    const std::string all = said[0] + "\n" + said[1];
    EXPECT_NE(all.find("BACKEND: "), std::string::npos) << all;
    const char* const awaited =
        nth <= 2 ? "control messages of the other" : "numbers of sparse entries";
    EXPECT_NE(all.find(awaited), std::string::npos) << nth << ": " << all;
    EXPECT_EQ(all.find("OK: "), std::string::npos) << all;
  }
}

/** Aborted while sparse entries travel: values are not written. */
TEST(Abort, BeforeEntries_GateClosed) {
  const NcclGroup group(2);
  EXPECT_EQ(group.run([](int, gqsgd_comm comm) { return make_ok(comm); }), "");
  StandInFaults slow{};
  slow.exchange_time_ms = 3000;
  set_faults(slow);
  EXPECT_EQ(group.run([](int, gqsgd_comm comm) -> std::string {
    StreamCall made(some_values());
    if (made.make(comm, sparse()) != GQSGD_OK) return gqsgd_last_error();
    if (gqsgd_comm_abort(comm) != GQSGD_OK) return gqsgd_last_error();
    if (!made.wait()) return "the stream does not get through";
    return made.untouched() ? "" : "the result was touched";
  }),
            "");
  set_faults({});
}

/** A bit of the entries that is wrong on its way is missed, and writes nowhere else. */
TEST(Sparse, WrongBit_OtherEntriesFound) {
  const std::vector<Case> cases = {case_of(sparse(), few_values(3, 900, 2))};
  const NcclGroup group(3);
  StandInFaults flipped{};
  flipped.flip_a_bit = 1;
  set_faults(flipped);
  EXPECT_NE(
      group.run([&](int rank, gqsgd_comm comm) { return make_and_compare(cases, rank, comm); }),
      "");
  set_faults({});
}
#endif

TEST(MissingRank, Timeout_OutputUntouched) {
  const StreamGroup group(3, "timeout_ms=300");
  EXPECT_EQ(group.run([](int, gqsgd_comm comm) { return make_ok(comm); }), "");
  EXPECT_EQ(group.run([](int rank, gqsgd_comm comm) -> std::string {
    const char* const part = kAgreesOnHost ? "rank 1" : "timeout_ms";
    return rank == 1 ? "" : make_refused(comm, sparse(), GQSGD_TIMEOUT, part);
  }),
            "");
}

/** Memory is short on one rank, in whatever step: no rank hangs, and nothing is left. */
TEST(Memory, AllocationFailsAnywhere_NoMemory) {
  make_with_short_memory<StreamGroup>(sparse(), some_values());
}

}  // namespace
}  // namespace gq::test
