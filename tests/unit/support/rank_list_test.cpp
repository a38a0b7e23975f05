// Ranks in a sentence: all of them, or how many more there are.
#include "src/support/rank_list.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <initializer_list>
#include <string>

namespace gq::test {
namespace {

std::string list_of(std::initializer_list<uint32_t> ranks) {
  RankList list;
  for (const uint32_t rank : ranks) list.add(rank);
  EXPECT_EQ(list.count(), ranks.size());
  return list.text();
}

TEST(RankList, NoRank_None) { EXPECT_EQ(list_of({}), "none"); }

TEST(RankList, NeighbouringRanks_Ranges) {
  EXPECT_EQ(list_of({0}), "0");
  EXPECT_EQ(list_of({2, 5}), "2,5");
  EXPECT_EQ(list_of({2, 3}), "2-3");
  EXPECT_EQ(list_of({0, 1, 2, 4, 6, 7, 9}), "0-2,4,6-7,9");
  EXPECT_EQ(list_of({4294967294u, 4294967295u}), "4294967294-4294967295");
}

TEST(RankList, MoreThanHasSpace_FirstOnesAndHowManyMore) {
  for (uint32_t stride = 2; stride < 5; ++stride) {
    for (uint32_t first : {1u, 95u, 99990u, 4000000000u}) {
      for (uint32_t ranks = 1; ranks < 60; ++ranks) {
        RankList list;
        std::string all;
        for (uint32_t i = 0; i < ranks; ++i) {
          list.add(first + i * stride);
          all += (i == 0 ? "" : ",") + std::to_string(first + i * stride);
        }
        const std::string text = list.text();
        ASSERT_LT(text.size(), RankList::kBytes);
        const size_t more = text.find(" and ");
        if (more == std::string::npos) {
          ASSERT_EQ(text, all);
          continue;
        }
        const std::string listed = text.substr(0, more);
        ASSERT_EQ(all.substr(0, more), listed);
        ASSERT_EQ(all[more], ',');
        const auto rest =
            static_cast<uint32_t>(std::count(all.begin() + long(more), all.end(), ','));
        ASSERT_EQ(text.substr(more), " and " + std::to_string(rest) + " more");
      }
    }
  }
}

TEST(RankList, ALongRangeAfterTheSpaceIsUsedUp_IsCounted) {
  RankList list;
  for (uint32_t rank = 0; rank < 100; rank += 2) list.add(rank);
  for (uint32_t rank = 200; rank < 300; ++rank) list.add(rank);
  list.add(302);
  const std::string text = list.text();
  const size_t listed = static_cast<size_t>(
      std::count(text.begin(), text.begin() + long(text.find(" and ")), ',') + 1);
  EXPECT_EQ(text.substr(text.find(" and ")), " and " + std::to_string(151 - listed) + " more");
}

}  // namespace
}  // namespace gq::test
