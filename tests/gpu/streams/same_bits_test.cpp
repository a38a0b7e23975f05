// Threads of one process on memory of devices get the bits of virtual ranks: every schedule, every
// kind of format, one to eight ranks on one device and on several, call after call without waiting.
#include <gtest/gtest.h>

#include "tests/gpu/streams/local_group.h"
#include "tests/gpu/streams/typed_call.h"

namespace gq::test {
namespace {

void expect_same_bits(const std::vector<const char*>& formats,
                      const std::vector<gqsgd_schedule>& schedules,
                      const std::string& options = "") {
  for (const int ranks : {1, 2, 3, 4, 5, 8}) {
    const LocalGroup group(ranks, "timeout_ms=20000" + options);
    for (const char* format : formats) {
      const Calls calls(ranks, calls_of(format, schedules), {1000, 1, 4099, 33});
      EXPECT_EQ(
          group.run([&](int rank, gqsgd_comm comm) { return calls.make_and_compare(rank, comm); }),
          "")
          << ranks << " ranks, " << format << options;
    }
  }
}

const std::vector<const char*> kPlain(std::begin(kPresets), std::end(kPresets));
const std::vector<const char*> kBlocks(std::begin(kBlockFormats), std::end(kBlockFormats));
const std::vector<const char*> kWide(std::begin(kWideFormats), std::end(kWideFormats));
const std::vector<gqsgd_schedule> kAll(std::begin(kSchedules), std::end(kSchedules));

TEST(SameBits, Presets_SameBits) { expect_same_bits(kPlain, kAll); }
TEST(SameBits, PresetsInChunks_SameBits) {
  expect_same_bits(kPlain, kAll, ",chunk_value_count=64");
}
TEST(SameBits, BlocksAndRotations_SameBits) { expect_same_bits(kBlocks, kAll); }
TEST(SameBits, BlocksInChunks_SameBits) {
  expect_same_bits(kBlocks, kAll, ",chunk_value_count=128");
}
TEST(SameBits, ReencodedByOwners_SameBits) {
  const std::vector<gqsgd_schedule> wide = {GQSGD_SCHEDULE_DIRECT, GQSGD_SCHEDULE_AUTO,
                                            GQSGD_SCHEDULE_HIERARCHICAL};
  expect_same_bits(kWide, wide);
  expect_same_bits(kWide, {GQSGD_SCHEDULE_DIRECT}, ",chunk_value_count=256");
}
TEST(SameBits, OtherNorms_SameBits) {
  expect_same_bits({"paper-gl8,norm=2:2", "paper-ge8,norm=inf:2", "paper-gl4,norm=1:inf"}, kAll);
}

TEST(SameBits, NodesOfDifferentSizes_SameBits) {
  for (const int ranks : {3, 4, 9}) {
    const std::string nodes = nodes_option(uneven_nodes(ranks));
    for (const char* chunks : {"", ",chunk_value_count=1024"}) {
      const LocalGroup group(ranks, "timeout_ms=20000," + nodes + chunks);
      for (const char* format : kNodeFormats) {
        const Calls calls(ranks, calls_of(format, {GQSGD_SCHEDULE_HIERARCHICAL}),
                          {70001, 1, 4099, 33}, nodes);
        EXPECT_EQ(group.run([&](int rank, gqsgd_comm comm) {
          return calls.make_and_compare(rank, comm);
        }),
                  "")
            << ranks << " ranks, " << format << chunks;
      }
    }
  }
}

TEST(SameBits, EveryElementType_SameBits) {
  for (const int ranks : {2, 3}) {
    const LocalGroup group(ranks);
    EXPECT_EQ(group.run([&](int rank, gqsgd_comm comm) {
      std::string found;
      for (const gqsgd_dtype dtype :
           {GQSGD_FLOAT16, GQSGD_BFLOAT16, GQSGD_FLOAT32, GQSGD_FLOAT64}) {
        for (const Operation& call : calls_of("paper-gl8", kAll)) {
          found += compare_typed(comm, rank, ranks, call, dtype, 1001);
        }
        for (const Operation& call : calls_of("rotated-4-8", {GQSGD_SCHEDULE_DIRECT})) {
          found += compare_typed(comm, rank, ranks, call, dtype, 1001);
        }
        for (const char* format : {"paper-gl4,norm=2:2", "paper-ge4,norm=2:2", "paper-ge8"}) {
          const Operation sparse{format, GQSGD_SCHEDULE_SPARSE, dtype % 2 ? GQSGD_SUM : GQSGD_MEAN};
          found += compare_typed(comm, rank, ranks, sparse, dtype, 20001);
        }
      }
      return found;
    }),
              "");
  }
}

/** Memory, events and streams are those of each rank's own device. */
TEST(SameBits, SeveralDevices_SameBits) {
  const LocalGroup group(5);
  for (const char* format : kPlain) {
    const Calls calls(5, calls_of(format, kAll), {1000, 77});
    EXPECT_EQ(group.run([&](int rank, gqsgd_comm comm) {
      EXPECT_TRUE(host_device().set_current(rank % 3).ok());
      const std::string found = calls.make_and_compare(rank, comm);
      int32_t ordinal = -1;
      EXPECT_TRUE(host_device().current(&ordinal).ok());
      return ordinal == rank % 3 ? found : "another device is current";
    }),
              "");
  }
}

/** Buckets of one step after another; no host ever waits for a device. */
TEST(SameBits, StepsOfATraining_SameBits) {
  const LocalGroup group(4);
  std::vector<Operation> calls;
  for (uint64_t step = 0; step < 12; ++step) {
    for (uint64_t bucket = 0; bucket < 3; ++bucket) {
      Operation call;
      call.quantizer = bucket == 1 ? "blocks-8" : "paper-gl8";
      call.schedule = GQSGD_SCHEDULE_DIRECT;
      call.step = step;
      call.index = bucket;
      calls.push_back(call);
    }
  }
  const Calls steps(4, calls, {4000, 900, 2000});
  EXPECT_EQ(
      group.run([&](int rank, gqsgd_comm comm) { return steps.make_and_compare(rank, comm); }), "");
}

/** More kinds of calls than are kept. */
TEST(SameBits, ManyKindsOfCalls_SameBits) {
  const LocalGroup group(2);
  std::vector<size_t> value_counts;
  for (size_t k = 1; k <= 70; ++k) value_counts.push_back(13 * k);
  Operation call;
  call.quantizer = "paper-gl8";
  call.schedule = GQSGD_SCHEDULE_TREE;
  const Calls calls(2, std::vector<Operation>(140, call), value_counts);
  EXPECT_EQ(
      group.run([&](int rank, gqsgd_comm comm) { return calls.make_and_compare(rank, comm); }), "");
}

/** Streams never wait for what has not been enqueued: ranks may share one. */
TEST(SameBits, RanksOnOneStream_SameBits) {
  const LocalGroup group(4);
  const OwnStream stream;
  constexpr size_t kCount = 20000;
  const auto inputs = gradients(4, kCount, 8);
  std::vector<Operation> operations = calls_of("paper-ge8", kAll);
  operations.push_back({"paper-gl4,norm=2:2", GQSGD_SCHEDULE_SPARSE});  // with few sparse entries
  for (Operation& call : operations) {
    call = {call.quantizer, call.schedule};
    const Values expected = simulate(call, inputs);
    EXPECT_EQ(group.run([&](int rank, gqsgd_comm comm) -> std::string {
      const Quantizer quantizer(call.quantizer);
      const DeviceMemory memory(kCount * sizeof(float));
      auto* const values = memory.as<float>();
      std::copy(inputs[static_cast<size_t>(rank)].begin(), inputs[static_cast<size_t>(rank)].end(),
                values);
      if (gqsgd_allreduce(comm, quantizer.get(), values, values, kCount, GQSGD_FLOAT32, GQSGD_MEAN,
                          config_at(0, 0, call.schedule), stream.get()) != GQSGD_OK) {
        return gqsgd_last_error();
      }
      if (!stream.synchronize()) return "the stream does not get through";
      return difference(Values(values, values + kCount), expected);
    }),
              "");
  }
}

/** Host memory and device memory alternately, also behind a request. */
TEST(SameBits, BetweenCallsOnHostMemory_SameBits) {
  const LocalGroup group(3);
  const auto inputs = gradients(3, 500, 4);
  Operation call;
  call.quantizer = "paper-gl8";
  call.schedule = GQSGD_SCHEDULE_RING;
  const Values expected = simulate(call, inputs);
  EXPECT_EQ(group.run([&](int rank, gqsgd_comm comm) -> std::string {
    const Values& input = inputs[static_cast<size_t>(rank)];
    for (int turn = 0; turn < 3; ++turn) {
      Values result;
      std::string found = allreduce(comm, call, input, &result);
      if (found.empty()) found = difference(result, expected);
      if (!found.empty()) return "on host memory: " + found;
      const Quantizer quantizer(call.quantizer);
      gqsgd_request request = nullptr;
      if (gqsgd_allreduce_start(comm, quantizer.get(), input.data(), result.data(), 500,
                                GQSGD_FLOAT32, call.op, config_of(call), nullptr,
                                &request) != GQSGD_OK) {
        return gqsgd_last_error();
      }
      StreamCall made(input);
      if (made.make(comm, call) != GQSGD_OK) return gqsgd_last_error();
      if (gqsgd_request_wait(request) != GQSGD_OK) return gqsgd_last_error();
      if (!made.wait()) return "the stream does not get through";
      found = difference(made.result(), expected);
      if (found.empty()) found = difference(result, expected);
      if (!found.empty()) return found;
    }
    return "";
  }),
            "");
}

/** Requests on streams and on host memory alternately, waited for in any order. */
TEST(SameBits, Requests_SameBits) {
  const LocalGroup group(3);
  const auto inputs = gradients(3, 500, 4);
  Operation call;
  call.quantizer = "paper-ge8";
  call.schedule = GQSGD_SCHEDULE_BUTTERFLY;
  const Values expected = simulate(call, inputs);
  EXPECT_EQ(group.run([&](int rank, gqsgd_comm comm) -> std::string {
    const Values& input = inputs[static_cast<size_t>(rank)];
    const Quantizer quantizer(call.quantizer);
    std::vector<std::unique_ptr<StreamCall>> made;
    std::vector<Values> results(3, Values(500));
    std::vector<gqsgd_request> requests(6);
    for (size_t k = 0; k < 3; ++k) {
      made.push_back(std::make_unique<StreamCall>(input));
      made[k]->stream.sleep(rank);
      if (made[k]->start(comm, call, &requests[2 * k]) != GQSGD_OK ||
          gqsgd_allreduce_start(comm, quantizer.get(), input.data(), results[k].data(), 500,
                                GQSGD_FLOAT32, call.op, config_of(call), nullptr,
                                &requests[2 * k + 1]) != GQSGD_OK) {
        return gqsgd_last_error();
      }
    }
    for (const size_t k : {5, 2, 0, 1, 4, 3}) {
      if (gqsgd_request_wait(requests[k]) != GQSGD_OK) return gqsgd_last_error();
      const Values& found = k % 2 == 0 ? made[k / 2]->result() : results[k / 2];
      const std::string wrong = difference(found, expected);
      if (!wrong.empty()) return "request " + std::to_string(k) + ": " + wrong;
    }
    return "";
  }),
            "");
}

/** Schedule hierarchical, on one node, is the moves of direct by stages and copies. */
TEST(Counters, Copies_Counted) {
  for (const gqsgd_schedule schedule : {GQSGD_SCHEDULE_HIERARCHICAL, GQSGD_SCHEDULE_DIRECT}) {
    const LocalGroup group(2);
    const auto inputs = gradients(2, 4096, 3);
    Operation call;
    call.quantizer = "paper-gl8";
    call.schedule = schedule;
    EXPECT_EQ(group.run([&](int rank, gqsgd_comm comm) -> std::string {
      StreamCall made(inputs[static_cast<size_t>(rank)]);
      if (made.make(comm, call) != GQSGD_OK || !made.wait()) return gqsgd_last_error();
      uint64_t sent = 0, copied = 0, workspace = 0;
      gqsgd_comm_stat(comm, "payload_bytes_sent", &sent);
      gqsgd_comm_stat(comm, "payload_bytes_copied", &copied);
      gqsgd_comm_stat(comm, "workspace_bytes", &workspace);
      // Half of the codes to the other rank, and the sums of the own half; a control message with
      // the norm.
      const uint64_t by_stages = schedule == GQSGD_SCHEDULE_DIRECT ? 0 : 4096 + 80;
      const bool right = sent == 4096 && copied == by_stages && workspace > 4096;
      return right ? "" : std::to_string(sent) + " sent, " + std::to_string(copied) + " copied";
    }),
              "");
  }
}

}  // namespace
}  // namespace gq::test
