// Groups of processes that cannot form: every process gets the reason, and nothing is left of the
// attempt.
#include <unistd.h>

#include <cstring>

#include "tests/api/faults/support/call.h"
#include "tests/unit/transport/children.h"

namespace gq::test {
namespace {

gqsgd_unique_id fresh_id() {
  gqsgd_unique_id id{};
  EXPECT_TRUE(is_ok(outcome_of(gqsgd_unique_id_create(&id))));
  return id;
}

/** A process that joins and makes one call; its line is the outcome of whichever failed, or "OK".
 */
Child join(const gqsgd_unique_id& id, int32_t rank, int32_t size,
           const char* options = "timeout_ms=20000") {
  return Child([=] {
    auto comm = reinterpret_cast<gqsgd_comm>(uintptr_t{1});
    const Outcome made = outcome_of(gqsgd_comm_create_process(&id, rank, size, options, &comm));
    if (made.status != GQSGD_OK) return made.text() + (comm != nullptr ? " with a handle" : "");
    const Outcome called = Call(rank).make(comm);
    gqsgd_comm_destroy(comm);
    return called.text();
  });
}

TEST(Creation, MissingRanks_Named) {
  const gqsgd_unique_id id = fresh_id();
  std::vector<Child> ranks;
  for (const int rank : {0, 1, 3}) ranks.push_back(join(id, rank, 5, "timeout_ms=200"));
  for (Child& rank : ranks) EXPECT_TRUE(found(rank.line(), "^TIMEOUT: missing ranks: 2,4;.*time"));
}

TEST(Creation, DifferentSizes_Named) {
  const gqsgd_unique_id id = fresh_id();
  std::vector<Child> ranks;
  for (const int rank : {0, 1, 2}) ranks.push_back(join(id, rank, rank == 1 ? 4 : 3));
  for (Child& rank : ranks) {
    EXPECT_TRUE(found(rank.line(), "^MISMATCH: size: rank 0 = 3, rank 1 = 4"));
  }
}

TEST(Creation, DuplicateRank_Refused_GroupForms) {
  const gqsgd_unique_id id = fresh_id();
  Child rank0 = join(id, 0, 3), rank1 = join(id, 1, 3);
  usleep(100000);
  EXPECT_TRUE(found(join(id, 1, 3).line(), "^DUPLICATE_RANK: rank 1 is taken by process [0-9]+;"));
  EXPECT_TRUE(found(join(id, 0, 3).line(), "^DUPLICATE_RANK: rank 0 is taken"));
  Child rank2 = join(id, 2, 3);
  EXPECT_EQ(rank0.line(), "OK");
  EXPECT_EQ(rank1.line(), "OK");
  EXPECT_EQ(rank2.line(), "OK");
}

TEST(Creation, DeathMeanwhile_Named) {
  const gqsgd_unique_id id = fresh_id();
  Child rank0 = join(id, 0, 4), rank1 = join(id, 1, 4), rank2 = join(id, 2, 4);
  usleep(100000);
  rank1.signal(SIGKILL);
  EXPECT_TRUE(found(rank0.line(), "^PEER_LOST: rank 1 died while the group formed$"));
  EXPECT_TRUE(found(rank2.line(), "^PEER_LOST: rank 1 died while the group formed$"));
}

// Found when the group is there: ranks that are ready learn of it in their first call, and why.
TEST(Creation, OptionThatDoesNotFit_ToldToTheOthers) {
  const gqsgd_unique_id id = fresh_id();
  Child rank0 = join(id, 0, 2), rank1 = join(id, 1, 2, "timeout_ms=20000,nodes=0");
  EXPECT_TRUE(found(rank1.line(), "^INVALID_ARGUMENT: option nodes has 1 numbers"));
  EXPECT_TRUE(found(rank0.line(), "^REMOTE_ERROR:.* rank 1 broke off with INVALID_ARGUMENT"));
}

// No rank waits for one that has been refused.
TEST(Creation, OptionRefusedOnOneRank_ToldToAll) {
  for (const int culprit : {0, 1}) {
    const gqsgd_unique_id id = fresh_id();
    const auto options = [&](int rank) { return rank == culprit ? "bogus=1" : ""; };
    Child ranks[] = {join(id, 0, 2, options(0)), join(id, 1, 2, options(1))};
    EXPECT_TRUE(found(ranks[culprit].line(), "^INVALID_ARGUMENT: .*bogus"));
    EXPECT_TRUE(found(ranks[1 - culprit].line(),
                      "^REMOTE_ERROR: rank " + std::to_string(culprit) + " could not join"));
  }
}

TEST(Creation, UnknownId_Refused) {
  gqsgd_unique_id id;
  std::memset(&id, 0x5a, sizeof id);
  EXPECT_TRUE(found(join(id, 0, 2).line(), "^INVALID_ARGUMENT: unique_id does not hold an id"));
  gqsgd_comm comm = nullptr;
  EXPECT_TRUE(is(outcome_of(gqsgd_comm_create_process(nullptr, 0, 2, "", &comm)),
                 GQSGD_INVALID_ARGUMENT, "unique_id is NULL"));
  EXPECT_TRUE(is(outcome_of(gqsgd_comm_create_process(&id, 0, 2, "", nullptr)),
                 GQSGD_INVALID_ARGUMENT, "comm is NULL"));
  EXPECT_TRUE(is(outcome_of(gqsgd_unique_id_create(nullptr)), GQSGD_INVALID_ARGUMENT, "NULL"));
}

}  // namespace
}  // namespace gq::test
