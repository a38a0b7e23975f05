// Workspace that NCCL knows: registered once, deregistered before it is freed and before the
// communicator ends, by all ranks or by none, and never in a capture.
#include <gqsgd_log.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <string>
#include <vector>

#include "tests/gpu/stream_calls/counted_call.h"

namespace gq::test {
namespace {

constexpr int kRanks = 3;
constexpr size_t kLonger = 50000;

class Registration : public testing::Test {
 protected:
  Registration() { set_faults({}); }
  ~Registration() override { set_faults({}); }

  /** Since the test began. */
  StandInRegistrations counted() const {
    StandInRegistrations now = registrations();
    now.registered -= before_.registered;
    now.deregistered -= before_.deregistered;
    now.live -= before_.live;
    now.allocated -= before_.allocated;
    now.violations -= before_.violations;
    return now;
  }

  static std::string run_call(gqsgd_comm comm, int rank, size_t value_count) {
    const Operation operation{"blocks-8", GQSGD_SCHEDULE_DIRECT};
    CountedCall call(operation, value_count);
    const OwnStream stream;
    gqsgd_comm_set_counter(comm, 4);
    call.give(inputs_of(4, kRanks, value_count)[static_cast<size_t>(rank)]);
    if (call.make(comm, stream) != GQSGD_OK) return gqsgd_last_error();
    if (!stream.synchronize()) return "the stream does not get through";
    const bool same = call.result() == expected_of(operation, 4, kRanks, value_count);
    return same ? "" : "other bits";
  }

  static std::string run_all(const NcclGroup& group, size_t value_count) {
    return group.run(
        [&](int rank, gqsgd_comm comm) { return run_call(comm, rank, value_count); });
  }

 private:
  const StandInRegistrations before_ = registrations();
};

TEST_F(Registration, CallsOfOneSize_OnceForEachRank) {
  {
    const NcclGroup group(kRanks);
    EXPECT_EQ(counted().registered, kRanks);  // what each rank tried with
    EXPECT_EQ(counted().live, 0);
    for (int k = 0; k < 3; ++k) EXPECT_EQ(run_all(group, kCount), "");
    EXPECT_EQ(counted().registered, 2 * kRanks);
    EXPECT_EQ(counted().live, kRanks);
  }
  EXPECT_EQ(counted().deregistered, 2 * kRanks);
  EXPECT_EQ(counted().live, 0);
  EXPECT_EQ(counted().violations, 0);
}

TEST_F(Registration, WorkspaceGrows_EarlierOneDeregistered) {
  for (const int has_memory : {0, 1}) {
    StandInFaults faults{};
    faults.has_memory = has_memory;
    set_faults(faults);
    {
      const NcclGroup group(kRanks);
      EXPECT_EQ(run_all(group, kCount), "");
      EXPECT_EQ(run_all(group, kLonger), "");
      EXPECT_EQ(counted().live, kRanks);
      EXPECT_EQ(counted().allocated, kRanks * has_memory);
    }
    EXPECT_EQ(counted().live, 0);
    EXPECT_EQ(counted().allocated, 0);
    EXPECT_EQ(counted().registered, counted().deregistered);
    EXPECT_EQ(counted().violations, 0);
  }
}

TEST_F(Registration, CapturesAndReplays_NothingRegistered) {
  {
    const NcclGroup group(kRanks);
    const Operation operation{"blocks-8", GQSGD_SCHEDULE_DIRECT};
    EXPECT_EQ(run_all(group, kCount), "");
    const int known = counted().registered;
    EXPECT_EQ(group.run([&](int rank, gqsgd_comm comm) -> std::string {
      CountedCall call(operation);
      HostGraph graph;
      const OwnStream stream;
      gqsgd_comm_set_counter(comm, 3);
      const Values values = inputs_of(4, kRanks)[static_cast<size_t>(rank)];
      const std::string failure = capture(comm, &call, stream, values, &graph);
      if (!failure.empty()) return failure;
      graph.replay(stream.get());
      if (!stream.synchronize()) return "the stream does not get through";
      return call.result() == expected_of(operation, 4, kRanks) ? "" : "other bits";
    }),
              "");
    EXPECT_EQ(counted().registered, known);
    EXPECT_EQ(run_all(group, kLonger), "");  // what the graph uses stays registered
    EXPECT_EQ(counted().live, 2 * kRanks);
  }
  EXPECT_EQ(counted().live, 0);
  EXPECT_EQ(counted().violations, 0);
}

TEST_F(Registration, OneRankCannot_NoRankRegisters) {
  StandInFaults faults{};
  faults.fail_register = 2;
  set_faults(faults);
  {
    const NcclGroup group(kRanks);
    EXPECT_EQ(run_all(group, kCount), "");
    EXPECT_EQ(counted().registered, kRanks - 1);
    EXPECT_EQ(counted().live, 0);
  }
  EXPECT_EQ(counted().violations, 0);
}

/** Lines of the log about it. */
class Lines {
 public:
  Lines() { gqsgd_set_log(GQSGD_LOG_INFO, take, this); }
  ~Lines() { gqsgd_set_log(GQSGD_LOG_NONE, nullptr, nullptr); }
  int with(const std::string& part) {
    const std::lock_guard<std::mutex> lock(mutex_);
    return static_cast<int>(
        std::count_if(lines_.begin(), lines_.end(), [&](const std::string& line) {
          return line.find(part) != std::string::npos;
        }));
  }

