// The check of ranks over a machine's NCCL (tests/gpu/nccl_ranks.h), on threads and the stand-in:
// what it runs where, and that it says what failed, and who hangs.
#include <gtest/gtest.h>

#include <chrono>
#include <mutex>
#include <thread>

#include "tests/gpu/nccl/group.h"
#include "tests/gpu/nccl_ranks.h"
#include "tests/gpu/streams/graph_of_host.h"
#include "tests/support/sanitized.h"

namespace gq::test {
namespace {

class GpuRanks : public testing::Test {
 protected:
  GpuRanks() {
    setting_.options = "nccl=" GQ_STAND_IN;
    setting_.formats = {"paper-gl8", "blocks-8"};
    setting_.value_count = 5001;
    setting_.version = kSharedGpuVersion;
    setting_.missing_ms = 200;
    setting_.make_graph = [] { return std::make_unique<GraphOfHost>(); };
    setting_.say = [this](const std::string& line) { said_ += line + "\n"; };
    setting_.give_up = [this](const std::string& sentence) {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (given_up_.empty()) given_up_ = sentence;
    };
  }
  ~GpuRanks() override { set_faults({}); }

  std::string given_up() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return given_up_;
  }

  const UseHostDevice device_;
  NcclRanks setting_;
  std::string said_;

 private:
  std::mutex mutex_;
  std::string given_up_;
};

TEST_F(GpuRanks, LargestGroup_AsManyAsNcclCanHave) {
  EXPECT_TRUE(check_nccl_ranks(setting_));
  std::string expected = "ok      1 rank\n";
  for (int ranks = 2; ranks <= kNcclRanksMax; ++ranks) {
    expected += "ok      " + std::to_string(ranks) + " ranks on one GPU\n";
  }
  expected += "ok      groups that end early\n";
  EXPECT_EQ(said_, expected);
  EXPECT_EQ(given_up(), "");
}

TEST_F(GpuRanks, EarlierNccl_OneRankForEachGpu) {
  setting_.version = 22809;
  setting_.gpu_count = 3;
  EXPECT_TRUE(check_nccl_ranks(setting_));
  EXPECT_EQ(said_,
            "ok      1 rank\nok      2 ranks on a GPU each\nok      3 ranks on a GPU each\n"
            "not run 4 ranks and more: NCCL 2.28.9 has one for each GPU, from 2.30 on it can have "
            "several; GPUs here: 3\nok      groups that end early\n");
}

TEST_F(GpuRanks, WrongBits_Reported) {
  StandInFaults faults{};
  faults.flip_a_bit = 3;  // behind the first word of each of two ranks
  set_faults(faults);
  EXPECT_FALSE(check_nccl_ranks(setting_));
  EXPECT_NE(said_.find("FAILED  2 ranks on one GPU\nrank "), std::string::npos) << said_;
  EXPECT_NE(said_.find("paper-gl8 ring mean in place, at 0.0: value "), std::string::npos) << said_;
}

TEST_F(GpuRanks, HangingRank_Reported) {
  setting_.timeout_ms = 300;
  StandInFaults faults{};
  faults.exchange_time_ms = 100;
  set_faults(faults);
  EXPECT_FALSE(check_nccl_ranks(setting_));
  EXPECT_NE(said_.find("FAILED  2 ranks on one GPU\nrank "), std::string::npos) << said_;
  EXPECT_NE(said_.find("300 ms"), std::string::npos) << said_;
}

TEST_F(GpuRanks, TimeLimit_Ended) {
  setting_.limit_ms = 50 * kTimeFactor;
  setting_.version = 22809;
  setting_.make_graph = [this] {
    while (given_up().empty()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return std::make_unique<GraphOfHost>();
  };
  EXPECT_TRUE(check_nccl_ranks(setting_));
  const std::string limit = std::to_string(setting_.limit_ms);
  EXPECT_EQ(given_up(), "1 rank: no end after " + limit + " ms: rank 0 replays a graph");
}

}  // namespace
}  // namespace gq::test
