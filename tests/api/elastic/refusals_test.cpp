// Reconfigurations that cannot be: each failure has its status and sentence, and where ranks have
// met it is the same on all. The old communicators stay usable.
#include <gqsgd_elastic.h>
#include <gqsgd_model.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "tests/api/faults/support/call.h"
#include "tests/api/faults/support/call_until_failure.h"
#include "tests/support/socket_group.h"

namespace gq::test {
namespace {

/** What one thread passes to gqsgd_comm_reconfigure. */
struct Arguments {
  gqsgd_comm comm = nullptr;
  std::vector<int32_t> members;
  int32_t rank = 0;
  int32_t size = 0;
  std::string options = "timeout_ms=20000";
  useconds_t pause_us = 0;  ///< before
};

struct Reconfigured {
  std::vector<Outcome> outcomes;
  std::vector<gqsgd_comm> comms;

  ~Reconfigured() {
    for (gqsgd_comm comm : comms) gqsgd_comm_destroy(comm);
  }
};

/** Threads with one id. */
void reconfigure(const std::vector<Arguments>& all, Reconfigured* found) {
  gqsgd_unique_id id;
  ASSERT_TRUE(is_ok(outcome_of(gqsgd_local_id_create(&id))));
  found->outcomes.resize(all.size());
  found->comms.resize(all.size());
  std::vector<std::thread> threads;
  for (size_t k = 0; k < all.size(); ++k) {
    threads.emplace_back([&, k] {
      const Arguments& own = all[k];
      usleep(own.pause_us);
      found->outcomes[k] =
          outcome_of(gqsgd_comm_reconfigure(own.comm, &id, own.members.data(), own.rank, own.size,
                                            own.options.c_str(), &found->comms[k]));
    });
  }
  for (std::thread& thread : threads) thread.join();
}

/** Ranks 0 and 1 of `group`, and a newcomer between them, until a test changes that. */
std::vector<Arguments> three_of(const Group& group) {
  const std::vector<int32_t> members = {0, -1, 1};
  return {{group.comm(0), members, 0, 3}, {nullptr, members, 1, 3}, {group.comm(1), members, 2, 3}};
}

void expect_all(const std::vector<Arguments>& all, gqsgd_status status, const char* pattern) {
  Reconfigured found;
  reconfigure(all, &found);
  for (const Outcome& outcome : found.outcomes) EXPECT_TRUE(is(outcome, status, pattern));
  for (gqsgd_comm comm : found.comms) EXPECT_EQ(comm, nullptr);
}

TEST(ReconfigureRefused, MembersThatSayOtherwise_MismatchOnAll) {
  const Group group(2);
  std::vector<Arguments> wrong = three_of(group);
  wrong[2].members = {1, -1, 1};
  expect_all(
      wrong, GQSGD_MISMATCH,
      "members\\[0\\] is rank 1 on rank 2 of the new group, but rank 0 was rank 0 of the old");
  wrong = three_of(group);
  wrong[0].members = {0, 0, 1};
  expect_all(wrong, GQSGD_MISMATCH, "members\\[1\\] is rank 0 on rank 0 .* was a newcomer .-1.");
  wrong = three_of(group);
  wrong[1].comm = wrong[2].comm;  // a rank that is there twice
  expect_all(wrong, GQSGD_MISMATCH, "members\\[1\\] is a newcomer .-1. on rank 0 .* was rank 1");
  EXPECT_TRUE(const_cast<Group&>(group).still_works());
}

TEST(ReconfigureRefused, SurvivorsThatDiffer_MismatchOnAll) {
  const Group group(2), other(2);
  std::vector<Arguments> wrong = three_of(group);
  wrong[2].comm = other.comm(1);
  expect_all(wrong, GQSGD_MISMATCH, "the old group differs: rank 0 of the new group has .* rank 2");
  EXPECT_TRUE(const_cast<Group&>(group).still_works());
}

TEST(ReconfigureRefused, Arguments_NamedAtOnce) {
  const Group group(2);
  gqsgd_unique_id id = {};
  gqsgd_comm next = nullptr;
  const int32_t members[] = {0, 1}, none[] = {-1, -1}, wrong[] = {0, -2};
  const auto call = [&](const gqsgd_unique_id* name, const int32_t* list, int32_t rank,
                        const char* options, gqsgd_comm* out) {
    return outcome_of(gqsgd_comm_reconfigure(group.comm(0), name, list, rank, 2, options, out));
  };
  EXPECT_TRUE(is(call(&id, members, 0, "", nullptr), GQSGD_INVALID_ARGUMENT, "new_comm is NULL"));
  EXPECT_TRUE(
      is(call(nullptr, members, 0, "", &next), GQSGD_INVALID_ARGUMENT, "unique_id is NULL"));
  EXPECT_TRUE(is(call(&id, nullptr, 0, "", &next), GQSGD_INVALID_ARGUMENT, "members is NULL"));
  EXPECT_TRUE(is(call(&id, members, 2, "", &next), GQSGD_INVALID_ARGUMENT, "rank"));
  EXPECT_TRUE(is(call(&id, wrong, 0, "", &next), GQSGD_INVALID_ARGUMENT, "members.1. is -2"));
  EXPECT_TRUE(is(call(&id, none, 0, "", &next), GQSGD_INVALID_ARGUMENT, "nothing to continue"));
  EXPECT_TRUE(is(call(&id, members, 0, "", &next), GQSGD_INVALID_ARGUMENT, "does not hold an id"));
  for (const char* option : {"stream_id", "costs", "uncompressed"}) {
    const std::string given = std::string(option) + (option[0] == 's'   ? "=1"
                                                     : option[0] == 'c' ? "=builtin"
                                                                        : "=never");
    EXPECT_TRUE(is(call(&id, members, 0, given.c_str(), &next), GQSGD_INVALID_ARGUMENT,
                   std::string("option ") + option + " is the survivors'"));
  }
  EXPECT_TRUE(is(outcome_of(gqsgd_local_id_create(nullptr)), GQSGD_INVALID_ARGUMENT));
  gqsgd_comm stale = group.comm(1);
  {
    gqsgd_comm one = nullptr;
    ASSERT_EQ(gqsgd_comm_create_local(1, "", &one), GQSGD_OK);
    stale = one;
    gqsgd_comm_destroy(one);
  }
  EXPECT_TRUE(is(outcome_of(gqsgd_comm_reconfigure(stale, &id, members, 0, 2, "", &next)),
                 GQSGD_BAD_HANDLE));
  EXPECT_EQ(next, nullptr);
}

TEST(ReconfigureRefused, OptionOfOneRank_ToldToAll) {
  const Group group(2);
  for (const useconds_t pause_us : {0, 200000}) {  // the others are there, or come later
    std::vector<Arguments> all = three_of(group);
    all[2].options = "speed=high";
    if (pause_us == 0) all[2].pause_us = 200000;
    for (size_t k : {0, 1}) all[k].pause_us = pause_us;
    Reconfigured found;
    const uint64_t begin_us = now_us();
    reconfigure(all, &found);
    EXPECT_LT(now_us() - begin_us, 10000000u) << "the timeout is 20 seconds";
    EXPECT_TRUE(is(found.outcomes[2], GQSGD_INVALID_ARGUMENT, "speed"));
    for (size_t k : {0, 1}) {
      EXPECT_TRUE(is(found.outcomes[k], GQSGD_REMOTE_ERROR, "rank 2 could not join: INVALID_ARG"));
    }
  }
}

TEST(ReconfigureRefused, CustomTransport_Unsupported) {
  const std::vector<gqsgd_comm> comms = custom_comms(socket_tables(2), "");
  gqsgd_unique_id id;
  ASSERT_EQ(gqsgd_local_id_create(&id), GQSGD_OK);
  const int32_t members[] = {0, 1};
  gqsgd_comm next = nullptr;
  EXPECT_TRUE(is(outcome_of(gqsgd_comm_reconfigure(comms[0], &id, members, 0, 2, "", &next)),
                 GQSGD_UNSUPPORTED, "hint: make a communicator .*gqsgd_comm_set_counter"));
  for (gqsgd_comm comm : comms) gqsgd_comm_destroy(comm);
}

TEST(ReconfigureRefused, MembersThatDoNotCome_TimeoutNamesThemOnAll) {
  const Group group(2);
  std::vector<Arguments> all = three_of(group);
  for (Arguments& own : all) own.options = "timeout_ms=300";
  all.erase(all.begin() + 1);
  expect_all(all, GQSGD_TIMEOUT, "missing ranks: [0-9,]*1");
  EXPECT_TRUE(const_cast<Group&>(group).still_works());
}

TEST(ReconfigureRefused, ThreadsOfAnotherSize_MismatchOnAll) {
  const Group group(2);
  std::vector<Arguments> all = three_of(group);
  all[2] = {group.comm(1), {0, 1}, 1, 2};
  all.erase(all.begin() + 1);
  expect_all(all, GQSGD_MISMATCH, "size: rank . joins a group of . ranks, and another of");
}

TEST(ReconfigureRefused, TwoThreadsWithOneRank_TheSecondAlone) {
  const Group group(2);
  gqsgd_unique_id id;
  ASSERT_EQ(gqsgd_local_id_create(&id), GQSGD_OK);
  const int32_t members[] = {0, -1, 1};
  std::vector<Outcome> outcomes(4);
  std::vector<gqsgd_comm> next(4);
  std::atomic<int> ended{0};
  const auto join = [&](size_t k, gqsgd_comm comm, int32_t rank) {
    outcomes[k] = outcome_of(
        gqsgd_comm_reconfigure(comm, &id, members, rank, 3, "timeout_ms=60000", &next[k]));
    ended += 1;
  };
  std::vector<std::thread> threads;
  for (size_t k : {2, 3}) threads.emplace_back(join, k, nullptr, 1);
  while (ended == 0) std::this_thread::yield();  // the second has been refused
  for (size_t k : {0, 1}) {
    threads.emplace_back(join, k, group.comm(static_cast<int>(k)), static_cast<int32_t>(2 * k));
  }
  for (std::thread& thread : threads) thread.join();
  const size_t second = outcomes[2].status == GQSGD_OK ? 3 : 2;
  for (size_t k = 0; k < 4; ++k) {
    if (k != second) {
      EXPECT_TRUE(is_ok(outcomes[k])) << k;
    }
    gqsgd_comm_destroy(next[k]);
  }
  EXPECT_TRUE(is(outcomes[second], GQSGD_DUPLICATE_RANK, "rank 1 of the group of threads"));
}

/** Survivors whose counters differ, as after a death in the middle of a call. */
TEST(ReconfigureState, CountersThatDiffer_TheLargestContinues) {
  const Group group(2);
  ASSERT_EQ(gqsgd_comm_set_counter(group.comm(0), 40), GQSGD_OK);
  ASSERT_EQ(gqsgd_comm_set_counter(group.comm(1), UINT32_MAX), GQSGD_OK);
  Reconfigured found;
  reconfigure(three_of(group), &found);
  for (size_t rank = 0; rank < 3; ++rank) {
    ASSERT_TRUE(is_ok(found.outcomes[rank]));
    uint64_t step = 0;
    gqsgd_comm_counter(found.comms[rank], &step);
    EXPECT_EQ(step, UINT32_MAX);
  }
}

std::string costs_of(gqsgd_comm comm) {
  std::string costs(16384, '\0');
  size_t size_bytes = 0;
  gqsgd_comm_costs(comm, costs.data(), costs.size(), &size_bytes);
  return costs.substr(0, size_bytes - 1);
}

TEST(ReconfigureState, CostsOfSurvivors_OnAllRanks) {
  const Group group(2, "costs=latency_ns=1234.5;cpus=3,uncompressed=never");
  ASSERT_NE(costs_of(group.comm(0)), "");
  Reconfigured found;
  reconfigure(three_of(group), &found);
  for (size_t rank = 0; rank < 3; ++rank) {
    ASSERT_TRUE(is_ok(found.outcomes[rank]));
    EXPECT_EQ(costs_of(found.comms[rank]), costs_of(group.comm(0)));
  }
}

TEST(ReconfigureState, TimeoutOfSurvivors_KeptUnlessGiven) {
  const Group group(2, "timeout_ms=12345");
  std::vector<Arguments> all = three_of(group);
  all[0].options = "";
  all[2].options = "timeout_ms=20001";
  Reconfigured found;
  reconfigure(all, &found);
  int64_t first_ms = 0, last_ms = 0;
  ASSERT_TRUE(is_ok(found.outcomes[0]));
  gqsgd_comm_timeout(found.comms[0], &first_ms);
  gqsgd_comm_timeout(found.comms[2], &last_ms);
  EXPECT_EQ(first_ms, 12345);
  EXPECT_EQ(last_ms, 20001);
}

}  // namespace
}  // namespace gq::test
