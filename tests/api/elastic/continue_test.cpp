// A training that loses a rank, goes on with a new one in another order, and then with fewer:
// results are those of gqsgd_simulate with the ranks of each group at the step that continues.
#include <gqsgd_elastic.h>
#include <gqsgd_network.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "tests/api/faults/support/outcome.h"
#include "tests/api/network/network_ranks.h"
#include "tests/support/operation.h"
#include "tests/support/shared_memory.h"
#include "tests/api/elastic/simulated_allreduce.h"
#include "tests/unit/transport/children.h"

namespace gq::test {
namespace {

enum class Kind { threads, processes, network };

constexpr size_t kValues = 3000;
constexpr uint32_t kStreamId = 5;
constexpr uint64_t kStepsBefore = 3;
constexpr const char* kFormat = "rotated-4";  // whose results depend on step, stream_id and ranks
constexpr const char* kOptions = "timeout_ms=30000,stream_id=5,chunk_value_count=512";
constexpr const char* kNewOptions = "timeout_ms=30000,chunk_value_count=512";

struct Posted {
  gqsgd_unique_id id;
  std::atomic<uint32_t> is_there;
};

/** What the coordinator gives to all: ids, which the new rank 0 makes. */
class Coordinator {
 public:
  explicit Coordinator(Kind kind) : kind_(kind), posted_(3) {}

  const gqsgd_unique_id* id(size_t group, bool makes_it) {
    Posted& posted = posted_[group];
    if (makes_it) {
      const gqsgd_status made = make(&posted.id);
      posted.is_there = made == GQSGD_OK ? 1 : 2;
    }
    for (int step = 0; posted.is_there == 0 && step < 60000; ++step) usleep(1000);
    return &posted.id;
  }
  Kind kind() const { return kind_; }
  /** A rank that dies as soon as it has its result may break the call of others. */
  void finish_first_steps() { finished_[0] += 1; }
  void await_first_steps(uint32_t ranks) {
    for (int step = 0; finished_[0] < ranks && step < 60000; ++step) usleep(1000);
  }

 private:
  gqsgd_status make(gqsgd_unique_id* id) {
    if (kind_ == Kind::threads) return gqsgd_local_id_create(id);
    if (kind_ == Kind::processes) return gqsgd_unique_id_create(id);
    return gqsgd_network_id_create("address=127.0.0.1", id);
  }

