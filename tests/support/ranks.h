// Runs one function on every rank of a fresh group, ranks being threads or processes, under a
// watchdog. What the ranks compute, and whether it is right, is the test's business.
#ifndef GQ_TESTS_SUPPORT_RANKS_H
#define GQ_TESTS_SUPPORT_RANKS_H

#include <gqsgd.h>
#include <sys/types.h>

#include <functional>
#include <string>
#include <vector>

#include "tests/support/shared_memory.h"

namespace gq::test {

/** A run that takes longer is taken for hung. */
inline constexpr int kWatchdogSeconds = 90;

/** What a rank does: returns "" or a sentence that says what went wrong. */
using RankBody = std::function<std::string(int rank, gqsgd_comm comm)>;

/** Runs `body` on `rank_count` threads, each with its own communicator of one local group.
 *  Returns "" or one line "rank 2: .." per rank that failed. A rank that fails leaves, so that its
 *  peers fail too instead of waiting. A hung group is aborted and reported; if not even that ends
 *  it, the whole program aborts, because a thread cannot be killed. */
std::string run_threads(int rank_count, const std::string& options, const RankBody& body);

/** The same with communicators that were made elsewhere; they are destroyed. */
std::string run_threads(const std::vector<gqsgd_comm>& comms, const RankBody& body);

/** The same with one process per rank. What a body is to hand back, other than its sentence, goes
 *  through a SharedArray made before. */
std::string run_processes(int rank_count, const std::string& options, const RankBody& body);

/** Makes the communicator of rank `rank` in its process; null stands for gqsgd_comm_create_process.
 */
using CommMaker =
    std::function<gqsgd_status(int rank, int rank_count, const char* options, gqsgd_comm* comm)>;

/** run_processes in two halves, for tests that do something to the ranks while they run. The
 * calling process must have no other threads at that time. */
class RankProcesses {
 public:
  RankProcesses(int rank_count, const std::string& options, const RankBody& body,
                const CommMaker& make = nullptr);
  ~RankProcesses();
  RankProcesses(const RankProcesses&) = delete;
  RankProcesses& operator=(const RankProcesses&) = delete;

  pid_t pid(int rank) const { return ranks_[rank].pid; }

  /** Waits for all; kills those that outlive `seconds`. A rank that was killed is a failure of that
   *  rank: "rank 1: killed by signal 9". */
  std::string wait(int seconds = kWatchdogSeconds);

  /** Waits for all and returns each rank's own line, "" where its body was content. */
  std::vector<std::string> wait_each(int seconds = kWatchdogSeconds);

 private:
  struct Rank {
    pid_t pid = -1;
    int wait_status = 0;
    bool ended = false;
    bool overdue = false;
  };
  bool reap();
  std::string outcome(int rank) const;

  std::vector<Rank> ranks_;
  SharedArray<char> sentences_;
};

/** "" if `status` is OK, else "what: NAME: the last error". */
std::string failure_of(gqsgd_status status, const char* what);

/** What gqsgd_comm_stat has by this name. Throws std::runtime_error where it has nothing. */
uint64_t counter_of(gqsgd_comm comm, const char* name);

}  // namespace gq::test

#endif
