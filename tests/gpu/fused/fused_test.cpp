// Fused allreduces without a device: the kernels of all ranks run at once, a thread for each block,
// and wait for each other as on a device. They must have the bits of virtual ranks, and never wait
// without end. Lists of tensors are in lists_test.cpp.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <thread>

#include "tests/gpu/fused/fused_ranks.h"

namespace gq::test {
namespace {

using Clock = std::chrono::steady_clock;

const std::vector<std::string> kFormats = {"paper-gl8",
                                           "paper-ge8",
                                           "paper-gl4",
                                           "paper-ge4",
                                           "relative-8",
                                           "paper-gl8,rounding=nearest",
                                           "paper-ge4,rounding=correlated",
                                           "paper-gl4,combine=average",
                                           "blocks-8",
                                           "levels=linear,bits=4,block=32,rescale=true",
                                           "paper-gl8,block=8192,rescale=true",
                                           "none"};

TEST(Fused, VirtualRanks_SameBits) {
  for (uint32_t ranks = 1; ranks <= 8; ++ranks) {
    for (const uint32_t blocks : {1, 3}) {
      FusedRanks group(ranks, blocks);
      EXPECT_EQ(make_calls(&group, calls_of(kFormats, 16), {1, 33, 4099, 1000, 20001}, false), "")
          << ranks << " ranks, " << blocks << " blocks";
    }
  }
}

/** A rank that does not wait reads what is not there yet, or is no longer. */
TEST(Fused, AnyBlockOrder_SameBits) {
  for (const uint32_t ranks : {2, 5}) {
    FusedRanks group(ranks, 2);
    EXPECT_EQ(make_calls(&group, calls_of(kFormats, 60), {9000, 300, 5001}, true), "");
  }
}

TEST(Fused, CallNumbersWrapAround_SameBits) {
  FusedRanks group(3, 2, UINT32_MAX - 4);
  EXPECT_EQ(make_calls(&group, calls_of({"paper-gl8", "paper-ge4"}, 12), {6000, 700}, true), "");
}

/** Two ranks make a call of 20,001 values, by three blocks each; `held` is what blocks of rank 1 do
 *  before their stages. */
std::vector<Values> make_held(FusedRanks* ranks, const Operation& call, const Delay& held) {
  const auto inputs = gradients(2, 20001, 3);
  std::vector<Values> results(2, Values(20001, 77.0f));
  std::thread peer(
      [&] { run_fused_on_threads(ranks->args(call, 1, inputs[1], &results[1]), held); });
  run_fused_on_threads(ranks->args(call, 0, inputs[0], &results[0]));
  peer.join();
  return results;
}

/** True once `condition` is; false after some seconds. */
bool comes(const std::function<bool()>& condition) {
  const auto end = Clock::now() + std::chrono::seconds(5);
  while (!condition()) {
    if (Clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

/** Blocks of other numbers than that of a late one get to the last barrier without it. */
TEST(Fused, LateBlock_OnlyItsNumberWaits) {
  const auto expect_others_go_on = [](const char* format, uint32_t late_stage) {
    FusedRanks group(2, 3);
    const Operation call = calls_of({format}, 1)[0];
    const auto is_there = [&](uint32_t block) {
      const auto& flags = group.buffers(1).control().flags[static_cast<int>(BarrierOf::sums)][0];
      return __atomic_load_n(&flags[block], __ATOMIC_ACQUIRE) >> 32 == 1;
    };
    bool others = false, same = true;
    const auto results = make_held(&group, call, [&](uint32_t block, uint32_t stage) {
      if (block != 2 || stage != late_stage) return;
      others = comes([&] { return is_there(0) && is_there(1); });
      same = is_there(2);
    });
    EXPECT_TRUE(others) << format;
    EXPECT_FALSE(same) << format;
    const Values expected = simulate(call, gradients(2, 20001, 3));
    for (const Values& result : results) EXPECT_EQ(difference(result, expected), "") << format;
  };
  expect_others_go_on("paper-gl8", 1);
  expect_others_go_on("blocks-8", 0);
  expect_others_go_on("none", 0);
}

struct Left {
  bool in_time;
  bool untouched;
};

/** Makes the first call of all ranks but `missing`; `meanwhile` runs beside them. Those that do not
 *  end by themselves get the exit flag. */
Left make_without(FusedRanks* ranks, uint32_t missing, const std::function<void()>& meanwhile) {
  const Operation call = calls_of({"paper-gl8"}, 1)[0];
  const auto inputs = gradients(static_cast<int>(ranks->size()), 9000, 3);
  std::vector<Values> results(ranks->size(), Values(9000, 77.0f));
  std::atomic<uint32_t> under_way{ranks->size() - 1};
  std::vector<std::thread> threads;
  for (uint32_t rank = 0; rank < ranks->size(); ++rank) {
    if (rank == missing) continue;
    threads.emplace_back([&, rank] {
      run_fused_on_threads(ranks->args(call, rank, inputs[rank], &results[rank]));
      --under_way;
    });
  }
  meanwhile();
  const auto end = Clock::now() + std::chrono::seconds(5);
  while (under_way > 0 && Clock::now() < end) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  Left left = {under_way == 0, true};
  for (uint32_t rank = 0; rank < ranks->size(); ++rank) {
    __atomic_store_n(&ranks->buffers(rank).leave, kLeaveForHost, __ATOMIC_RELEASE);
    // What a kernel without an ear for that would wait for.
    for (auto& kind : ranks->buffers(rank).control().flags) {
      for (uint64_t& place : kind[missing]) {
        if (!left.in_time) __atomic_store_n(&place, uint64_t{1} << 32, __ATOMIC_RELEASE);
      }
    }
  }
  for (std::thread& thread : threads) thread.join();
  for (const Values& result : results) left.untouched &= result == Values(9000, 77.0f);
  return left;
}

TEST(FusedExit, HostsAbort_KernelsExit) {
  FusedRanks group(3, 2);
  const Left left = make_without(&group, 1, [&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    for (uint32_t rank = 0; rank < 3; ++rank) {
      __atomic_store_n(&group.buffers(rank).leave, kLeaveForHost, __ATOMIC_RELEASE);
    }
  });
  EXPECT_TRUE(left.in_time);
  EXPECT_TRUE(left.untouched);
}

/** Every rank learns for which rank the first one gave up. */
TEST(FusedExit, Deadline_KernelsExit) {
  FusedRanks group(3, 2);
  group.wait_for(100000000);
  const Left left = make_without(&group, 1, [] {});
  EXPECT_TRUE(left.in_time);
  EXPECT_TRUE(left.untouched);
}

TEST(FusedExit, Deadline_AwaitedRankNamed) {
  for (uint32_t kind = 0; kind < kBarrierKinds; ++kind) {
    FusedRanks group(3, 2);
    group.wait_for(500000000);  // more than a busy machine keeps a rank that is not late
    const Operation call = calls_of({"paper-gl8"}, 1)[0];
    const uint32_t digest =
        digest_with(request_of(call, 9000, nullptr).digest, static_cast<uint32_t>(call.step), 0);
    for (uint32_t rank = 0; rank < 3; ++rank) {  // what rank 1 has come to
      for (uint32_t before = 0; before < kind; ++before) {
        const bool for_codes = before == static_cast<uint32_t>(BarrierOf::codes);
        for (uint64_t& place : group.buffers(rank).control().flags[before][1]) {
          place = uint64_t{1} << 32 | (for_codes ? digest : 0);
        }
      }
    }
    uint64_t words[3] = {};
    const Left left = make_without(&group, 1, [&] {
      for (int k = 0; k < 3000 && words[0] * words[1] * words[2] == 0; ++k) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
        for (uint32_t rank = 0; rank < 3; ++rank) {
          words[rank] = __atomic_load_n(&group.buffers(rank).leave, __ATOMIC_ACQUIRE);
        }
      }
    });
    EXPECT_TRUE(left.in_time);
    EXPECT_TRUE(left.untouched);
    for (const uint64_t word : words) {
      TooLate late{};
      ASSERT_TRUE(is_too_late(word, &late)) << word;
      EXPECT_EQ(late.peer, 1u);
      EXPECT_NE(late.waiter, 1u);
      EXPECT_EQ(static_cast<uint32_t>(late.kind), kind);
    }
  }
}

/** A block of the rank has given up at the last barrier, others have not: no value is written. */
TEST(FusedExit, AnyExit_AllBlocksOfARankOrNone) {
  FusedRanks group(2, 3);
  group.buffers(1).control().decision = uint64_t{1} << 1 | 1;
  const Operation call = calls_of({"paper-gl8"}, 1)[0];
  const auto inputs = gradients(2, 9000, 3);
  std::vector<Values> results(2, Values(9000, 77.0f));
  std::thread peer([&] { run_fused_on_threads(group.args(call, 1, inputs[1], &results[1])); });
  run_fused_on_threads(group.args(call, 0, inputs[0], &results[0]));
  peer.join();
  EXPECT_EQ(difference(results[0], simulate(call, inputs)), "");
  EXPECT_EQ(results[1], Values(9000, 77.0f));
}

/** Ranks give up because of one block, which goes on when both have: those whose peers have come
 *  write nothing, either. */
TEST(FusedExit, StuckBlock_NoBlockWrites) {
  FusedRanks group(2, 3);
  group.wait_for(100000000);
  const Operation call = calls_of({"paper-gl8"}, 1)[0];
  const auto results = make_held(&group, call, [&](uint32_t block, uint32_t stage) {
    if (block != 2 || stage != 2) return;
    for (const uint32_t rank : {0u, 1u}) {
      const uint64_t* const left = &group.buffers(rank).control().left;
      EXPECT_TRUE(comes([&] { return __atomic_load_n(left, __ATOMIC_ACQUIRE) != 0; }));
    }
  });
  for (const Values& result : results) EXPECT_EQ(result, Values(20001, 77.0f));
}

/** A kernel of the rank has left: the next one has the same number, and must not be taken for it.
 */
TEST(FusedExit, AfterAnExit_LaterCallsExit) {
  FusedRanks group(1, 2);
  const Operation call = calls_of({"paper-gl8"}, 1)[0];
  const auto inputs = gradients(1, 9000, 3);
  Values result(9000, 77.0f);
  group.buffers(0).control().left = 1;
  run_fused_on_threads(group.args(call, 0, inputs[0], &result));
  EXPECT_EQ(result, Values(9000, 77.0f));
  EXPECT_EQ(group.buffers(0).control().flags[0][0][0], 0u);
  group.buffers(0).control().left = 0;
  run_fused_on_threads(group.args(call, 0, inputs[0], &result));
  EXPECT_EQ(difference(result, simulate(call, inputs)), "");
}

TEST(FusedExit, Leaving_IsRecorded) {
  FusedRanks group(3, 2);
  group.wait_for(100000000);
  EXPECT_TRUE(make_without(&group, 1, [] {}).in_time);
  for (const uint32_t rank : {0, 2}) EXPECT_EQ(group.buffers(rank).control().left, 1u);
}

/** One call of each rank at the same time. */
std::vector<Values> make_each(FusedRanks* ranks, const std::vector<Operation>& calls,
                              const std::vector<Values>& inputs) {
  std::vector<Values> results(ranks->size(), Values(inputs[0].size(), 77.0f));
  std::vector<std::thread> threads;
  for (uint32_t rank = 0; rank < ranks->size(); ++rank) {
    threads.emplace_back([&, rank] {
      run_fused_on_threads(ranks->args(calls[rank], rank, inputs[rank], &results[rank]),
                           disorder_of(rank));
    });
  }
  for (std::thread& thread : threads) thread.join();
  return results;
}

/** Rank 1's call is another one: every rank finds it, none writes, and the next call is made. */
TEST(FusedDifference, Difference_FoundByAllRanks) {
  for (const char* format : {"paper-gl8", "blocks-8", "none"}) {
    const Operation usual = calls_of({format}, 1)[0];
    Operation later = usual, elsewhere = usual, refused = usual;
    later.step += 1;
    elsewhere.index += 1;
    elsewhere.at_device = true;
    refused.index = 0x10000 + usual.index;
    refused.at_device = true;
    for (const Operation& other : {later, elsewhere, refused}) {
      FusedRanks group(3, 2);
      const auto inputs = gradients(3, 9000, 3);
      for (int iteration = 0; iteration < 2; ++iteration) {
        const auto results = make_each(&group, {usual, other, usual}, inputs);
        for (uint32_t rank = 0; rank < 3; ++rank) {
          EXPECT_EQ(results[rank], Values(9000, 77.0f));
          Disagreement& found = group.buffers(rank).found;
          ASSERT_EQ(found.found, 1u);
          EXPECT_EQ(found.rank, 1u);
          EXPECT_EQ(found.reference[kStepWord], usual.step);
          EXPECT_EQ(found.differing[kStepWord], other.step);
          EXPECT_EQ(found.differing[kIndexWord], other.index & kIndexMax);
          EXPECT_EQ(found.differing[kStatusWord] != 0, other.index > kIndexMax);
          found.found = 0;
        }
        const Values expected = simulate(usual, inputs);
        for (const Values& result : make_each(&group, {usual, usual, usual}, inputs)) {
          EXPECT_EQ(difference(result, expected), "");
        }
        for (uint32_t rank = 0; rank < 3; ++rank) EXPECT_EQ(group.buffers(rank).found.found, 0u);
      }
    }
  }
}

/** A call that all ranks refuse is one that none makes. */
TEST(FusedDifference, Refusal_FoundByAllRanks) {
  Operation refused = calls_of({"paper-gl8"}, 1)[0];
  refused.index = 0x10000;
  refused.at_device = true;
  FusedRanks group(2, 2);
  const auto inputs = gradients(2, 9000, 3);
  for (const Values& result : make_each(&group, {refused, refused}, inputs)) {
    EXPECT_EQ(result, Values(9000, 77.0f));
  }
  EXPECT_EQ(group.buffers(1).found.rank, 0u);
  EXPECT_NE(group.buffers(1).found.differing[kStatusWord], 0u);
}

}  // namespace
}  // namespace gq::test