  const Kind kind_;
  SharedArray<Posted> posted_;
  SharedArray<std::atomic<uint32_t>> finished_{1};
};

/** An allreduce at the counter's step, against virtual ranks at `step`. */
std::string reduce(gqsgd_comm comm, uint64_t step) {
  const std::string options = "stream_id=" + std::to_string(kStreamId);
  return allreduce_as_simulated(comm, {kFormat, kValues, step, options});
}

struct NewGroup {
  size_t number;                 ///< of its id
  std::vector<int32_t> members;  ///< as the library takes them
  std::vector<int> who;          ///< which participant is new rank k
  uint64_t step;
};

/** Replaces *comm, NULL on a newcomer, and makes one call. */
std::string enter(Coordinator& coordinator, const NewGroup& group, int who, gqsgd_comm* comm) {
  const int ranks = static_cast<int>(group.who.size());
  int rank = 0;
  while (group.who[static_cast<size_t>(rank)] != who) ++rank;
  gqsgd_comm next = nullptr;
  const Outcome made = outcome_of(
      gqsgd_comm_reconfigure(*comm, coordinator.id(group.number, rank == 0), group.members.data(),
                             rank, ranks, *comm == nullptr ? kNewOptions : "", &next));
  gqsgd_comm_destroy(*comm);
  *comm = next;
  if (made.status != GQSGD_OK) return "reconfigure: " + made.text();
  uint64_t step = 0, calls = 99;
  gqsgd_comm_counter(next, &step);
  gqsgd_comm_stat(next, "calls", &calls);
  if (step != group.step) return "the counter is at " + std::to_string(step);
  if (calls != 0) return "there were calls";
  return reduce(next, group.step);
}

/** Participants 0 to 3 are the ranks of the first group, of which 1 leaves; 4 comes. */
std::string take_part(Coordinator& coordinator, int who, gqsgd_comm comm) {
  std::string failure;
  for (uint64_t step = 0; who < 4 && step < kStepsBefore && failure.empty(); ++step) {
    failure = reduce(comm, step);
  }
  coordinator.finish_first_steps();
  if (who == 1) {
    coordinator.await_first_steps(5);  // the newcomer too
    if (coordinator.kind() != Kind::threads) raise(SIGKILL);
    gqsgd_comm_abort(comm);
    gqsgd_comm_destroy(comm);
    return failure;
  }
  if (who < 4 && failure.empty() && reduce(comm, kStepsBefore).empty()) {
    failure = "a call without rank 1 returned OK";
  }
  // The call that failed has used its step up.
  const NewGroup second{1, {3, 0, -1, 2}, {3, 0, 4, 2}, kStepsBefore + 1};
  if (failure.empty()) failure = enter(coordinator, second, who, &comm);
  const NewGroup third{2, {2, 0}, {4, 3}, kStepsBefore + 2};
  const bool stays = who == 3 || who == 4;
  if (stays && failure.empty()) failure = enter(coordinator, third, who, &comm);
  gqsgd_comm_destroy(comm);
  return failure;
}

std::string first_group(Coordinator& coordinator, int who, gqsgd_comm* comm) {
  *comm = nullptr;
  if (who >= 4) return "";
  const gqsgd_unique_id* id = coordinator.id(0, who == 0);
  const gqsgd_status made = coordinator.kind() == Kind::network
                                ? gqsgd_comm_create_network(id, who, 4, kOptions, comm)
                                : gqsgd_comm_create_process(id, who, 4, kOptions, comm);
  return made == GQSGD_OK ? "" : outcome_of(made).text();
}

void train_in_processes(Kind kind) {
  Coordinator coordinator(kind);
  std::vector<Child> ranks;
  for (int who = 0; who < 5; ++who) {
    ranks.emplace_back([&coordinator, who] {
      gqsgd_comm comm = nullptr;
      const std::string failure = first_group(coordinator, who, &comm);
      return failure.empty() ? take_part(coordinator, who, comm) : failure;
    });
  }
  for (size_t who = 0; who < 5; ++who) {
    const std::string line = ranks[who].line();
    EXPECT_EQ(line, who == 1 ? "killed by signal 9" : "") << "participant " << who;
  }
}

TEST(Reconfigure, Processes_LoseOrderGrowShrink_BitsOfSimulation) {
  train_in_processes(Kind::processes);
}

TEST(Reconfigure, Network_LoseOrderGrowShrink_BitsOfSimulation) {
  GQ_SKIP_WITHOUT_NETWORK();
  train_in_processes(Kind::network);
}

TEST(Reconfigure, Threads_LoseOrderGrowShrink_BitsOfSimulation) {
  Coordinator coordinator(Kind::threads);
  std::vector<gqsgd_comm> comms(5);
  ASSERT_TRUE(is_ok(outcome_of(gqsgd_comm_create_local(4, kOptions, comms.data()))));
  std::vector<std::string> failures(5);
  std::vector<std::thread> threads;
  for (int who = 0; who < 5; ++who) {
    const size_t k = static_cast<size_t>(who);
    threads.emplace_back([&, who, k] { failures[k] = take_part(coordinator, who, comms[k]); });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(failures, std::vector<std::string>(5));
}

/** A group of processes that moves to another transport: the id decides. */
TEST(Reconfigure, IntactGroupOfThreads_ToProcessesTransport_Continues) {
  std::vector<gqsgd_comm> comms(2), next(2);
  ASSERT_TRUE(is_ok(outcome_of(gqsgd_comm_create_local(2, kOptions, comms.data()))));
  for (gqsgd_comm comm : comms) ASSERT_EQ(gqsgd_comm_set_counter(comm, 77), GQSGD_OK);
  gqsgd_unique_id id;
  ASSERT_TRUE(is_ok(outcome_of(gqsgd_unique_id_create(&id))));
  const int32_t members[] = {0, 1};
  std::vector<std::string> failures(2);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 2; ++rank) {
    const size_t k = static_cast<size_t>(rank);
    threads.emplace_back([&, rank, k] {
      const gqsgd_status made =
          gqsgd_comm_reconfigure(comms[k], &id, members, rank, 2, nullptr, &next[k]);
      failures[k] = made == GQSGD_OK ? reduce(next[k], 77) : outcome_of(made).text();
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(failures, std::vector<std::string>(2));
  const char* name = "";
  gqsgd_comm_transport(next[0], &name);
  EXPECT_STREQ(name, "processes");
  for (gqsgd_comm comm : comms) gqsgd_comm_destroy(comm);
  for (gqsgd_comm comm : next) gqsgd_comm_destroy(comm);
}

/** Steps are below 2^32: no random key is used twice, also after the last one. */
TEST(Reconfigure, AllStepsAreUsedUp_StaysSo) {
  gqsgd_comm comm = nullptr, next = nullptr;
  ASSERT_TRUE(is_ok(outcome_of(gqsgd_comm_create_local(1, "", &comm))));
  ASSERT_EQ(gqsgd_comm_set_counter(comm, UINT32_MAX), GQSGD_OK);
  const Quantizer quantizer(kFormat);
  float value = 1;
  const auto call = [&](gqsgd_comm on) {
    return outcome_of(gqsgd_allreduce(on, quantizer.get(), &value, &value, 1, GQSGD_FLOAT32,
                                      GQSGD_MEAN, nullptr, nullptr));
  };
  EXPECT_TRUE(is_ok(call(comm)));
  gqsgd_unique_id id;
  ASSERT_TRUE(is_ok(outcome_of(gqsgd_local_id_create(&id))));
  const int32_t members[] = {0};
  ASSERT_TRUE(is_ok(outcome_of(gqsgd_comm_reconfigure(comm, &id, members, 0, 1, "", &next))));
  EXPECT_TRUE(is(call(next), GQSGD_INVALID_ARGUMENT, "step is 4294967296; the largest is"));
  gqsgd_comm_destroy(comm);
  gqsgd_comm_destroy(next);
}

/** Rank 1 dies at some moment of a reconfiguration: each other rank ends with OK or a failure. A
 *  Child that hangs is killed after a minute, which fails. */
TEST(Reconfigure, DeathsAtManyInstants_OthersEnd) {
  constexpr const char* kShort = "timeout_ms=1000";
  for (int instant = 0; instant < 8; ++instant) {
    Coordinator coordinator(Kind::processes);
    SharedArray<std::atomic<uint32_t>> begun(1);
    std::vector<Child> ranks;
    for (int who = 0; who < 3; ++who) {
      ranks.emplace_back([&, who] {
        const int32_t members[] = {0, -1, -1};
        gqsgd_comm old = nullptr, next = nullptr;
        if (who == 0 && gqsgd_comm_create_local(1, kShort, &old) != GQSGD_OK) {
          return std::string("no old group");
        }
        const gqsgd_unique_id* id = coordinator.id(1, who == 0);
        if (who == 1) begun[0] = 1;
        const gqsgd_status made = gqsgd_comm_reconfigure(old, id, members, who, 3, kShort, &next);
        if (who == 1 && made == GQSGD_OK) pause();
        return made == GQSGD_OK ? std::string("OK") : outcome_of(made).text();
      });
    }
    for (int step = 0; begun[0] == 0 && step < 60000; ++step) usleep(1000);
    usleep(static_cast<useconds_t>(instant * 300));
    ranks[1].signal(SIGKILL);
    for (int who : {0, 2}) {
      const std::string line = ranks[static_cast<size_t>(who)].line();
      EXPECT_TRUE(matches(line, "^OK$|PEER_LOST: .*rank|TIMEOUT: .*rank"))
          << "instant " << instant << ": " << line;
    }
    EXPECT_EQ(ranks[1].line(), "killed by signal 9");
  }
}

}  // namespace
}  // namespace gq::test
