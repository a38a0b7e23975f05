// Groups that shrink without a coordinator: who goes on, with which bits, and who is left out.
#include <gqsgd_elastic.h>
#include <gqsgd_model.h>
#include <gqsgd_network.h>
#include <unistd.h>

#include <thread>

#include "tests/api/faults/support/call.h"
#include "tests/support/operation.h"
#include "tests/api/elastic/simulated_allreduce.h"
#include "tests/api/network/network_ranks.h"
#include "tests/support/socket_group.h"

namespace gq::test {
namespace {

constexpr size_t kValues = 3000;
constexpr const char* kFormat = "rotated-4";

struct Shrunk {
  Outcome outcome;
  gqsgd_comm comm = nullptr;
  std::vector<int32_t> members = std::vector<int32_t>(16, -1);
  int32_t interrupted = -1;
  double took_ms = 0;

  Shrunk() = default;
  Shrunk(const Shrunk&) = delete;
  Shrunk& operator=(const Shrunk&) = delete;
  ~Shrunk() { gqsgd_comm_destroy(comm); }
};

void shrink(gqsgd_comm comm, const char* options, Shrunk* out) {
  out->outcome = outcome_of(gqsgd_comm_shrink(comm, nullptr, 0, GQSGD_FLOAT32, options, &out->comm,
                                              out->members.data(), &out->interrupted));
  int32_t size = 0;
  if (out->comm != nullptr) gqsgd_comm_size(out->comm, &size);
  out->members.resize(static_cast<size_t>(size));
}

/** On a thread each. */
void shrink_all(const std::vector<gqsgd_comm>& comms, const char* options,
                std::vector<Shrunk>* out) {
  std::vector<std::thread> threads;
  for (size_t k = 0; k < comms.size(); ++k) {
    threads.emplace_back([&, k] { shrink(comms[k], options, &(*out)[k]); });
  }
  for (std::thread& thread : threads) thread.join();
}

/** An allreduce of all of the new group. */
void reduce_all(const std::vector<Shrunk>& shrunk, uint64_t step, const std::string& stream) {
  const Simulated expected{kFormat, kValues, step, stream};
  std::vector<std::string> problems(shrunk.size());
  std::vector<std::thread> threads;
  for (size_t k = 0; k < shrunk.size(); ++k) {
    threads.emplace_back([&, k] {
      problems[k] = allreduce_as_simulated(shrunk[k].comm, expected);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(problems, std::vector<std::string>(shrunk.size()));
}

std::vector<gqsgd_comm> local_comms(int ranks, const char* options) {
  std::vector<gqsgd_comm> comms(static_cast<size_t>(ranks));
  EXPECT_TRUE(is_ok(outcome_of(gqsgd_comm_create_local(ranks, options, comms.data()))));
  return comms;
}

void destroy(const std::vector<gqsgd_comm>& comms) {
  for (gqsgd_comm comm : comms) gqsgd_comm_destroy(comm);
}

TEST(Shrink, ThreadDestroysItsEnd_OthersGoOnWithBitsOfSimulation) {
  const std::vector<gqsgd_comm> comms = local_comms(4, "timeout_ms=20000,stream_id=3");
  EXPECT_EQ(gqsgd_comm_set_counter(comms[0], 40), GQSGD_OK);
  EXPECT_EQ(gqsgd_comm_set_counter(comms[3], 41), GQSGD_OK);
  gqsgd_comm_destroy(comms[1]);
  const std::vector<gqsgd_comm> left = {comms[0], comms[2], comms[3]};
  std::vector<Shrunk> shrunk(3);
  shrink_all(left, "", &shrunk);
  for (size_t k = 0; k < 3; ++k) {
    ASSERT_TRUE(is_ok(shrunk[k].outcome));
    EXPECT_EQ(shrunk[k].members, (std::vector<int32_t>{0, 2, 3}));
    EXPECT_EQ(shrunk[k].interrupted, GQSGD_CALLS_REPEAT);
    int32_t rank = -1;
    uint64_t step = 0;
    gqsgd_comm_rank(shrunk[k].comm, &rank);
    gqsgd_comm_counter(shrunk[k].comm, &step);
    EXPECT_EQ(rank, static_cast<int32_t>(k));
    EXPECT_EQ(step, 41u);  // the largest
  }
  reduce_all(shrunk, 41, "stream_id=3");
  destroy(left);
}

TEST(Shrink, NoRankIsDead_AllGoOn) {
  const std::vector<gqsgd_comm> comms = local_comms(3, "timeout_ms=20000");
  std::vector<Shrunk> shrunk(3);
  shrink_all(comms, "", &shrunk);
  for (const Shrunk& own : shrunk) {
    ASSERT_TRUE(is_ok(own.outcome));
    EXPECT_EQ(own.members, (std::vector<int32_t>{0, 1, 2}));
  }
  reduce_all(shrunk, 0, "");
  destroy(comms);
}

TEST(Shrink, OneOfTwoIsLeft_GoesOnAlone) {
  const std::vector<gqsgd_comm> comms = local_comms(2, "timeout_ms=20000");
  gqsgd_comm_destroy(comms[0]);
  std::vector<Shrunk> shrunk(1);
  shrink_all({comms[1]}, "", &shrunk);
  ASSERT_TRUE(is_ok(shrunk[0].outcome));
  EXPECT_EQ(shrunk[0].members, (std::vector<int32_t>{1}));
  reduce_all(shrunk, 0, "");
  destroy({comms[1]});
}

TEST(Shrink, NetworkOfOneRank_GoesOn) {
  GQ_SKIP_WITHOUT_NETWORK();
  gqsgd_unique_id id;
  ASSERT_EQ(gqsgd_network_id_create("address=127.0.0.1", &id), GQSGD_OK);
  gqsgd_comm comm = nullptr;
  ASSERT_TRUE(is_ok(outcome_of(gqsgd_comm_create_network(&id, 0, 1, "", &comm))));
  std::vector<Shrunk> shrunk(1);
  shrink_all({comm}, "", &shrunk);
  ASSERT_TRUE(is_ok(shrunk[0].outcome));
  EXPECT_EQ(shrunk[0].members, (std::vector<int32_t>{0}));
  reduce_all(shrunk, 0, "");
  destroy({comm});
}

/** A rank that lives and does not come. */
TEST(Shrink, RankDoesNotCome_MajorityGoesOnAndItIsRevoked) {
  const std::vector<gqsgd_comm> comms = local_comms(3, "timeout_ms=300");
  std::vector<Shrunk> shrunk(2);
  shrink_all({comms[0], comms[1]}, "", &shrunk);
  for (const Shrunk& own : shrunk) {
    ASSERT_TRUE(is_ok(own.outcome));
    EXPECT_EQ(own.members, (std::vector<int32_t>{0, 1}));
  }
  reduce_all(shrunk, 0, "");
  EXPECT_TRUE(is(outcome_of(gqsgd_comm_status(comms[2])), GQSGD_OK));
  Shrunk late;
  shrink(comms[2], "", &late);
  EXPECT_TRUE(is(late.outcome, GQSGD_REVOKED, "rank 2 of 3: ranks 0-1 go on without this rank"));
  EXPECT_EQ(late.comm, nullptr);
  destroy(comms);
}

TEST(Shrink, OneOfTwoDoesNotCome_OtherIsNoMajority) {
  const std::vector<gqsgd_comm> comms = local_comms(2, "timeout_ms=200");
  Shrunk alone;
  shrink(comms[0], "", &alone);
  EXPECT_TRUE(is(alone.outcome, GQSGD_REVOKED,
                 "rank 0 of 2: rank 1 did not answer within 200 ms .*no strict majority of 2"));
  EXPECT_EQ(alone.comm, nullptr);
  // It has given up, which is as good as dead: the other goes on.
  Shrunk other;
  shrink(comms[1], "", &other);
  ASSERT_TRUE(is_ok(other.outcome));
  EXPECT_EQ(other.members, (std::vector<int32_t>{1}));
  Shrunk again;
  shrink(comms[0], "", &again);
  EXPECT_TRUE(is(again.outcome, GQSGD_REVOKED, "has been shrunk before"));
  destroy(comms);
}

TEST(Shrink, CallInFlightOnAnotherRank_EndsAndItFollows) {
  const std::vector<gqsgd_comm> comms = local_comms(3, "timeout_ms=20000");
  gqsgd_comm_destroy(comms[2]);
  std::vector<Shrunk> shrunk(2);
  Outcome called;
  std::thread waits([&] {
    const Quantizer quantizer(kFormat);
    Values values(kValues, 1.0f);
    called = outcome_of(gqsgd_allreduce(comms[0], quantizer.get(), values.data(), values.data(),
                                        kValues, GQSGD_FLOAT32, GQSGD_MEAN, nullptr, nullptr));
    EXPECT_EQ(values, Values(kValues, 1.0f));
    shrink(comms[0], "", &shrunk[0]);
  });
  shrink(comms[1], "", &shrunk[1]);
  waits.join();
  EXPECT_TRUE(matches(called.text(), "PEER_LOST: rank 2|REVOKED: rank 1 has revoked"))
      << called.text();
  ASSERT_TRUE(is_ok(shrunk[0].outcome));
  ASSERT_TRUE(is_ok(shrunk[1].outcome));
  reduce_all(shrunk, 1, "");
  destroy({comms[0], comms[1]});
}

TEST(Shrink, BufferOfAnotherSizeOrType_Refused_AndTheRankMayCallAgain) {
  const std::vector<gqsgd_comm> comms = local_comms(2, "timeout_ms=20000");
  Values values(kValues, 1);
  Outcome called;
  std::thread calls([&] {
    const Quantizer quantizer(kFormat);
    called = outcome_of(gqsgd_allreduce(comms[0], quantizer.get(), values.data(), values.data(),
                                        kValues, GQSGD_FLOAT32, GQSGD_MEAN, nullptr, nullptr));
  });
  for (uint64_t begun = 0; begun == 0;) gqsgd_comm_stat(comms[0], "calls", &begun);
  gqsgd_comm_abort(comms[1]);
  gqsgd_comm_destroy(comms[1]);
  calls.join();
  ASSERT_NE(called.status, GQSGD_OK);
  gqsgd_comm next = nullptr;
  const auto shrink_with = [&](size_t count, gqsgd_dtype dtype) {
    return outcome_of(
        gqsgd_comm_shrink(comms[0], values.data(), count, dtype, "", &next, nullptr, nullptr));
  };
  EXPECT_TRUE(is(shrink_with(kValues - 1, GQSGD_FLOAT32), GQSGD_INVALID_ARGUMENT,
                 "values of float32, and the call that was interrupted"));
  EXPECT_TRUE(is(shrink_with(kValues, GQSGD_FLOAT16), GQSGD_INVALID_ARGUMENT, "of float16"));
  EXPECT_TRUE(is(shrink_with(kValues / 2, GQSGD_FLOAT64), GQSGD_INVALID_ARGUMENT, "of float64"));
  EXPECT_EQ(next, nullptr);
  EXPECT_TRUE(is_ok(shrink_with(kValues, GQSGD_FLOAT32)));
  destroy({comms[0], next});
}

/** What one thread has of a call that another rank's abort interrupts. */
struct Interrupted {
  Outcome called;
  Values values;
  Shrunk shrunk;
};

/** Rank `first` aborts as soon as its own call has ended, while others may be inside theirs. What
 *  ends its call before is the shrink of another. */
void interrupt_a_call(const char* format, int first, bool in_place,
                      std::vector<Interrupted>* ranks) {
  const std::vector<gqsgd_comm> comms =
      local_comms(3, "timeout_ms=20000,chunk_value_count=512");
  const std::vector<Values> inputs = gradients(3, kValues, 7);
  std::vector<std::thread> threads;
  for (size_t k = 0; k < 3; ++k) {
    threads.emplace_back([&, k] {
      Interrupted& own = (*ranks)[k];
      const Quantizer quantizer(format);
      own.values = inputs[k];
      own.called = outcome_of(gqsgd_allreduce(
          comms[k], quantizer.get(), in_place ? own.values.data() : inputs[k].data(),
          own.values.data(), kValues, GQSGD_FLOAT32, GQSGD_MEAN, nullptr, nullptr));
      if (static_cast<int>(k) == first) gqsgd_comm_abort(comms[k]);
      own.shrunk.outcome = outcome_of(
          gqsgd_comm_shrink(comms[k], own.called.status == GQSGD_OK ? nullptr : own.values.data(),
                            own.values.size(), GQSGD_FLOAT32, "", &own.shrunk.comm, nullptr,
                            &own.shrunk.interrupted));
    });
  }
  for (std::thread& thread : threads) thread.join();
  destroy(comms);
}

TEST(Shrink, CallThatSomeHaveFinished_AllHaveItsResult) {
  int handed = 0;
  for (int run = 0; run < 400 && handed < 20; ++run) {
    std::vector<Interrupted> ranks(3);
    interrupt_a_call(run / 6 % 2 == 0 ? kFormat : "rice-4", run % 3, run % 2 == 0, &ranks);
    const Interrupted* finished = nullptr;
    for (const Interrupted& own : ranks) {
      if (own.called.status == GQSGD_OK) finished = &own;
    }
    for (const Interrupted& own : ranks) {
      ASSERT_TRUE(is_ok(own.shrunk.outcome)) << "run " << run;
      const bool lacks_it = finished != nullptr && own.called.status != GQSGD_OK;
      EXPECT_EQ(own.shrunk.interrupted, lacks_it ? GQSGD_CALLS_FINISHED : GQSGD_CALLS_REPEAT);
      if (finished != nullptr) {
        EXPECT_EQ(own.values, finished->values) << "run " << run;
      }
      handed += lacks_it ? 1 : 0;
    }
  }
  EXPECT_GT(handed, 0) << "no call was interrupted";
}

TEST(Shrink, CostsAndOptionsOfTheOldGroup_Continue) {
  const std::vector<gqsgd_comm> comms =
      local_comms(2, "timeout_ms=12345,costs=latency_ns=1234.5;cpus=3,uncompressed=never");
  std::vector<Shrunk> shrunk(2);
  shrink_all(comms, "", &shrunk);
  for (size_t k = 0; k < 2; ++k) {
    ASSERT_TRUE(is_ok(shrunk[k].outcome));
    std::string before(16384, '\0'), after(16384, '\0');
    gqsgd_comm_costs(comms[k], before.data(), before.size(), nullptr);
    gqsgd_comm_costs(shrunk[k].comm, after.data(), after.size(), nullptr);
    EXPECT_EQ(before, after);
    int64_t timeout_ms = 0;
    gqsgd_comm_timeout(shrunk[k].comm, &timeout_ms);
    EXPECT_EQ(timeout_ms, 12345);
  }
  destroy(comms);
}

TEST(Shrink, Arguments_NamedAtOnce) {
  const std::vector<gqsgd_comm> comms = local_comms(1, "");
  gqsgd_comm next = comms[0];
  const auto call = [&](gqsgd_comm comm, const char* options, gqsgd_comm* out) {
    return outcome_of(
        gqsgd_comm_shrink(comm, nullptr, 0, GQSGD_FLOAT32, options, out, nullptr, nullptr));
  };
  EXPECT_TRUE(is(call(comms[0], "", nullptr), GQSGD_INVALID_ARGUMENT, "new_comm is NULL"));
  EXPECT_TRUE(is(call(nullptr, "", &next), GQSGD_BAD_HANDLE));
  EXPECT_EQ(next, nullptr);
  EXPECT_TRUE(is(call(comms[0], "stream_id=1", &next), GQSGD_INVALID_ARGUMENT, "stream_id"));
  EXPECT_TRUE(is(call(comms[0], "colour=1", &next), GQSGD_INVALID_ARGUMENT, "colour"));
  EXPECT_EQ(gqsgd_comm_status(comms[0]), GQSGD_OK);  // unchanged
  const std::vector<gqsgd_comm> custom = custom_comms(socket_tables(2), "");
  EXPECT_TRUE(is(call(custom[0], "", &next), GQSGD_UNSUPPORTED, "groups of threads, processes"));
  EXPECT_EQ(gqsgd_comm_status(custom[0]), GQSGD_OK);
  destroy(custom);
  destroy(comms);
}

TEST(Revoke, BreaksAllRanksAndNamesTheDead) {
  const std::vector<gqsgd_comm> comms = local_comms(4, "timeout_ms=20000");
  gqsgd_comm_destroy(comms[2]);
  for (int times = 0; times < 2; ++times) {
    int32_t dead[4] = {-1, -1, -1, -1}, count = -1;
    EXPECT_TRUE(is_ok(outcome_of(gqsgd_comm_revoke(comms[1], dead, &count))));
    EXPECT_EQ(count, 1);
    EXPECT_EQ(dead[0], 2);
  }
  EXPECT_TRUE(is(outcome_of(gqsgd_comm_status(comms[1])), GQSGD_REVOKED, "rank 1 .this rank. has"));
  const Quantizer quantizer(kFormat);
  float value = 1;
  EXPECT_TRUE(is(outcome_of(gqsgd_allreduce(comms[3], quantizer.get(), &value, &value, 1,
                                            GQSGD_FLOAT32, GQSGD_MEAN, nullptr, nullptr)),
                 GQSGD_REVOKED, "rank 1 has revoked the communicator: no call is made with it"));
  EXPECT_TRUE(is_ok(outcome_of(gqsgd_comm_revoke(comms[0], nullptr, nullptr))));
  destroy({comms[0], comms[1], comms[3]});
}

}  // namespace
}  // namespace gq::test