 private:
  static void take(void* self, gqsgd_log_level, const char* line) {
    auto* const lines = static_cast<Lines*>(self);
    const std::lock_guard<std::mutex> lock(lines->mutex_);
    lines->lines_.push_back(line);
  }
  std::mutex mutex_;
  std::vector<std::string> lines_;
};

TEST_F(Registration, OneRankCannot_EachRankLogsALine) {
  Lines lines;
  StandInFaults faults{};
  faults.fail_register = 1;
  set_faults(faults);
  const NcclGroup group(kRanks);
  EXPECT_EQ(lines.with("told not to register"), 1);
  EXPECT_EQ(lines.with("cannot register"), kRanks - 1);
}

TEST_F(Registration, NcclWithoutIt_CallsWork) {
  const UseHostDevice device;
  Lines lines;
  gqsgd_unique_id id;
  const char* options = "nccl=" GQ_EARLY_STAND_IN ",timeout_ms=20000";
  ASSERT_EQ(gqsgd_nccl_unique_id_create(options, &id), GQSGD_OK) << gqsgd_last_error();
  gqsgd_comm comm = nullptr;
  ASSERT_EQ(gqsgd_comm_create_nccl(&id, 0, 1, options, &comm), GQSGD_OK) << gqsgd_last_error();
  EXPECT_EQ(lines.with("has no ncclCommRegister"), 1);
  {
    StreamCall call(Values(kCount, 1.0F));
    EXPECT_EQ(call.make(comm, {"blocks-8", GQSGD_SCHEDULE_DIRECT}), GQSGD_OK)
        << gqsgd_last_error();
    EXPECT_TRUE(call.wait());
  }
  EXPECT_EQ(gqsgd_comm_destroy(comm), GQSGD_OK);
}

TEST_F(Registration, LaterFailure_CallRefusedOnAllRanks) {
  {
    const NcclGroup group(kRanks);
    EXPECT_EQ(run_all(group, kCount), "");
    StandInFaults faults{};
    faults.fail_register = 1;
    set_faults(faults);
    std::atomic<int> here{0}, remote{0};
    EXPECT_EQ(group.run([&](int, gqsgd_comm comm) -> std::string {
      CountedCall call({"blocks-8", GQSGD_SCHEDULE_DIRECT}, kLonger);
      const OwnStream stream;
      call.give(Values(kLonger, 1.0F));
      const gqsgd_status status = call.make(comm, stream);
      here += status == GQSGD_NO_RESOURCE ? 1 : 0;
      remote += status == GQSGD_REMOTE_ERROR ? 1 : 0;
      return stream.synchronize() && call.untouched() ? "" : "a result was written";
    }),
              "");
    EXPECT_EQ(here, 1);
    EXPECT_EQ(remote, kRanks - 1);
    EXPECT_EQ(run_all(group, kLonger), "");
  }
  EXPECT_EQ(counted().live, 0);
  EXPECT_EQ(counted().violations, 0);
}

TEST_F(Registration, Abort_LeftToNccl) {
  {
    const NcclGroup group(kRanks);
    EXPECT_EQ(run_all(group, kCount), "");
    for (int rank = 0; rank < kRanks; ++rank) {
      EXPECT_EQ(gqsgd_comm_abort(group.comm(rank)), GQSGD_OK);
      EXPECT_EQ(gqsgd_comm_status(group.comm(rank)), GQSGD_ABORTED);  // which acts on it
    }
  }
  EXPECT_EQ(counted().live, 0);
  EXPECT_EQ(counted().registered - counted().deregistered, kRanks);
  EXPECT_EQ(counted().violations, 0);
}

}  // namespace
}  // namespace gq::test
