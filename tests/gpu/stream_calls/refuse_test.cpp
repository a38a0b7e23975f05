// gqsgd_comm_refuse on streams: the other ranks learn of it at once where their hosts wait, else by
// the status and the next call, as of every failed check; counters stay equal.
#include <gtest/gtest.h>

#include "tests/gpu/stream_calls/counted_call.h"
#include "tests/gpu/stream_calls/stream_group.h"

namespace gq::test {
namespace {

constexpr int kRanks = 3;
constexpr int kCulprit = 1;

Operation usual() { return {"paper-gl8", GQSGD_SCHEDULE_DIRECT}; }

/** A call that counts, waited for. */
std::string call_once(gqsgd_comm comm, int rank, gqsgd_status expected, bool untouched) {
  CountedCall call(usual());
  call.give(inputs_of(0, kRanks)[static_cast<size_t>(rank)]);
  const OwnStream stream;
  const gqsgd_status status = call.make(comm, stream);
  const std::string sentence = gqsgd_last_error();
  if (!stream.synchronize()) return "the stream does not get through";
  if (status != expected) return std::string(gqsgd_status_name(status)) + ": " + sentence;
  return call.untouched() == untouched ? "" : "the result is not as it should be";
}

std::string refuse_once(gqsgd_comm comm, gqsgd_status reason) {
  const OwnStream stream;
  if (gqsgd_comm_refuse(comm, reason, nullptr, stream.get()) != GQSGD_OK) return gqsgd_last_error();
  return stream.synchronize() ? "" : "the stream does not get through";
}

std::string counter_is(gqsgd_comm comm, uint64_t expected) {
  uint64_t step = 0;
  if (gqsgd_comm_counter(comm, &step) != GQSGD_OK) return gqsgd_last_error();
  return step == expected ? "" : "the counter is at " + std::to_string(step);
}

TEST(Refuse, AnyReason_ReportedAtOnceOfAFirstCall) {
  for (const gqsgd_status reason :
       {GQSGD_INVALID_ARGUMENT, GQSGD_BACKEND, GQSGD_TIMEOUT, GQSGD_NONFINITE, GQSGD_INTERNAL}) {
    const StreamGroup group(kRanks);
    EXPECT_EQ(group.run([&](int rank, gqsgd_comm comm) {
      std::string failure = rank == kCulprit ? refuse_once(comm, reason)
                                             : call_once(comm, rank, GQSGD_REMOTE_ERROR, true);
      if (failure.empty()) failure = call_once(comm, rank, GQSGD_OK, false);
      return failure.empty() ? counter_is(comm, 2) : failure;
    }),
              "");
  }
}

/** Over NCCL ranks whose call is the expected one do not wait for the others' control messages. */
TEST(Refuse, InPlaceOfAnExpectedCall_ReportedByTheNextOne) {
  const StreamGroup group(kRanks);
  EXPECT_EQ(group.run([](int rank, gqsgd_comm comm) {
    std::string failure;
    for (int k = 0; k < 2 && failure.empty(); ++k) {
      failure = call_once(comm, rank, GQSGD_OK, false);
    }
    const gqsgd_status at_once = kAgreesOnHost ? GQSGD_REMOTE_ERROR : GQSGD_OK;
    const gqsgd_status later = kAgreesOnHost ? GQSGD_OK : GQSGD_REMOTE_ERROR;
    if (failure.empty()) {
      failure = rank == kCulprit ? refuse_once(comm, GQSGD_NO_MEMORY)
                                 : call_once(comm, rank, at_once, true);
    }
    if (failure.empty() && rank != kCulprit && !kAgreesOnHost) {
      const gqsgd_status found = gqsgd_comm_status(comm);
      const std::string sentence = gqsgd_last_error();
      const bool named = sentence.find("refused its own call with NO_MEMORY") != sentence.npos;
      if (found != GQSGD_REMOTE_ERROR || !named) failure = "status: " + sentence;
    }
    if (failure.empty()) {
      failure = call_once(comm, rank, rank == kCulprit ? GQSGD_OK : later, false);
    }
    if (failure.empty()) failure = call_once(comm, rank, GQSGD_OK, false);
    return failure.empty() ? counter_is(comm, 5) : failure;
  }),
            "");
}

/** What an earlier call left to be found is for the next call, not for a refusal. */
TEST(Refuse, AfterALateFailure_TheNextCallReturnsIt) {
  if (kAgreesOnHost) return;  // where hosts agree no failure is late
  const StreamGroup group(kRanks);
  EXPECT_EQ(group.run([](int rank, gqsgd_comm comm) {
    std::string failure = call_once(comm, rank, GQSGD_OK, false);
    if (failure.empty()) failure = call_once(comm, rank, GQSGD_OK, false);
    if (failure.empty()) {
      failure = rank == kCulprit ? refuse_once(comm, GQSGD_NO_MEMORY)
                                 : call_once(comm, rank, GQSGD_OK, true);
    }
    if (failure.empty()) failure = refuse_once(comm, GQSGD_SYSTEM);
    const gqsgd_status late = rank == kCulprit ? GQSGD_OK : GQSGD_REMOTE_ERROR;
    return failure.empty() ? call_once(comm, rank, late, false) : failure;
  }),
            "");
}

/** Behind a request on a stream, whose call it does not touch. */
TEST(Refuse, BehindRequests_TheyEndAsTheyWould) {
  const StreamGroup group(kRanks);
  EXPECT_EQ(group.run([](int rank, gqsgd_comm comm) -> std::string {
    StreamCall started(gradients(kRanks, kCount, 4)[static_cast<size_t>(rank)]);
    gqsgd_request request = nullptr;
    if (started.start(comm, usual(), &request) != GQSGD_OK) return gqsgd_last_error();
    const gqsgd_status at_once = kAgreesOnHost ? GQSGD_REMOTE_ERROR : GQSGD_OK;
    std::string failure = rank == kCulprit ? refuse_once(comm, GQSGD_SYSTEM)
                                           : call_once(comm, rank, at_once, true);
    if (gqsgd_request_wait(request) != GQSGD_OK) failure += gqsgd_last_error();
    return failure.empty() ? counter_is(comm, 1) : failure;
  }),
            "");
}

/** As of any failed check, no rank is notified: none waits for a call in a graph. */
TEST(Refuse, WhileTheStreamIsCaptured_OkAndNothingIsCaptured) {
  const StreamGroup group(kRanks);
  EXPECT_EQ(group.run([](int rank, gqsgd_comm comm) {
    std::string failure = call_once(comm, rank, GQSGD_OK, false);
    const OwnStream stream;
    HostGraph graph;
    graph.begin_capture(stream.get());
    if (gqsgd_comm_refuse(comm, GQSGD_SYSTEM, nullptr, stream.get()) != GQSGD_OK) {
      failure += gqsgd_last_error();
    }
    graph.end_capture(stream.get());
    if (failure.empty()) failure = call_once(comm, rank, GQSGD_OK, false);
    return failure.empty() ? counter_is(comm, 2) : failure;
  }),
            "");
}

/** Step and index in memory of the device: the counter is not used. */
TEST(Refuse, WithAStepOnTheDevice_CounterStays) {
  const StreamGroup group(kRanks);
  EXPECT_EQ(group.run([](int rank, gqsgd_comm comm) -> std::string {
    Operation operation = usual();
    operation.at_device = true;
    StreamCall made(gradients(kRanks, kCount, 4)[static_cast<size_t>(rank)]);
    gqsgd_status status = GQSGD_OK;
    const DeviceMemory step(2 * sizeof(uint32_t));
    if (rank == kCulprit) {
      status = gqsgd_comm_refuse(comm, GQSGD_SYSTEM, config_on_device(step.as<uint32_t>()),
                                 made.stream.get());
    } else {
      status = made.make(comm, operation);
    }
    const std::string sentence = gqsgd_last_error();
    if (!made.wait()) return "the stream does not get through";
    if (status != (rank == kCulprit ? GQSGD_OK : GQSGD_REMOTE_ERROR)) return sentence;
    return counter_is(comm, 0);
  }),
            "");
}

TEST(Refuse, TransportHasAName) {
  const StreamGroup group(2);
  const char* name = nullptr;
  EXPECT_EQ(gqsgd_comm_transport(group.comm(0), &name), GQSGD_OK);
  EXPECT_STREQ(name, kAgreesOnHost ? "threads" : "nccl");
}

}  // namespace
}  // namespace gq::test
