// Processes that open each other's memory on a device: who does, what happens where one cannot,
// memory that grows, and who frees it when.
#include <gqsgd_log.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <iterator>
#include <thread>

#include "tests/gpu/streams/ipc_arena_of.h"
#include "tests/gpu/streams/local_group.h"
#include "tests/support/host_device/host_memory.h"
#include "tests/support/ranks.h"

namespace gq::test {
namespace {

constexpr char kOptions[] = "timeout_ms=20000";

Operation usual() { return {"paper-gl8", GQSGD_SCHEDULE_DIRECT}; }

/** One call of each length, and what virtual ranks make of it. */
Calls calls(int ranks, const std::vector<size_t>& value_counts) {
  return Calls(ranks, std::vector<Operation>(value_counts.size(), usual()), value_counts);
}

std::string expect(const char* what, size_t found, size_t expected) {
  if (found == expected) return "";
  return std::string(what) + ": " + std::to_string(found) + ", not " + std::to_string(expected);
}

/** What is logged while it lives. */
class LogLines {
 public:
  LogLines() {
    gqsgd_set_log(
        GQSGD_LOG_WARN,
        [](void* lines, gqsgd_log_level, const char* line) {
          *static_cast<std::string*>(lines) += line;
        },
        &lines_);
  }
  ~LogLines() { gqsgd_set_log(GQSGD_LOG_NONE, nullptr, nullptr); }
  const std::string& get() const { return lines_; }

