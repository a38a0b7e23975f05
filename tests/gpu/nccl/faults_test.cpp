// What goes wrong with calls over NCCL: its functions, its errors later on, ranks that do not come,
// memory that is short; each a status and a sentence, and no wait without end.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "tests/gpu/nccl/faults.h"
#include "tests/support/host_device/ask_first.h"

namespace gq::test {
namespace {

TEST(Calls, NcclRefuses_GroupBroken) {
  const NcclGroup group(2, "timeout_ms=1000");
  const std::string failures = group.run([&](int rank, gqsgd_comm comm) -> std::string {
    StreamCall made(some_values());
    if (rank == 0) {
      StandInFaults faults{};
      faults.fail_call = 1;
      faults.fail_result = 1;
      set_faults(faults);
    } else {
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
    const gqsgd_status status = made.make(comm, usual());
    const std::string sentence = gqsgd_last_error();
    if (rank == 0) {
      if (status != GQSGD_BACKEND) return gqsgd_status_name(status) + sentence;
      for (const char* part : {"NCCL error 1", "unhandled cuda error", "told to fail", "22304"}) {
        if (sentence.find(part) == std::string::npos) return sentence;
      }
      if (gqsgd_comm_status(comm) != GQSGD_BACKEND) return "it is not broken";
    } else if (status != GQSGD_TIMEOUT) {
      return gqsgd_status_name(status) + sentence;
    }
    if (!made.wait(5000)) return "the stream does not get through";
    return made.untouched() ? "" : "something was written";
  });
  set_faults({});
  EXPECT_EQ(failures, "");
}

TEST(Calls, NcclFailsLater_GroupBroken) {
  const NcclGroup group(2);
  StandInFaults later{};
  later.async_error = 6;
  const With faults(later);
  for (const int rank : {0, 1}) {
    const gqsgd_status status = gqsgd_comm_status(group.comm(rank));
    EXPECT_TRUE(says(status, GQSGD_BACKEND, "remote process exited"));
    StreamCall made(some_values());
    EXPECT_EQ(made.make(group.comm(rank), usual()), GQSGD_BACKEND);
    EXPECT_TRUE(made.wait(5000) && made.untouched());
  }
}

TEST(Calls, NcclReportsCompletion_CallsEnd) {
  const NcclGroup group(3, "nccl_blocking=off");
  StandInFaults slow{};
  slow.in_progress_polls = 3;
  const With faults(slow);
  EXPECT_EQ(group.run([&](int, gqsgd_comm comm) -> std::string {
    for (int k = 0; k < 4; ++k) {
      StreamCall made(some_values());
      if (made.make(comm, usual()) != GQSGD_OK) return gqsgd_last_error();
      if (!made.wait() || made.untouched()) return "nothing was done";
    }
    return "";
  }),
            "");
}

TEST(Calls, RankDoesNotCall_Timeout) {
  const NcclGroup group(3, "timeout_ms=300");
  EXPECT_EQ(group.run([&](int rank, gqsgd_comm comm) -> std::string {
    if (rank == 1) return "";
    StreamCall made(some_values());
    const gqsgd_status status = made.make(comm, usual());
    if (status != GQSGD_TIMEOUT) return gqsgd_status_name(status);
    if (std::string(gqsgd_last_error()).find("waited 300 ms") == std::string::npos) {
      return gqsgd_last_error();
    }
    if (!made.wait(5000)) return "the stream does not get through";
    return made.untouched() ? "" : "something was written";
  }),
            "");
}

/** A call that was enqueued and will never be answered ends when a thread aborts the group. */
TEST(Calls, GroupAborted_CallsEnd) {
  for (const bool in_place : {false, true}) {
    const NcclGroup group(2, in_place ? "nccl_blocking=off" : "");
    Operation call = usual();
    call.in_place = in_place;
    EXPECT_EQ(group.run([&](int rank, gqsgd_comm comm) -> std::string {
      const Values values = some_values();
      StreamCall first(values), lost(values);
      if (first.make(comm, call) != GQSGD_OK || !first.wait()) return "the first call failed";
      if (rank == 1) return "";
      if (lost.make(comm, call) != GQSGD_OK) return gqsgd_last_error();
      if (lost.wait(100)) return "it ended without its peer";
      const auto begun = Clock::now();
      if (gqsgd_comm_abort(comm) != GQSGD_OK) return gqsgd_last_error();
      if (gqsgd_comm_status(comm) != GQSGD_ABORTED) return "it is not aborted";  // NCCL is called
      if (Clock::now() - begun > std::chrono::milliseconds(100)) return "abort took its time";
      if (!lost.wait(5000)) return "the stream does not get through";
      return lost.untouched() ? "" : "something was written";
    }),
              "");
  }
}

TEST(Calls, AbortOfNcclHangs_CallsEnd) {
  StandInFaults deaf{};
  deaf.deaf_abort = 1;
  {
    const NcclGroup group(1);
    const With faults(deaf);
    const auto begun = Clock::now();
    EXPECT_EQ(gqsgd_comm_abort(group.comm(0)), GQSGD_OK);
    EXPECT_LT(Clock::now() - begun, std::chrono::milliseconds(100));
  }
}

/** It would be the stream of another thread, for NCCL's threads enqueue. */
TEST(Calls, StreamOfTheThreadWhereNcclDoesNotBlock_Refused) {
  const NcclGroup group(1, "nccl_blocking=off");
  const Quantizer quantizer("paper-ge8");
  DeviceMemory values(64 * sizeof(float));
  EXPECT_TRUE(says(gqsgd_allreduce(group.comm(0), quantizer.get(), values.as<float>(),
                                   values.as<float>(), 64, GQSGD_FLOAT32, GQSGD_SUM, nullptr,
                                   kStreamPerThread),
                   GQSGD_UNSUPPORTED, "stream is cudaStreamPerThread"));
  StreamCall made(some_values());
  EXPECT_EQ(made.make(group.comm(0), usual()), GQSGD_OK) << gqsgd_last_error();
  EXPECT_TRUE(made.wait());
}

/** NCCL ends no communicator whose kernels a graph has: that is waited for once. */
TEST(Calls, GraphLivesAndGroupAborted_DestroyedWithinSeconds) {
  HostGraph graph;
  const OwnStream stream;
  DeviceMemory values(64 * sizeof(float));
  const NcclGroup group(1);
  const Quantizer quantizer("paper-ge8");
  const auto call = [&] {
    return gqsgd_allreduce(group.comm(0), quantizer.get(), values.as<float>(), values.as<float>(),
                           64, GQSGD_FLOAT32, GQSGD_SUM, nullptr, stream.get());
  };
  ASSERT_EQ(call(), GQSGD_OK) << gqsgd_last_error();
  graph.begin_capture(stream.get());
  EXPECT_EQ(call(), GQSGD_OK) << gqsgd_last_error();
  EXPECT_TRUE(graph.end_capture(stream.get()));
  EXPECT_EQ(gqsgd_comm_abort(group.comm(0)), GQSGD_OK);
  const auto begun = Clock::now();
  const_cast<NcclGroup&>(group).destroy(0);
  EXPECT_LT(Clock::now() - begun, std::chrono::seconds(8));
}

TEST(Calls, MemoryOfAnotherKind_Refused) {
  const NcclGroup group(1);
  const Quantizer quantizer("paper-gl8");
  Values host(100, 1.0f);
  const DeviceMemory memory(400);
  const Config config = config_at(0, 0);
  EXPECT_TRUE(says(gqsgd_allreduce(group.comm(0), quantizer.get(), host.data(), memory.as<float>(),
                                   100, GQSGD_FLOAT32, GQSGD_SUM, config, nullptr),
                   GQSGD_INVALID_ARGUMENT, "memory of the host"));
  EXPECT_TRUE(says(gqsgd_allreduce(group.comm(0), quantizer.get(), memory.as<float>(), host.data(),
                                   100, GQSGD_FLOAT32, GQSGD_SUM, config, nullptr),
                   GQSGD_INVALID_ARGUMENT, "recv is"));
}

std::atomic<int> operations_left{0};  // until one finds no memory; 0: all do

Status find_memory() {
  if (operations_left == 0 || --operations_left > 0) return Status();
  return fail(GQSGD_NO_MEMORY, "the device has no memory left");
}

/** What is enqueued needs memory. Other ranks do not learn of it, and have gone on. */
TEST(Calls, MemoryShortAfterAgreement_GroupBroken) {
  Device short_of_memory = host_device();
  ask_first<find_memory, &Device::copy, &Device::record, &Device::wait>(&short_of_memory);
  const UseHostDevice device(short_of_memory);
  const std::string options = stand_in_options();
  int failed = 0;
  for (gqsgd_status status = GQSGD_NO_MEMORY; status != GQSGD_OK; ++failed) {
    gqsgd_unique_id id;
    gqsgd_comm comm = nullptr;
    ASSERT_EQ(gqsgd_nccl_unique_id_create(options.c_str(), &id), GQSGD_OK);
    ASSERT_EQ(gqsgd_comm_create_nccl(&id, 0, 1, options.c_str(), &comm), GQSGD_OK);
    StreamCall first(some_values()), second(some_values());
    ASSERT_EQ(first.make(comm, usual()), GQSGD_OK) << gqsgd_last_error();
    operations_left = failed + 1;
    status = second.make(comm, usual());
    operations_left = 0;
    if (status != GQSGD_OK) {
      EXPECT_TRUE(says(status, GQSGD_NO_MEMORY, "no memory left"));
      EXPECT_EQ(gqsgd_comm_status(comm), GQSGD_NO_MEMORY) << "operation " << failed + 1;
    }
    EXPECT_EQ(gqsgd_comm_destroy(comm), GQSGD_OK);
    EXPECT_TRUE(second.wait());
  }
  EXPECT_GT(failed, 2);
}

TEST(Calls, Reserved_NothingAllocated) {
  const NcclGroup group(2);
  EXPECT_EQ(group.run([&](int, gqsgd_comm comm) -> std::string {
    const Quantizer quantizer(usual().quantizer);
    const gqsgd_status reserved = gqsgd_comm_reserve(comm, quantizer.get(), 600, GQSGD_FLOAT32);
    return reserved == GQSGD_OK ? "" : gqsgd_last_error();
  }),
            "");
  constexpr size_t kKinds = 60;
  std::vector<std::unique_ptr<StreamCall>> calls;
  for (size_t k = 0; k < 2 * kKinds; ++k) {
    calls.push_back(std::make_unique<StreamCall>(gradients(1, 600 - k / 2, 2)[0]));
  }
  fail_allocations_from(1);
  EXPECT_EQ(group.run([&](int rank, gqsgd_comm comm) -> std::string {
    for (size_t kind = 0; kind < kKinds; ++kind) {
      StreamCall& made = *calls[2 * kind + static_cast<size_t>(rank)];
      Operation call = usual();
      call.op = kind % 2 == 0 ? GQSGD_SUM : GQSGD_MEAN;
      if (kind % 3 == 0) call.schedule = GQSGD_SCHEDULE_RING;
      if (made.make(comm, call) != GQSGD_OK) return gqsgd_last_error();
      if (!made.wait()) return "stuck";
    }
    return "";
  }),
            "");
  fail_allocations_from(0);
}

}  // namespace
}  // namespace gq::test
