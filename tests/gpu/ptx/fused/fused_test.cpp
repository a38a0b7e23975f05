// Fused allreduces: kernels of all ranks, whose blocks wait for each other, in orders drawn from
// seeds. They must have the bits of virtual ranks, and never wait without end. Lists of tensors are
// in lists_test.cpp.
#include <gtest/gtest.h>

#include <functional>

#include "tests/gpu/ptx/fused/fused_ranks.h"

namespace gq::test {
namespace {

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
    FusedRanks group(ranks, ranks % 3 == 2 ? 1 : 3);
    EXPECT_EQ(make_calls(&group, calls_of(kFormats, 12), {1, 33, 4099, 1000, 9001}, ranks), "")
        << ranks << " ranks";
  }
}

/** A rank that does not wait reads what is not there yet, or is no longer. */
TEST(Fused, AnyBlockOrder_SameBits) {
  for (uint64_t seed = 1; seed <= 8; ++seed) {
    FusedRanks group(seed % 4 == 0 ? 5 : 2, 2);
    EXPECT_EQ(make_calls(&group, calls_of(kFormats, 14), {9000, 300, 5001}, seed), "")
        << "seed " << seed;
  }
}

TEST(Fused, CallNumbersWrapAround_SameBits) {
  FusedRanks group(3, 2, UINT32_MAX - 4);
  EXPECT_EQ(make_calls(&group, calls_of({"paper-gl8", "paper-ge4"}, 10), {6000, 700}, 4), "");
}

/** Keeps block 2 of rank 1 from its stage, 0 (norms) to 3 (values), of the first call until a
 *  condition is true. */
class HeldBlock {
 public:
  static constexpr uint32_t kRank = 1, kBlock = 2;

  HeldBlock(FusedRanks* ranks, uint32_t stage, std::function<bool()> until)
      : ranks_(*ranks), stage_(stage), until_(std::move(until)) {}

  ptx::Schedule schedule() {
    return {1, [this](uint32_t rank, uint32_t block) { return holds(rank, block); }};
  }
  /** Whether it went on because of the condition. */
  bool came() const { return released_ && asked_ < kPatience; }

  /** Whether a block of rank 1 has come to the barrier behind a stage. */
  static bool is_behind(FusedRanks* ranks, uint32_t stage, uint32_t block) {
    return ranks->buffers(kRank).control().flags[stage][kRank][block] >> 32 == 1;
  }

 private:
  static constexpr uint32_t kPatience = 2000;

  bool holds(uint32_t rank, uint32_t block) {
    if (released_ || rank != kRank || block != kBlock) return false;
    if (stage_ > 0 && !is_behind(&ranks_, stage_ - 1, kBlock)) return false;
    released_ = until_() || ++asked_ == kPatience;
    return !released_;
  }

  FusedRanks& ranks_;
  const uint32_t stage_;
  const std::function<bool()> until_;
  uint32_t asked_ = 0;
  bool released_ = false;
};

Operation usual(const char* format = "paper-gl8") { return calls_of({format}, 1)[0]; }

/** Two ranks make a call of 20,001 values, by three blocks each. */
std::vector<Values> make_held(FusedRanks* ranks, const Operation& call, HeldBlock* held) {
  return make_each(ranks, {call, call}, gradients(2, 20001, 3), held->schedule());
}

/** Blocks of other numbers than that of a late one get to the last barrier without it. */
TEST(Fused, LateBlock_OnlyItsNumberWaits) {
  const auto expect_others_go_on = [](const char* format, uint32_t late_stage) {
    FusedRanks group(2, 3);
    const auto is_there = [&](uint32_t block) {
      return HeldBlock::is_behind(&group, static_cast<uint32_t>(BarrierOf::sums), block);
    };
    bool same = true;
    HeldBlock held(&group, late_stage, [&] {
      same = is_there(HeldBlock::kBlock);
      return is_there(0) && is_there(1);
    });
    const auto results = make_held(&group, usual(format), &held);
    EXPECT_TRUE(held.came()) << format;
    EXPECT_FALSE(same) << format;
    const Values expected = simulate(usual(format), gradients(2, 20001, 3));
    for (const Values& result : results) EXPECT_EQ(difference(result, expected), "") << format;
  };
  expect_others_go_on("paper-gl8", 1);
  expect_others_go_on("blocks-8", 0);
  expect_others_go_on("none", 0);
}

constexpr uint64_t kTimeoutNs = 3000 * ptx::kStepNs;

/** The first call of three ranks but rank 1, which does not come: nothing is written. */
void expect_exit(FusedRanks* ranks, const ptx::Schedule& schedule) {
  const std::vector<Operation> calls(3, usual());
  const auto results = make_each(ranks, calls, gradients(3, 9000, 3), schedule, 1);
  for (const Values& result : results) EXPECT_EQ(result, Values(9000, kUntouched));
}

TEST(FusedExit, HostsAbort_KernelsExit) {
  FusedRanks group(3, 2);
  expect_exit(&group, {1, nullptr, [&](uint64_t time_ns) {
                         if (time_ns != kTimeoutNs) return;
                         for (uint32_t rank = 0; rank < 3; ++rank) {
                           group.buffers(rank).host().leave = kLeaveForHost;
                         }
                       }});
}

TEST(FusedExit, Deadline_KernelsExit) {
  FusedRanks group(3, 2);
  group.wait_for(kTimeoutNs);
  expect_exit(&group, {1});
  for (const uint32_t rank : {0, 2}) EXPECT_EQ(group.buffers(rank).control().left, 1u);
}