 private:
  std::string lines_;
};

TEST(IpcCopies, ProcessesThatCan_CopyDirectly) {
  const UseHostDevice device;
  for (const int ranks : {1, 2, 3, 8}) {
    const Calls two = calls(ranks, {5000, 77});
    EXPECT_EQ(run_processes(ranks, kOptions,
                            [&](int rank, gqsgd_comm comm) -> std::string {
                              const LogLines lines;
                              std::string found = two.make_and_compare(rank, comm);
                              found += expect("memory open", blocks_open(),
                                              static_cast<size_t>(ranks - 1));
                              return found + lines.get();
                            }),
              "")
        << ranks << " ranks";
  }
}

/** A call without words is nothing to agree on ways in. */
TEST(IpcCopies, FirstCallWithCodes_DecidesTheWay) {
  const UseHostDevice device;
  const Calls all = calls(3, {0, 0, 900, 0, 1});
  EXPECT_EQ(run_processes(3, kOptions,
                          [&](int rank, gqsgd_comm comm) -> std::string {
                            std::string found = all.make_and_compare(rank, comm);
                            return found + expect("memory open", blocks_open(), 2);
                          }),
            "");
}

TEST(IpcGrowth, MemoryClosedByPeers_Freed) {
  const UseHostDevice device;
  const std::vector<Calls> turns = {calls(2, {1000}), calls(2, {1500000}), calls(2, {10}),
                                    calls(2, {4000000}), calls(2, {1000, 1000})};
  EXPECT_EQ(run_processes(2, kOptions,
                          [&](int rank, gqsgd_comm comm) -> std::string {
                            std::string found = turns[0].make_and_compare(rank, comm);
                            const size_t before = allocations_in_use();
                            for (size_t k = 1; k < turns.size(); ++k) {
                              found += turns[k].make_and_compare(rank, comm);
                            }
                            found += expect("in use", allocations_in_use(), before);
                            found += expect("memory open", blocks_open(), 1);
                            return found + expect("freed while open", released_while_open(), 0);
                          }),
            "");
}

/** All ranks go through host memory if one rank cannot, and log once why. */
void expect_staged(const std::function<void(int rank)>& break_rank, const std::string& why) {
  const UseHostDevice device;
  const Calls all = calls(3, {5000, 77, 3000000, 12});
  EXPECT_EQ(
      run_processes(3, kOptions,
                    [&](int rank, gqsgd_comm comm) -> std::string {
                      break_rank(rank);
                      const LogLines lines;
                      std::string found = all.make_and_compare(rank, comm);
                      found += expect("memory open", blocks_open(), 0);
                      found += expect("freed while open", released_while_open(), 0);
                      const std::string line =
                          "rank " + std::to_string(rank) +
                          ": packed codes of host double device 0 go to other processes through "
                          "host memory: " +
                          why;
                      return lines.get().ends_with(line) ? found : found + "logged: " + lines.get();
                    }),
      "");
}

TEST(StagedCopies, DeviceSharesNoMemory_ThroughHostMemory) {
  expect_staged([](int) { use_device(&host_device_alone()); },
                "the device of rank 0 shares no memory between processes");
}
TEST(StagedCopies, DeviceOfOneRankSharesNoMemory_ThroughHostMemory) {
  expect_staged([](int rank) { use_device(rank == 2 ? &host_device_alone() : &host_device()); },
                "the device of rank 2 shares no memory between processes");
}
TEST(StagedCopies, OneRankCannotExport_ThroughHostMemory) {
  expect_staged([](int rank) { refuse_exports(rank == 1); },
                "rank 1 cannot export its memory: the double exports nothing");
}
TEST(StagedCopies, OneRankCannotOpen_ThroughHostMemory) {
  expect_staged([](int rank) { refuse_opens(rank == 2); },
                "rank 2 cannot open the memory of rank 0: the double opens nothing");
}
TEST(StagedCopies, OneRankInAnotherDomain_ThroughHostMemory) {
  expect_staged([](int rank) { move_to_domain(rank == 1 ? 7 : 1); },
                "rank 1 is in another PID namespace than rank 0");
}

/** Memory cannot be opened in the process that exported it. */
TEST(StagedCopies, RanksAreThreadsOfOneProcess_ThroughHostMemory) {
  const UseHostDevice device;
  const Calls one = calls(2, {1234});
  EXPECT_EQ(run_processes(1, kOptions,
                          [&](int, gqsgd_comm) -> std::string {
                            gqsgd_unique_id id;
                            gqsgd_unique_id_create(&id);
                            std::string found[2];
                            const auto run = [&](int rank) {
                              gqsgd_comm comm = nullptr;
                              gqsgd_comm_create_process(&id, rank, 2, kOptions, &comm);
                              found[rank] = one.make_and_compare(rank, comm);
                              gqsgd_comm_destroy(comm);
                            };
                            std::thread other(run, 1);
                            run(0);
                            other.join();
                            return found[0] + found[1];
                          }),
            "");
}

/** Who leaves first frees nothing that the other has open; it is freed when that one has left. */
TEST(IpcLeaving, MemoryClosedByPeers_Freed) {
  const UseHostDevice device;
  const Calls one = calls(2, {1234}), alone = calls(1, {10});
  gqsgd_unique_id ids[3];
  for (gqsgd_unique_id& id : ids) ASSERT_EQ(gqsgd_unique_id_create(&id), GQSGD_OK);
  const auto in_group = [&](int number, int rank, int ranks, const Calls& made,
                            std::string* found) {
    gqsgd_comm comm = nullptr;
    gqsgd_comm_create_process(&ids[number], rank, ranks, kOptions, &comm);
    *found += made.make_and_compare(rank, comm);
    return comm;
  };
  EXPECT_EQ(run_processes(2, kOptions,
                          [&](int rank, gqsgd_comm barrier) -> std::string {
                            const auto synchronise = [&] {
                              Values result;
                              return allreduce(barrier, usual(), Values(10), &result);
                            };
                            std::string found;
                            const gqsgd_comm comm = in_group(0, rank, 2, one, &found);
                            found += synchronise();
                            if (rank == 0) {
                              gqsgd_comm_destroy(comm);
                              found += expect("kept", allocations_in_use(), 1);
                            }
                            found += synchronise();
                            if (rank == 1) {
                              found += expect("memory open", blocks_open(), 1);
                              gqsgd_comm_destroy(comm);
                              found += expect("in use", allocations_in_use(), 0);
                            }
                            found += expect("memory open", blocks_open(), 0);
                            found += synchronise();
                            gqsgd_comm_destroy(in_group(1 + rank, 0, 1, alone, &found));
                            found += expect("in use", allocations_in_use(), 0);
                            return found + expect("freed while open", released_while_open(), 0);
                          }),
            "");
}

size_t descriptors_open() {
  const std::filesystem::directory_iterator all("/proc/self/fd");
  return static_cast<size_t>(std::distance(begin(all), end(all)));
}

/** Groups that come and go cost nothing, in any order of leaving. */
TEST(IpcLeaving, Destroyed_NothingLeftBehind) {
  const UseHostDevice device;
  const Calls one = calls(2, {1234}), alone = calls(1, {10});
  std::vector<gqsgd_unique_id> ids(40);
  for (gqsgd_unique_id& id : ids) ASSERT_EQ(gqsgd_unique_id_create(&id), GQSGD_OK);
  EXPECT_EQ(run_processes(2, kOptions,
                          [&](int rank, gqsgd_comm barrier) -> std::string {
                            const size_t before = descriptors_open();
                            std::string found;
                            for (const gqsgd_unique_id& id : ids) {
                              gqsgd_comm comm = nullptr;
                              gqsgd_comm_create_process(&id, rank, 2, kOptions, &comm);
                              found += one.make_and_compare(rank, comm);
                              gqsgd_comm_destroy(comm);
                            }
                            const auto synchronise = [&] {
                              Values result;
                              return allreduce(barrier, usual(), Values(10), &result);
                            };
                            found += synchronise();
                            gqsgd_unique_id last;
                            gqsgd_unique_id_create(&last);
                            gqsgd_comm comm = nullptr;
                            gqsgd_comm_create_process(&last, 0, 1, kOptions, &comm);
                            found += alone.make_and_compare(0, comm);
                            gqsgd_comm_destroy(comm);
                            found += expect("descriptors", descriptors_open(), before);
                            found += synchronise();  // until then both are there
                            found += expect("in use", allocations_in_use(), 0);
                            found += expect("memory open", blocks_open(), 0);
                            return found + expect("freed while open", released_while_open(), 0);
                          }),
            "");
}

/** After the way was chosen there is no other: the failure is this rank's, and has its name. */
void expect_broken(void (*refuse)(bool), const std::string& own_sentence) {
  const UseHostDevice device;
  const Calls first = calls(2, {1000});
  EXPECT_EQ(run_processes(2, kOptions,
                          [&](int rank, gqsgd_comm comm) -> std::string {
                            const std::string found = first.make_and_compare(rank, comm);
                            refuse(rank == 1);
                            StreamCall large(gradients(2, 3000000, 4)[static_cast<size_t>(rank)]);
                            const gqsgd_status status = large.make(comm, usual());
                            const std::string sentence = gqsgd_last_error();
                            if (!large.wait()) return "the stream does not get through";
                            if (status == GQSGD_OK) return "it was carried out";
                            if (rank == 1 && sentence.find(own_sentence) == std::string::npos) {
                              return sentence;
                            }
                            const bool named = sentence.find("rank 1") != std::string::npos;
                            return named ? found : sentence;
                          }),
            "");
}

TEST(IpcFailure, LaterExport_Named) {
  expect_broken(refuse_exports, "rank 1 cannot export its memory: the double exports nothing");
}
TEST(IpcFailure, LaterOpening_Named) {
  expect_broken(refuse_opens, "rank 1 cannot open the memory of rank 0: the double opens nothing");
}

/** What a peer writes is used to reach no memory but its own. */
TEST(IpcFailure, PeerOverwritesControlWords_Named) {
  const UseHostDevice device;
  const Calls first = calls(2, {1000});
  EXPECT_EQ(run_processes(2, kOptions,
                          [&](int rank, gqsgd_comm comm) -> std::string {
                            const std::string found = first.make_and_compare(rank, comm);
                            if (rank == 1) {
                              IpcArena* const own = ipc_arena_of_this_process(2);
                              own->size_bytes = 1;
                              own->generation += 1;
                            }
                            StreamCall second(gradients(2, 1000, 4)[static_cast<size_t>(rank)]);
                            const gqsgd_status status = second.make(comm, usual());
                            const std::string sentence = gqsgd_last_error();
                            if (!second.wait()) return "the stream does not get through";
                            const bool told = sentence.find("rank 0: rank 1 shows ") == 0;
                            if (rank == 0 && (status != GQSGD_PROTOCOL || !told)) return sentence;
                            return status != GQSGD_OK ? found : "it was carried out";
                          }),
            "");
}

/** The tests above see a host that does not wait for its stream. */
TEST(Mutation, HostDoesNotWait_WrongBits) {
  const UseHostDevice device;
  const auto inputs = gradients(2, 1000, 4);
  const Values expected = simulate(usual(), inputs);
  EXPECT_NE(run_processes(2, kOptions,
                          [&](int rank, gqsgd_comm comm) -> std::string {
                            StreamCall made(inputs[static_cast<size_t>(rank)]);
                            made.stream.sleep(rank == 0 ? 300 : 0);
                            report_events_early(true);
                            const gqsgd_status status = made.make(comm, usual());
                            report_events_early(false);
                            if (!made.wait() || status != GQSGD_OK) return "";
                            return difference(made.result(), expected);
                          }),
            "");
}

}  // namespace
}  // namespace gq::test
