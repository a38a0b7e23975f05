// Agreements step by step, of courses that seeds seldom have: a member has given up its end of a
// group that others may still decide for; ranks differ in what they wait for.
#include <gtest/gtest.h>

#include <vector>

#include "src/survivors/membership.h"

namespace gq {
namespace {

constexpr uint64_t kLookUs = 5000;

/** How long a rank waits. */
struct Limits {
  uint64_t patience_us = 300000;
  uint64_t silence_us = 100000;
};

/** Ranks of which those that are connected see each other's newest register. */
class Ranks {
 public:
  explicit Ranks(const std::vector<Limits>& limits) {
    const auto size = static_cast<uint32_t>(limits.size());
    for (uint32_t rank = 0; rank < size; ++rank) {
      const auto& [patience_us, silence_us] = limits[rank];
      ranks_.emplace_back(MembershipOptions{rank, size, patience_us, silence_us}, CallReport(),
                          now_us_);
    }
  }

  /** No rank runs for so long. */
  void stop_all(uint64_t time_us) { now_us_ += time_us; }
  uint64_t now_us() const { return now_us_; }

  Membership& operator[](uint32_t rank) { return ranks_[rank]; }
  const Register& own(uint32_t rank) const { return ranks_[rank].own(); }

  /** These ranks take turns, in this order, until it is enough. */
  template <typename Enough>
  ::testing::AssertionResult run(const std::vector<uint32_t>& connected, Enough enough) {
    for (int turn = 0; turn < 1000; ++turn, now_us_ += kLookUs) {
      for (const uint32_t rank : connected) {
        act(rank, connected);
        if (enough()) return ::testing::AssertionSuccess();
      }
    }
    return ::testing::AssertionFailure() << "it never comes to that";
  }

 private:
  void act(uint32_t rank, const std::vector<uint32_t>& connected) {
    Membership& own = ranks_[rank];
    for (const uint32_t peer : connected) {
      if (peer != rank) own.see(peer, ranks_[peer].own(), now_us_);
    }
    for (uint64_t version = 0; version != own.version();) {
      version = own.version();
      if (own.needs_offer()) own.set_offer(fresh_name());
      own.advance(now_us_);
    }
    if (own.to_form() != 0 && all_have_begun(own.to_form(), own.forming().members)) {
      own.end_forming(own.to_form(), true);
    }
  }

  bool all_have_begun(Ballot attempt, const RankSet& members) const {
    for (uint32_t rank = 0; rank < ranks_.size(); ++rank) {
      if (members.has(rank) && own(rank).begun != attempt) return false;
    }
    return true;
  }

  GroupName fresh_name() {
    GroupName name;
    name.bytes[0] = ++names_;
    return name;
  }

  std::vector<Membership> ranks_;
  uint64_t now_us_ = 1000000;
  unsigned char names_ = 0;
};

RankSet set_of(std::initializer_list<uint32_t> ranks) {
  RankSet set;
  for (const uint32_t rank : ranks) set.add(rank);
  return set;
}

/** Rank 0 alone has accepted a group of all, of which rank 1 has given up its end for one without
 *  rank 0; then ranks 0 and 2 decide for the first one. */
void decide_without_end_of_1(Ranks* ranks) {
  ASSERT_TRUE(ranks->run({1, 2, 0}, [&] { return ranks->own(0).accepted_ballot != 0; }));
  ASSERT_EQ(ranks->own(0).accepted.members, set_of({0, 1, 2}));
  ASSERT_TRUE(ranks->run({2, 1}, [&] { return ranks->own(1).stage == LeadStage::form; }));
  ASSERT_NE(ranks->own(1).formed, ranks->own(0).accepted.attempt);
  ASSERT_TRUE(ranks->run({2, 0}, [&] { return ranks->own(0).decided == 1; }));
  ASSERT_EQ((*ranks)[0].outcome(), Membership::Outcome::decided);
  ASSERT_EQ(ranks->own(2).decided, 0u);
}

TEST(DroppedEnds, GroupDecidedWithoutOneEnd_LaterLeaderDecidesForNoOther) {
  Ranks ranks(std::vector<Limits>(3));
  decide_without_end_of_1(&ranks);
  ASSERT_TRUE(ranks.run({2, 1}, [&] {
    return ranks[1].outcome() != Membership::Outcome::undecided &&
           ranks[2].outcome() != Membership::Outcome::undecided;
  }));
  EXPECT_EQ(ranks[2].outcome(), Membership::Outcome::decided);
  EXPECT_EQ(ranks[2].decision(), ranks[0].decision());
  EXPECT_EQ(ranks[1].outcome(), Membership::Outcome::left_out);
}

TEST(DroppedEnds, RankThatFormsAnotherLearnsOfTheDecision_FormsItNoMore) {
  Ranks ranks(std::vector<Limits>(3));
  decide_without_end_of_1(&ranks);
  EXPECT_NE(ranks[1].to_form(), 0u);
  ASSERT_TRUE(ranks.run({0, 1}, [&] { return ranks.own(1).decided != 0; }));
  EXPECT_EQ(ranks[1].to_form(), 0u);
  EXPECT_EQ(ranks[1].outcome(), Membership::Outcome::left_out);
}

/** The others would wait less for rank 3 than it would wait for them. Rank 4 does not come. */
TEST(Silence, RankWithALongerTimeout_NotTakenForSilent) {
  const Limits shorter{200000, 50000}, longer{20000000, 1000000};
  Ranks ranks({shorter, shorter, shorter, longer, shorter});
  ASSERT_TRUE(ranks.run({0, 1, 2, 3}, [&] {
    return ranks[3].outcome() != Membership::Outcome::undecided;
  }));
  EXPECT_EQ(ranks[3].outcome(), Membership::Outcome::decided);
  EXPECT_EQ(ranks[3].decision().members, set_of({0, 1, 2, 3}));
}

/** Rank 2 does not come, and the whole job is suspended while the others wait for it. */
TEST(Patience, AllAreStoppedForLong_MajorityGoesOn) {
  for (const uint64_t waited_us : {20000, 290000, 320000, 390000}) {
    Ranks ranks(std::vector<Limits>(3));
    const uint64_t begin_us = ranks.now_us();
    ASSERT_TRUE(ranks.run({0, 1}, [&] { return ranks.now_us() >= begin_us + waited_us; }));
    ranks.stop_all(3600000000);
    ASSERT_TRUE(ranks.run({0, 1}, [&] {
      return ranks[1].outcome() != Membership::Outcome::undecided;
    }));
    EXPECT_EQ(ranks[1].outcome(), Membership::Outcome::decided) << waited_us << " us";
    EXPECT_EQ(ranks[1].decision().members, set_of({0, 1})) << waited_us << " us";
  }
}

}  // namespace
}  // namespace gq