/** Every rank learns for which rank the first one gave up. */
TEST(FusedExit, Deadline_AwaitedRankNamed) {
  for (uint32_t kind = 0; kind < kBarrierKinds; ++kind) {
    FusedRanks group(3, 2);
    group.wait_for(kTimeoutNs);
    const uint32_t digest = digest_with(request_of(usual(), 9000, nullptr).digest,
                                        static_cast<uint32_t>(usual().step), 0);
    ptx::write_span(group.buffers(1).memory(), sizeof(FusedBuffers), {});
    for (uint32_t rank = 0; rank < 3; ++rank) {  // what rank 1 has come to
      for (uint32_t before = 0; before < kind; ++before) {
        const bool for_codes = before == static_cast<uint32_t>(BarrierOf::codes);
        for (uint64_t& place : group.buffers(rank).control().flags[before][1]) {
          place = uint64_t{1} << 32 | (for_codes ? digest : 0);
        }
      }
    }
    expect_exit(&group, {kind});
    for (uint32_t rank = 0; rank < 3; ++rank) {
      TooLate late{};
      ASSERT_TRUE(is_too_late(group.buffers(rank).host().leave, &late)) << kind;
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
  const auto inputs = gradients(2, 9000, 3);
  const auto results = make_each(&group, {usual(), usual()}, inputs, {1});
  EXPECT_EQ(difference(results[0], simulate(usual(), inputs)), "");
  EXPECT_EQ(results[1], Values(9000, kUntouched));
}

/** Ranks give up because of one block, which goes on when both have: those whose peers have come
 *  write nothing, either. */
TEST(FusedExit, StuckBlock_NoBlockWrites) {
  FusedRanks group(2, 3);
  group.wait_for(kTimeoutNs);
  HeldBlock held(&group, 2, [&] {
    return group.buffers(0).control().left != 0 && group.buffers(1).control().left != 0;
  });
  const auto results = make_held(&group, usual(), &held);
  EXPECT_TRUE(held.came());
  for (const Values& result : results) EXPECT_EQ(result, Values(20001, kUntouched));
}

/** A kernel of the rank has left: the next one has the same number, and must not be taken for it.
 */
TEST(FusedExit, AfterAnExit_LaterCallsExit) {
  FusedRanks group(1, 2);
  const auto inputs = gradients(1, 9000, 3);
  group.buffers(0).control().left = 1;
  EXPECT_EQ(make_each(&group, {usual()}, inputs, {1})[0], Values(9000, kUntouched));
  EXPECT_EQ(group.buffers(0).control().flags[0][0][0], 0u);
  group.buffers(0).control().left = 0;
  EXPECT_EQ(difference(make_each(&group, {usual()}, inputs, {1})[0], simulate(usual(), inputs)),
            "");
}

/** Rank 1's call is another one: every rank finds it, none writes, and the next call is made. */
void expect_found(const Operation& call, const Operation& other) {
  FusedRanks group(3, 2);
  const auto inputs = gradients(3, 9000, 3);
  const Values expected = simulate(call, inputs);
  for (const uint64_t seed : {1, 2}) {
    const auto results = make_each(&group, {call, other, call}, inputs, {seed});
    for (uint32_t rank = 0; rank < 3; ++rank) {
      EXPECT_EQ(results[rank], Values(9000, kUntouched));
      Disagreement& found = group.buffers(rank).host().found;
      ASSERT_EQ(found.found, 1u);
      EXPECT_EQ(found.rank, 1u);
      EXPECT_EQ(found.reference[kStepWord], call.step);
      EXPECT_EQ(found.differing[kStepWord], other.step);
      EXPECT_EQ(found.differing[kIndexWord], other.index & kIndexMax);
      EXPECT_EQ(found.differing[kStatusWord] != 0, other.index > kIndexMax);
      found.found = 0;
    }
    for (const Values& result : make_each(&group, {call, call, call}, inputs, {seed})) {
      EXPECT_EQ(difference(result, expected), "");
    }
    for (uint32_t rank = 0; rank < 3; ++rank) {
      EXPECT_EQ(group.buffers(rank).host().found.found, 0u);
    }
  }
}

TEST(FusedDifference, Difference_FoundByAllRanks) {
  for (const char* format : {"paper-gl8", "blocks-8", "none"}) {
    Operation later = usual(format), elsewhere = later, refused = later;
    later.step += 1;
    elsewhere.index += 1;
    elsewhere.at_device = true;
    refused.index += 0x10000;
    refused.at_device = true;
    for (const Operation& other : {later, elsewhere, refused}) expect_found(usual(format), other);
  }
}

/** A call that all ranks refuse is one that none makes. */
TEST(FusedDifference, Refusal_FoundByAllRanks) {
  Operation refused = usual();
  refused.index = 0x10000;
  refused.at_device = true;
  FusedRanks group(2, 2);
  for (const Values& result :
       make_each(&group, {refused, refused}, gradients(2, 9000, 3), {1})) {
    EXPECT_EQ(result, Values(9000, kUntouched));
  }
  const Disagreement& found = group.buffers(1).host().found;
  EXPECT_EQ(found.rank, 0u);
  EXPECT_NE(found.differing[kStatusWord], 0u);
}

}  // namespace
}  // namespace gq::test
