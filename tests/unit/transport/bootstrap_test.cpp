// Groups that form late, wrongly or not at all.
#include "src/transport/bootstrap/bootstrap.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include <thread>

#include "src/support/clock.h"
#include "tests/support/shared_memory.h"
#include "tests/unit/transport/bootstrap_client.h"
#include "tests/unit/transport/process_group.h"

namespace gq::test {
namespace {

TEST(Bootstrap, Ids_Fresh_GarbageRefused) {
  const gqsgd_unique_id first = fresh_id(), second = fresh_id();
  EXPECT_NE(memcmp(read_id(first).name, read_id(second).name, sizeof UniqueId{}.name), 0);
  EXPECT_NE(memcmp(read_id(first).secret, read_id(second).secret, sizeof UniqueId{}.secret), 0);
  const gqsgd_unique_id zeros{};
  std::unique_ptr<HostTransport> transport;
  EXPECT_EQ(create_process(zeros, 0, 2, 0, &transport).code(), GQSGD_INVALID_ARGUMENT);
  gqsgd_unique_id later = first;
  later.bytes[4] += 1;
  EXPECT_EQ(create_process(later, 0, 2, 0, &transport).code(), GQSGD_VERSION);
  EXPECT_EQ(create_process(first, 2, 2, 0, &transport).code(), GQSGD_INVALID_ARGUMENT);
  EXPECT_EQ(create_process(first, 0, 0, 0, &transport).code(), GQSGD_INVALID_ARGUMENT);
  EXPECT_EQ(create_process(first, 0, 5000, 0, &transport).code(), GQSGD_INVALID_ARGUMENT);
}

TEST(Bootstrap, Ranks_ComeInAnyOrder) {
  const gqsgd_unique_id id = fresh_id();
  std::vector<Child> ranks;
  for (const uint32_t rank : {3u, 1u, 2u, 0u}) {
    ranks.push_back(join(id, rank, 4, kExchange));
    usleep(20000);
  }
  EXPECT_EQ(lines_of(ranks), std::vector<std::string>(4, "OK"));
}

// More than the root takes as pending clients at once, and more than one packet of descriptors.
TEST(Bootstrap, ManyRanks_Join) {
  constexpr uint32_t kRanks = 130;
  const gqsgd_unique_id id = fresh_id();
  std::vector<Child> ranks;
  ranks.push_back(join(id, 0, kRanks, kJustJoin));
  connect_to_root(id);  // rank 0 listens
  ranks[0].signal(SIGSTOP);
  for (uint32_t rank = 1; rank < kRanks; ++rank) {
    ranks.push_back(join(id, rank, kRanks, kJustJoin));
  }
  usleep(500000);  // all of them queue up
  ranks[0].signal(SIGCONT);
  EXPECT_EQ(lines_of(ranks), std::vector<std::string>(kRanks, "joined"));
}

/** Forks a child that lives on, and then waits to be killed. */
std::string leave_child_behind(pid_t* child, Signal* forked) {
  if (fork() == 0) {
    *child = getpid();
    forked->send();
    alarm(60);
  }
  for (;;) pause();
}

TEST(Bootstrap, DeadRankWithChild_SeenWhileTheGroupForms) {
  const gqsgd_unique_id id = fresh_id();
  Child rank0 = join(id, 0, 3, kJustJoin);
  Signal forked;
  SharedArray<pid_t> child(1);
  Child rank1([&] {
    const ForkGuard socket = join_as_client(id, 1, 3);
    return leave_child_behind(&child[0], &forked);
  });
  ASSERT_TRUE(forked.wait());
  rank1.signal(SIGKILL);
  EXPECT_EQ(rank0.line(), "PEER_LOST: rank 1 died while the group formed");
  EXPECT_EQ(kill(child[0], SIGKILL), 0) << "it should have lived on";
}

TEST(Bootstrap, DeadRootWithChild_LeavesNoName) {
  const gqsgd_unique_id id = fresh_id();
  Signal forked;
  SharedArray<pid_t> child(1);
  Child rank0([&] {
    std::thread([&] {
      std::unique_ptr<HostTransport> transport;
      (void)create_process(id, 0, 2, kTimeoutMs, &transport);
    }).detach();
    connect_to_root(id).close_now();  // it listens
    return leave_child_behind(&child[0], &forked);
  });
  ASSERT_TRUE(forked.wait());
  EXPECT_NE(names_left(id), 0u);
  rank0.signal(SIGKILL);
  EXPECT_EQ(rank0.line(), "killed by signal 9");
  EXPECT_EQ(names_left(id), 0u) << "a child has the listener";
  EXPECT_EQ(kill(child[0], SIGKILL), 0) << "it should have lived on";
}

TEST(Bootstrap, ChildOfRootAndRank_HasNoSocketAndNoMemory) {
  const gqsgd_unique_id id = fresh_id();
  const auto held = [] {
    return std::to_string(descriptors_of("socket:")) + " sockets, " +
           std::to_string(descriptors_of("memfd:gqsgd")) + " files";
  };
  Child both([&] {
    std::thread([&] {
      std::unique_ptr<HostTransport> transport;
      (void)create_process(id, 0, 3, kTimeoutMs, &transport);
    }).detach();
    const ForkGuard rank1 = join_as_client(id, 1, 3);
    constexpr size_t kSockets = 3;  // the listener and two ends of a connection
    for (int looks = 0; descriptors_of("socket:") < kSockets && looks < 5000; ++looks) usleep(1000);
    const std::string here = held();
    return here + " | " + Child(held).line();
  });
  EXPECT_EQ(both.line(), "3 sockets, 3 files | 0 sockets, 0 files");
}

TEST(Bootstrap, MissingRanks_NamedToAllInTime) {
  const gqsgd_unique_id id = fresh_id();
  const uint64_t begin_us = monotonic_us();
  std::vector<Child> ranks;
  for (const uint32_t rank : {0u, 1u, 3u, 4u}) ranks.push_back(join(id, rank, 6, kJustJoin, 1000));
  for (const std::string& line : lines_of(ranks)) {
    EXPECT_TRUE(contains(line, "TIMEOUT: missing ranks: 2,5; 2 of 6")) << line;
  }
  const uint64_t waited_ms = (monotonic_us() - begin_us) / 1000;
  EXPECT_GE(waited_ms, 1000u);
  EXPECT_LT(waited_ms, 3000u) << "1 s and the scheduler";
  EXPECT_EQ(names_left(id), 0u);
}

TEST(Bootstrap, JoinerWithTheShortestTimeout_EndsItForAll) {
  const gqsgd_unique_id id = fresh_id();
  std::vector<Child> ranks;
  ranks.push_back(join(id, 0, 3, kJustJoin));
  ranks.push_back(join(id, 1, 3, kJustJoin, 200));
  for (const std::string& line : lines_of(ranks)) {
    EXPECT_TRUE(contains(line, "TIMEOUT: missing ranks: 2;")) << line;
  }
}

TEST(Bootstrap, MissingRankZero_Named) {
  Child rank = join(fresh_id(), 1, 2, kJustJoin, 100);
  const std::string line = rank.line();
  EXPECT_TRUE(contains(line, "TIMEOUT: rank 1: missing ranks: 0")) << line;
}

TEST(Bootstrap, Timeout_SaysThatAGroupIsForOneMachine) {
  const std::string hint = "a process group is for one machine and one network namespace";
  Child rank0 = join(fresh_id(), 0, 2, kJustJoin, 100),
        rank1 = join(fresh_id(), 1, 2, kJustJoin, 100);
  for (const std::string& line : {rank0.line(), rank1.line()}) {
    EXPECT_TRUE(contains(line, "TIMEOUT: ")) << line;
    EXPECT_TRUE(contains(line, hint)) << line;
  }
}

TEST(Bootstrap, ManyMissingRanks_OneCompleteSentence) {
  const std::string line = join(fresh_id(), 0, 300, kJustJoin, 100).line();
  EXPECT_EQ(line,
            "TIMEOUT: missing ranks: 1-299; 299 of 300 did not come in the time allowed; a "
            "process group is for one machine and one network namespace");
}

TEST(Bootstrap, SizesThatDiffer_ReportedToAllRanks) {
  const gqsgd_unique_id id = fresh_id();
  std::vector<Child> ranks;
  for (uint32_t rank = 0; rank < 4; ++rank) {
    ranks.push_back(join(id, rank, rank == 3 ? 5 : 4, kJustJoin));
  }
  for (const std::string& line : lines_of(ranks)) {
    EXPECT_TRUE(contains(line, "MISMATCH: size: rank 0 = 4, rank 3 = 5")) << line;
  }
}

TEST(Bootstrap, LateDuplicate_Refused_OthersContinue) {
  const gqsgd_unique_id id = fresh_id();
  std::vector<Child> ranks;
  ranks.push_back(join(id, 0, 3, kExchange));
  ranks.push_back(join(id, 1, 3, kExchange));
  usleep(100000);
  Child second_1 = join(id, 1, 3, kJustJoin);
  const std::string refused = second_1.line();
  EXPECT_TRUE(contains(refused, "DUPLICATE_RANK: rank 1 is taken by process ")) << refused;
  Child second_0 = join(id, 0, 3, kJustJoin);
  const std::string refused_0 = second_0.line();
  EXPECT_TRUE(contains(refused_0, "DUPLICATE_RANK: rank 0 is taken")) << refused_0;
  ranks.push_back(join(id, 2, 3, kExchange));
  EXPECT_EQ(lines_of(ranks), std::vector<std::string>(3, "OK"));
}

TEST(Bootstrap, WrongSecret_Refused_OthersContinue) {
  const gqsgd_unique_id id = fresh_id();
  gqsgd_unique_id wrong = id;
  wrong.bytes[offsetof(UniqueId, secret) + 31] ^= 1;
  Child rank0 = join(id, 0, 2, kExchange);
  Child intruder = join(wrong, 1, 2, kJustJoin);
  const std::string refused = intruder.line();
  EXPECT_TRUE(contains(refused, "INVALID_ARGUMENT: the secret in unique_id")) << refused;
  Child rank1 = join(id, 1, 2, kExchange);
  EXPECT_EQ(rank0.line(), "OK");
  EXPECT_EQ(rank1.line(), "OK");
}

TEST(Bootstrap, RankKilledWhileTheGroupForms_Named) {
  const gqsgd_unique_id id = fresh_id();
  Child rank0 = join(id, 0, 4, kJustJoin), rank1 = join(id, 1, 4, kJustJoin);
  Child rank2 = join(id, 2, 4, kJustJoin);
  usleep(150000);
  rank2.signal(SIGKILL);
  for (const std::string& line : {rank0.line(), rank1.line()}) {
    EXPECT_TRUE(contains(line, "PEER_LOST: rank 2 died while the group formed")) << line;
  }
}

TEST(Bootstrap, RootKilledWhileTheGroupForms_Named) {
  const gqsgd_unique_id id = fresh_id();
  Child rank0 = join(id, 0, 3, kJustJoin), rank1 = join(id, 1, 3, kJustJoin);
  usleep(150000);
  rank0.signal(SIGKILL);
  const std::string line = rank1.line();
  EXPECT_TRUE(contains(line, "PEER_LOST: rank 1: rank 0 has died")) << line;
}

// At some point between connecting and the end of the bootstrap.
TEST(Bootstrap, DeathAtAnyMoment_EndsInAStatus) {
  for (useconds_t delay_us = 0; delay_us < 6000; delay_us += 150) {
    const gqsgd_unique_id id = fresh_id();
    Child rank0 = join(id, 0, 3, kExchange, 500), rank1 = join(id, 1, 3, kExchange, 500);
    Child rank2 = join(id, 2, 3, kExchange, 500);
    usleep(delay_us);
    const bool kills_root = delay_us % 300 == 0;
    (kills_root ? rank0 : rank2).signal(SIGKILL);
    for (const std::string& line : {kills_root ? rank2.line() : rank0.line(), rank1.line()}) {
      EXPECT_TRUE(line == "OK" || contains(line, "PEER_LOST: ") || contains(line, "TIMEOUT: "))
          << "killed after " << delay_us << " us: " << line;
    }
  }
}

}  // namespace
}  // namespace gq::test
