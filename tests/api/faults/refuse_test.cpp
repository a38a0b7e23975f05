// gqsgd_comm_refuse in place of a collective: the other ranks get REMOTE_ERROR with the reason,
// nothing is written, and the group goes on with equal counters. Over threads, processes and a
// custom transport, with and without requests in flight.
#include "tests/api/faults/support/call.h"
#include "tests/support/ranks.h"
#include "tests/support/socket_group.h"

namespace gq::test {
namespace {

constexpr int kRanks = 3;
constexpr int kCulprit = 1;
constexpr int kInFlight = 2;

#define GQ_STATUS_NUMBER(name, number, meaning) number,
constexpr gqsgd_status kStatuses[] = {GQSGD_STATUS_TABLE(GQ_STATUS_NUMBER)};
#undef GQ_STATUS_NUMBER

/** What a group's ranks run on. */
struct Way {
  const char* name;
  std::string (*run)(const RankBody& body);
};

const Way kWays[] = {
    {"threads", [](const RankBody& body) { return run_threads(kRanks, "timeout_ms=20000", body); }},
    {"processes",
     [](const RankBody& body) { return run_processes(kRanks, "timeout_ms=20000", body); }},
    {"custom",
     [](const RankBody& body) {
       return run_threads(custom_comms(socket_tables(kRanks), "timeout_ms=20000"), body);
     }},
};

#define EXPECT_HERE(condition) \
  if (!(condition)) return std::string(#condition ": ") + gqsgd_last_error()

/** A call whose step the counter gives. */
void count(Call* call) { call->config = Config(); }

/** Two requests, and what the culprit refuses or the others call after them. */
std::string refuse_once(int rank, gqsgd_comm comm, gqsgd_status reason) {
  Call first(rank), second(rank), call(rank);
  for (Call* one : {&first, &second, &call}) count(one);
  EXPECT_HERE(first.start(comm) == GQSGD_OK && second.start(comm) == GQSGD_OK);
  if (rank == kCulprit) {
    EXPECT_HERE(gqsgd_comm_refuse(comm, reason, nullptr, nullptr) == GQSGD_OK);
  } else {
    const Outcome outcome = call.make(comm);
    const std::string told =
        std::string("rank 1 refused its own call with ") + gqsgd_status_name(reason) + " ";
    const testing::AssertionResult named = is(outcome, GQSGD_REMOTE_ERROR, told);
    if (!named) return named.message();
    EXPECT_HERE(call.result_untouched());
  }
  for (const Call* one : {&first, &second}) {
    EXPECT_HERE(gqsgd_request_wait(one->request) == GQSGD_OK && one->result_is_finite());
  }
  return "";
}

std::string counter_is(gqsgd_comm comm, uint64_t expected) {
  uint64_t step = 0;
  EXPECT_HERE(gqsgd_comm_counter(comm, &step) == GQSGD_OK);
  return step == expected ? "" : "the counter is at " + std::to_string(step);
}

class Refusal : public testing::TestWithParam<Way> {};

// Every status, those too with which a transport breaks a group.
TEST_P(Refusal, AnyReason_ReportedToOtherRanks_GroupContinues) {
  EXPECT_EQ(GetParam().run([](int rank, gqsgd_comm comm) {
    uint64_t steps = 0;
    for (const gqsgd_status reason : kStatuses) {
      if (reason == GQSGD_OK) continue;
      const std::string failure = refuse_once(rank, comm, reason);
      if (!failure.empty()) return std::string(gqsgd_status_name(reason)) + ": " + failure;
      steps += kInFlight + 1;
    }
    EXPECT_HERE(gqsgd_comm_status(comm) == GQSGD_OK);
    std::string failure = counter_is(comm, steps);
    Call right(rank);
    count(&right);
    if (failure.empty() && right.make(comm).status != GQSGD_OK) failure = gqsgd_last_error();
    return failure;
  }),
            "");
}

TEST_P(Refusal, OfEachCollective_ReportedToOtherRanks) {
  EXPECT_EQ(GetParam().run([](int rank, gqsgd_comm comm) -> std::string {
    const size_t counts[kRanks] = {300, 0, 77};
    for (int kind = 0; kind < 3; ++kind) {
      Call call(rank);
      gqsgd_status status = GQSGD_OK;
      if (rank == kCulprit) {
        EXPECT_HERE(gqsgd_comm_refuse(comm, GQSGD_NO_MEMORY, nullptr, nullptr) == GQSGD_OK);
      } else if (kind == 0) {
        status = gqsgd_reduce_scatter(comm, call.quantizer, call.send, call.recv, counts,
                                      GQSGD_FLOAT32, GQSGD_SUM, nullptr, nullptr);
      } else if (kind == 1) {
        status = gqsgd_allgather(comm, call.quantizer, call.send, call.recv, counts, GQSGD_FLOAT32,
                                 nullptr, nullptr);
      } else {
        status = gqsgd_allreduce_many(comm, call.quantizer, &call.send, &call.recv, counts, 1,
                                      GQSGD_FLOAT32, GQSGD_SUM, nullptr, nullptr);
      }
      EXPECT_HERE(status == (rank == kCulprit ? GQSGD_OK : GQSGD_REMOTE_ERROR));
      EXPECT_HERE(call.result_untouched());
    }
    return counter_is(comm, 3);
  }),
            "");
}

// A rank whose own config is wrong notifies the others all the same.
TEST_P(Refusal, WrongReasonOrConfig_InvalidArgument_OtherRanksNotified) {
  EXPECT_EQ(GetParam().run([](int rank, gqsgd_comm comm) -> std::string {
    Config wrong;
    wrong.index = 4;
    const struct {
      gqsgd_status reason;
      const gqsgd_config* config;
      const char* own;
      const char* others;
    } cases[] = {
        {GQSGD_OK, nullptr, "reason is 0 .OK.; it must be the status of a failure",
         "refused its own call with INVALID_ARGUMENT"},
        {7, nullptr, "reason is 7 .UNKNOWN.", "refused its own call with INVALID_ARGUMENT"},
        {GQSGD_SYSTEM, wrong, "config.index is 4", "refused its own call with SYSTEM"},
    };
    for (const auto& one : cases) {
      Call call(rank);
      count(&call);
      const Outcome outcome =
          rank == kCulprit ? outcome_of(gqsgd_comm_refuse(comm, one.reason, one.config, nullptr))
                           : call.make(comm);
      const testing::AssertionResult named = rank == kCulprit
                                                 ? is(outcome, GQSGD_INVALID_ARGUMENT, one.own)
                                                 : is(outcome, GQSGD_REMOTE_ERROR, one.others);
      if (!named) return named.message();
    }
    EXPECT_HERE(gqsgd_comm_status(comm) == GQSGD_OK);
    return counter_is(comm, 3);
  }),
            "");
}

TEST_P(Refusal, OfAllRanks_OkOnEach) {
  EXPECT_EQ(GetParam().run([](int, gqsgd_comm comm) -> std::string {
    EXPECT_HERE(gqsgd_comm_refuse(comm, GQSGD_UNSUPPORTED, nullptr, nullptr) == GQSGD_OK);
    return counter_is(comm, 1);
  }),
            "");
}

TEST_P(Refusal, WithAGivenStep_CounterStays) {
  EXPECT_EQ(GetParam().run([](int rank, gqsgd_comm comm) -> std::string {
    Call call(rank);  // has a step of its own
    const gqsgd_status status = rank == kCulprit
                                    ? gqsgd_comm_refuse(comm, GQSGD_BACKEND, call.config, nullptr)
                                    : call.make_status(comm);
    EXPECT_HERE(status == (rank == kCulprit ? GQSGD_OK : GQSGD_REMOTE_ERROR));
    return counter_is(comm, 0);
  }),
            "");
}

INSTANTIATE_TEST_SUITE_P(Transports, Refusal, testing::ValuesIn(kWays),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(RefusalAlone, LastErrorOfTheCallerStays) {
  Group group(1);
  gqsgd_quantizer none = nullptr;
  const gqsgd_status own = gqsgd_quantizer_create("bits=3", &none);
  const std::string sentence = gqsgd_last_error();
  EXPECT_EQ(gqsgd_comm_refuse(group.comm(0), own, nullptr, nullptr), GQSGD_OK);
  EXPECT_EQ(gqsgd_last_error(), sentence);
}

TEST(RefusalAlone, BrokenOrWrongCommunicator_ItsFailure) {
  EXPECT_TRUE(
      is(outcome_of(gqsgd_comm_refuse(nullptr, GQSGD_SYSTEM, nullptr, nullptr)), GQSGD_BAD_HANDLE));
  Group group(2);
  EXPECT_EQ(gqsgd_comm_abort(group.comm(0)), GQSGD_OK);
  EXPECT_TRUE(is(outcome_of(gqsgd_comm_refuse(group.comm(0), GQSGD_SYSTEM, nullptr, nullptr)),
                 GQSGD_ABORTED, "rank 0 aborted"));
}

TEST(RefusalAlone, OtherRanksAbsent_Timeout) {
  Group group(2, "timeout_ms=200");
  EXPECT_TRUE(is(outcome_of(gqsgd_comm_refuse(group.comm(0), GQSGD_SYSTEM, nullptr, nullptr)),
                 GQSGD_TIMEOUT, "for rank 1 to make this call"));
  EXPECT_EQ(gqsgd_comm_status(group.comm(0)), GQSGD_TIMEOUT);
}

TEST(RefusalAlone, OfAStreamThatThisGroupHasNot_ReturnedAndOtherRanksNotified) {
  std::vector<gqsgd_comm> comms = custom_comms(socket_tables(2), "timeout_ms=20000");
  EXPECT_EQ(run_threads(comms,
                        [](int rank, gqsgd_comm comm) -> std::string {
                          Call call(rank);
                          count(&call);
                          if (rank != kCulprit) {
                            EXPECT_HERE(call.make_status(comm) == GQSGD_REMOTE_ERROR);
                            return "";
                          }
                          void* const stream = reinterpret_cast<void*>(uintptr_t{1});
                          const Outcome outcome =
                              outcome_of(gqsgd_comm_refuse(comm, GQSGD_SYSTEM, nullptr, stream));
                          const testing::AssertionResult named = is(
                              outcome, GQSGD_INVALID_ARGUMENT, "it must be NULL for host memory");
                          return named ? "" : named.message();
                        }),
            "");
}

}  // namespace
}  // namespace gq::test
