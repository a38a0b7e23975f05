// What comes before what: streams without synchronization race, those ordered by events, hosts or
// flags do not.
#include "tests/gpu/ptx/order.h"

#include <gtest/gtest.h>

#include <functional>
#include <thread>

#include "tests/gpu/ptx/finding.h"

namespace gq::ptx {
namespace {

/** Streams are threads: each piece of work runs on one of its own. */
void on_a_stream(const std::function<void()>& work) { std::thread(work).join(); }

void access(AreaOrder* area, bool writes) {
  const Actor actor = begin_operation();
  area->touch(8, 4, writes, actor);
  end_operation(actor.stamp, actor.before);
}

std::string finding(const std::function<void()>& work) {
  std::string found;
  on_a_stream([&] {
    try {
      work();
    } catch (const Finding& finding) {
      found = finding.what();
    }
  });
  return found;
}

TEST(Order, UnorderedStreams_Race) {
  for (const bool first_writes : {false, true}) {
    for (const bool then_writes : {false, true}) {
      AreaOrder area(64);
      on_a_stream([&] { access(&area, first_writes); });
      const bool races = !finding([&] { access(&area, then_writes); }).empty();
      EXPECT_EQ(races, first_writes || then_writes);
    }
  }
}

TEST(Order, OneStream_InOrder) {
  AreaOrder area(64);
  EXPECT_EQ(finding([&] {
              access(&area, true);
              access(&area, true);
            }),
            "");
}

TEST(Order, NeighbouringBytes_Independent) {
  AreaOrder area(64);
  on_a_stream([&] { access(&area, true); });
  EXPECT_EQ(finding([&] { area.touch(12, 16, true, begin_operation()); }), "");
  EXPECT_NE(finding([&] { area.touch(0, 16, false, begin_operation()); }), "");
}

TEST(Order, Events_OrderStreams) {
  AreaOrder area(64);
  Mark before, after;
  on_a_stream([&] {
    before.record();
    access(&area, true);
    after.record();
  });
  EXPECT_NE(finding([&] {
              before.wait();
              access(&area, false);
            }),
            "");
  EXPECT_EQ(finding([&] {
              after.wait();
              access(&area, false);
            }),
            "");
}

TEST(Order, HostsThatHaveWaited_OrderStreams) {
  AreaOrder area(64);
  Mark end;
  on_a_stream([&] {
    access(&area, true);
    end.record();
  });
  const Clock early = hosts_now();
  end.order_hosts_after();
  const Clock late = hosts_now();
  EXPECT_NE(finding([&] {
              follow_hosts(early);
              access(&area, true);
            }),
            "");
  EXPECT_EQ(finding([&] {
              follow_hosts(late);
              access(&area, true);
            }),
            "");
}

/** Blocks of two kernels that run at the same time. */
TEST(Order, FlagsInMemory_OrderBlocks) {
  constexpr uint64_t kWord = 4096, kOther = 8192;
  Actor teller, hearer;
  on_a_stream([&] { teller = begin_operation(); });
  on_a_stream([&] { hearer = begin_operation(); });
  AreaOrder told(64), later(64);
  told.touch(0, 4, true, teller);
  release(kWord, &teller);
  later.touch(0, 4, true, teller);
  acquire(kOther, &hearer);
  EXPECT_THROW(told.touch(0, 4, false, hearer), Finding);
  acquire(kWord, &hearer);
  EXPECT_NO_THROW(told.touch(0, 4, false, hearer));
  EXPECT_THROW(later.touch(0, 4, false, hearer), Finding);
}

TEST(Order, PolledFlag_OrdersBehindTheFence) {
  constexpr uint64_t kWord = 12288;
  Actor teller, hearer;
  on_a_stream([&] { teller = begin_operation(); });
  on_a_stream([&] { hearer = begin_operation(); });
  AreaOrder told(64);
  told.touch(0, 4, true, teller);
  release(kWord, &teller);
  poll(kWord, &hearer);
  EXPECT_THROW(told.touch(0, 4, false, hearer), Finding);
  fence(&hearer);
  EXPECT_NO_THROW(told.touch(0, 4, false, hearer));
}

TEST(Order, BlocksOfAKernel_NotInOrder) {
  AreaOrder area(64);
  Actor first;
  on_a_stream([&] { first = begin_operation(); });
  Actor second = first;
  second.stamp.block = 1;
  area.touch(0, 4, true, first);
  EXPECT_NO_THROW(area.touch(0, 4, false, first));
  EXPECT_THROW(area.touch(0, 4, false, second), Finding);
}

}  // namespace
}  // namespace gq::ptx
