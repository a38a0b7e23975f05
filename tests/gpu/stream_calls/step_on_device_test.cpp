// Calls whose step and index are in memory of the device: read when the stream comes to the call,
// also in graphs; compared there, and refused there where the index is too large.
#include <gtest/gtest.h>

#include <cstring>

#include "tests/gpu/stream_calls/stream_group.h"

namespace gq::test {
namespace {

constexpr size_t kCount = 3000;

Operation usual(uint64_t step = 7, uint64_t index = 3) {
  Operation call;
  call.quantizer = "blocks-8";
  call.schedule = GQSGD_SCHEDULE_DIRECT;
  call.step = step;
  call.index = index;
  call.at_device = true;
  return call;
}

Values input_of(int rank, size_t value_count = kCount) {
  return gradients(4, value_count, 15)[static_cast<size_t>(rank)];
}

Values expected_of(const Operation& operation, int ranks) {
  std::vector<Values> inputs = gradients(4, kCount, 15);
  inputs.resize(static_cast<size_t>(ranks));
  return simulate(operation, inputs);
}

std::string make_and_compare(gqsgd_comm comm, int rank, const Operation& operation,
                             const Values& expected) {
  StreamCall made(input_of(rank));
  if (made.make(comm, operation) != GQSGD_OK) return gqsgd_last_error();
  if (!made.wait()) return "the stream does not get through";
  return difference(made.result(), expected);
}

TEST(StepOnDevice, LargestStep_Accepted) {
  const StreamGroup group(3);
  for (const Operation& call : {usual(0, 0), usual(UINT32_MAX, 0xffff), usual(1u << 16, 1)}) {
    const Values expected = expected_of(call, 3);
    Operation by_value = call;
    by_value.at_device = false;
    EXPECT_EQ(group.run([&](int rank, gqsgd_comm comm) {
      return make_and_compare(comm, rank, call, expected) +
             make_and_compare(comm, rank, by_value, expected);
    }),
              "");
  }
}

/** A rank may know its step while another one's device does; where hosts compare control messages
 * it may not, and gets an error. */
TEST(StepOnDevice, OthersByValue_Compared) {
  const StreamGroup group(3);
  const Values expected = expected_of(usual(0, 0), 3);
  EXPECT_EQ(group.run([&](int rank, gqsgd_comm comm) -> std::string {
    Operation call = usual(0, 0);
    call.at_device = rank != 1;
    for (int turn = 0; turn < 2; ++turn) {
      const std::string said = make_and_compare(comm, rank, call, expected);
      const char* const differs = "memory of the step differs: rank 0 has device, rank 1 has host";
      const bool as_meant = kAgreesOnHost ? said.find(differs) != std::string::npos : said.empty();
      if (!as_meant) return "\"" + said + "\"";
    }
    return "";
  }),
            "");
}

TEST(StepOnDevice, Requests_Supported) {
  const StreamGroup group(2);
  const Values expected = expected_of(usual(), 2);
  EXPECT_EQ(group.run([&](int rank, gqsgd_comm comm) -> std::string {
    StreamCall made(input_of(rank));
    gqsgd_request request = nullptr;
    if (made.start(comm, usual(), &request) != GQSGD_OK) return gqsgd_last_error();
    if (gqsgd_request_wait(request) != GQSGD_OK) return gqsgd_last_error();
    return difference(made.result(), expected);
  }),
            "");
}

/** What ranks' devices have, and the status of each rank. */
struct Case {
  uint64_t step, index;  ///< of rank 1; the others have those of usual()
  gqsgd_status culprit, others;
  const char* culprit_part;
  const char* others_part;
};

constexpr Case kCases[] = {
    {8, 3, GQSGD_MISMATCH, GQSGD_MISMATCH, "step differs: rank 0 has 7, rank 1 has 8",
     "step differs: rank 0 has 7, rank 1 has 8"},
    {7, 4, GQSGD_MISMATCH, GQSGD_MISMATCH, "index differs: rank 0 has 3, rank 1 has 4",
     "index differs: rank 0 has 3, rank 1 has 4"},
    {7, 0x10003, GQSGD_INVALID_ARGUMENT, GQSGD_REMOTE_ERROR, "is above 65535",
     "rank 1 refused its own call with INVALID_ARGUMENT"},
};

std::string check(gqsgd_status status, const Case& wrong, int rank) {
  const bool culprit = rank == 1;
  const std::string sentence = gqsgd_last_error();
  const char* const part = culprit ? wrong.culprit_part : wrong.others_part;
  const bool as_meant = status == (culprit ? wrong.culprit : wrong.others) &&
                        sentence.find(part) != std::string::npos;
  return as_meant ? "" : std::string(gqsgd_status_name(status)) + ": " + sentence + "\n";
}

/** Found at once where the host looks at control messages from the device, which it does at the
 * first call of a kind; else when the stream is through, and returned by the status and by the next
 * call. */
TEST(StepOnDevice, Difference_ReportedByAllRanks) {
  for (const Case& wrong : kCases) {
    const StreamGroup group(3);
    const Values expected = expected_of(usual(), 3);
    EXPECT_EQ(group.run([&](int rank, gqsgd_comm comm) -> std::string {
      std::string said;
      for (int turn = 0; turn < 2; ++turn) {
        const bool at_once = turn == 0 && !kAgreesOnHost;
        StreamCall made(input_of(rank));
        const gqsgd_status status =
            made.make(comm, rank == 1 ? usual(wrong.step, wrong.index) : usual());
        if (at_once) said += check(status, wrong, rank);
        if (!at_once && status != GQSGD_OK) return gqsgd_last_error();
        if (!made.wait()) return "the stream does not get through";
        if (!made.untouched()) said += "something was written\n";
        if (!at_once) {
          said += check(gqsgd_comm_status(comm), wrong, rank);
          StreamCall next(input_of(rank));
          said += check(next.make(comm, usual()), wrong, rank);  // and is executed
          if (!next.wait()) return "the stream does not get through";
          said += difference(next.result(), expected);
        }
        for (int k = 0; k < 2; ++k) said += make_and_compare(comm, rank, usual(), expected);
      }
      return said;
    }),
              "");
  }
}

/** A request itself returns what its call found. */
TEST(StepOnDevice, Difference_ReportedByItsRequest) {
  for (const Case& wrong : kCases) {
    const StreamGroup group(3);
    const Values expected = expected_of(usual(), 3);
    EXPECT_EQ(group.run([&](int rank, gqsgd_comm comm) -> std::string {
      std::string said;
      for (int k = 0; k < 2; ++k) said += make_and_compare(comm, rank, usual(), expected);
      StreamCall made(input_of(rank));
      gqsgd_request request = nullptr;
      const Operation call = rank == 1 ? usual(wrong.step, wrong.index) : usual();
      if (made.start(comm, call, &request) != GQSGD_OK) return gqsgd_last_error();
      said += check(gqsgd_request_wait(request), wrong, rank);
      if (!made.untouched()) said += "something was written\n";
      return said + make_and_compare(comm, rank, usual(), expected);
    }),
              "");
  }
}

/** Another call on a rank while the others go on, one of them with an index that is refused. */
TEST(StepOnDevice, Refused_AnsweredByARankThatMakesAnotherCall) {
  const StreamGroup group(3);
  const Values expected = expected_of(usual(), 3);
  EXPECT_EQ(group.run([&](int rank, gqsgd_comm comm) -> std::string {
    std::string said;
    for (int k = 0; k < 2; ++k) said += make_and_compare(comm, rank, usual(), expected);
    StreamCall made(input_of(rank, rank == 2 ? kCount / 2 : kCount));
    const gqsgd_status status = made.make(comm, usual(7, rank == 1 ? 0x10003 : 3));
    if (rank == 2 && status == GQSGD_OK) said += "nothing was found\n";
    if (!made.wait()) return "the stream does not get through";
    if (!made.untouched()) said += "something was written\n";
    StreamCall next(input_of(rank));
    (void)next.make(comm, usual());  // says what the device found
    if (!next.wait()) return "the stream does not get through";
    return said + make_and_compare(comm, rank, usual(), expected);
  }),
            "");
}

/** Addresses that lead nowhere on one rank are an error on all. */
TEST(StepOnDevice, HostMemory_Refused) {
  const StreamGroup group(2);
  uint32_t on_host[2] = {7, 3};
  const DeviceMemory there(16);
  const std::pair<const uint32_t*, const char*> cases[] = {
      {nullptr, "config.device_step is NULL"},
      {reinterpret_cast<const uint32_t*>(there.as<char>() + 2), "which is not aligned"},
      {on_host, "config.device_step is 0x"},
  };
  for (const auto& [address, part] : cases) {
    EXPECT_EQ(group.run([&, address = address, part = part](int rank, gqsgd_comm comm) {
      const Quantizer quantizer("blocks-8");
      const DeviceMemory values(kCount * sizeof(float)), step(2 * sizeof(uint32_t));
      std::memset(values.as<char>(), 0, kCount * sizeof(float));
      std::memset(step.as<char>(), 0, 2 * sizeof(uint32_t));
      const Config config = config_on_device(rank == 1 ? address : step.as<uint32_t>());
      const OwnStream stream;
      const gqsgd_status status =
          gqsgd_allreduce(comm, quantizer.get(), values.as<float>(), values.as<float>(), kCount,
                          GQSGD_FLOAT32, GQSGD_SUM, config, stream.get());
      const std::string sentence = gqsgd_last_error();
      if (!stream.synchronize()) return std::string("the stream does not get through");
      const bool as_meant =
          rank == 1 ? status == GQSGD_INVALID_ARGUMENT && sentence.find(part) != std::string::npos
                    : status == GQSGD_REMOTE_ERROR;
      return as_meant ? std::string() : sentence;
    }),
              "");
  }
  const Values expected = expected_of(usual(), 2);
  EXPECT_EQ(group.run([&](int rank, gqsgd_comm comm) {
    return make_and_compare(comm, rank, usual(), expected);
  }),
            "");
}

/** Makes the communicator's counter, which is at 1 then, one of the device's: by a capture. */
std::string count_on_device(gqsgd_comm comm, int rank) {
  const Quantizer quantizer("paper-ge4");
  const DeviceMemory values(kCount * sizeof(float));
  std::memcpy(values.as<float>(), input_of(rank).data(), kCount * sizeof(float));
  const OwnStream stream;
  HostGraph graph;
  for (int k = 0; k < 2; ++k) {
    if (k == 1) graph.begin_capture(stream.get());
    const gqsgd_status status =
        gqsgd_allreduce(comm, quantizer.get(), values.as<float>(), values.as<float>(), kCount,
                        GQSGD_FLOAT32, GQSGD_SUM, nullptr, stream.get());
    if (k == 1) graph.end_capture(stream.get());
    if (status != GQSGD_OK) return gqsgd_last_error();
  }
  return stream.synchronize() ? "" : "the stream does not get through";
}

/** One call in a graph, whose step is whatever the device has at each replay. */
std::string replay(gqsgd_comm comm, int rank, const Operation& operation,
                   const std::vector<Values>& expected) {
  const Quantizer quantizer(operation.quantizer);
  const DeviceMemory send(kCount * sizeof(float)), recv(kCount * sizeof(float)), step(8);
  std::memcpy(send.as<float>(), input_of(rank).data(), kCount * sizeof(float));
  const OwnStream stream;
  const Config config = config_on_device(step.as<uint32_t>(), operation.schedule);
  const auto make = [&] {
    return gqsgd_allreduce(comm, quantizer.get(), send.as<float>(), recv.as<float>(), kCount,
                           GQSGD_FLOAT32, operation.op, config, stream.get());
  };
  HostGraph graph;
  for (size_t k = 0; k < expected.size(); ++k) {
    step.as<uint32_t>()[0] = static_cast<uint32_t>(operation.step + k);
    step.as<uint32_t>()[1] = static_cast<uint32_t>(operation.index + k);
    if (k == 0 && make() != GQSGD_OK) return gqsgd_last_error();
    if (k == 1) {
      graph.begin_capture(stream.get());
      const gqsgd_status status = make();
      graph.end_capture(stream.get());
      if (status != GQSGD_OK) return gqsgd_last_error();
    }
    if (k > 0) graph.replay(stream.get());
    if (!stream.synchronize()) return "the stream does not get through";
    const float* const values = recv.as<float>();
    const std::string found = difference(Values(values, values + kCount), expected[k]);
    if (!found.empty()) return describe(operation) + ": " + found;
  }
  uint64_t counter = 0;
  if (gqsgd_comm_counter(comm, &counter) != GQSGD_OK) return gqsgd_last_error();
  return counter == 1 ? "" : "it was counted: " + std::to_string(counter);
}

TEST(StepOnDevice, Replay_ReadsItAgain) {
  for (const char* format :
       {"blocks-8", "paper-gl8", kAgreesOnHost ? "paper-ge8" : "rotated-4-8"}) {
    const StreamGroup group(3, "chunk_value_count=1024");
    Operation operation = usual(40, 9);
    operation.quantizer = format;
    std::vector<Values> expected;
    for (uint64_t k = 0; k < 4; ++k) {
      Operation next = operation;
      next.step += k;
      next.index += k;
      expected.push_back(expected_of(next, 3));
    }
    EXPECT_EQ(group.run([&](int rank, gqsgd_comm comm) {
      const std::string failure = count_on_device(comm, rank);
      return failure.empty() ? replay(comm, rank, operation, expected) : failure;
    }),
              "");
  }
}

}  // namespace
}  // namespace gq::test
