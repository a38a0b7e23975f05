// Ranks as threads of this process or as its children.
#include "bench/perf/team.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <thread>
#include <vector>

namespace gq::bench {
namespace {

constexpr int kFailed = 2;

/** Runs one rank and destroys its communicator, so that the others see it leave. */
int run_rank(int rank, gqsgd_comm comm, const RankMain& rank_main) {
  int result = kFailed;
  try {
    result = rank_main(rank, comm);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "rank %d: %s\n", rank, error.what());
  }
  gqsgd_comm_destroy(comm);
  return result;
}

int run_threads(int rank_count, const std::string& comm_options, const RankMain& rank_main) {
  std::vector<gqsgd_comm> comms(rank_count);
  require(gqsgd_comm_create_local(rank_count, comm_options.c_str(), comms.data()),
          "creating the communicators");
  std::vector<int> results(rank_count, kFailed);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < rank_count; ++rank) {
    threads.emplace_back([&, rank] { results[rank] = run_rank(rank, comms[rank], rank_main); });
  }
  for (std::thread& thread : threads) thread.join();
  return *std::max_element(results.begin(), results.end());
}

int process_main(int rank, int rank_count, const gqsgd_unique_id& unique_id,
                 const std::string& comm_options, const RankMain& rank_main) {
  gqsgd_comm comm = nullptr;
  const gqsgd_status status =
      gqsgd_comm_create_process(&unique_id, rank, rank_count, comm_options.c_str(), &comm);
  if (status == GQSGD_OK) return run_rank(rank, comm, rank_main);
  std::fprintf(stderr, "rank %d: %s\n", rank, gqsgd_last_error());
  return kFailed;
}

int run_processes(int rank_count, const std::string& comm_options, const RankMain& rank_main) {
  gqsgd_unique_id unique_id;
  require(gqsgd_unique_id_create(&unique_id), "gqsgd_unique_id_create");
  std::fflush(nullptr);  // A forked copy of unwritten output would be written twice.
  std::vector<pid_t> children;
  for (int rank = 0; rank < rank_count; ++rank) {
    const pid_t child = fork();
    if (child < 0) throw Failure("fork failed");
    if (child == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      const int result = process_main(rank, rank_count, unique_id, comm_options, rank_main);
      std::fflush(nullptr);
      _exit(result);
    }
    children.push_back(child);
  }
  int result = 0;
  for (pid_t child : children) {
    int status = 0;
    waitpid(child, &status, 0);
    result = std::max(result, WIFEXITED(status) ? WEXITSTATUS(status) : kFailed);
  }
  return result;
}

}  // namespace

void require(gqsgd_status status, const char* what) {
  if (status == GQSGD_OK) return;
  throw Failure(std::string(what) + ": " + gqsgd_status_name(status) + ": " + gqsgd_last_error());
}

void* shared_bytes(size_t size_bytes) {
  void* memory = mmap(nullptr, std::max<size_t>(size_bytes, 1), PROT_READ | PROT_WRITE,
                      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    throw Failure("no memory for " + std::to_string(size_bytes) + " bytes that ranks share");
  }
  return memory;
}

int run_team(bool ranks_are_processes, int rank_count, const std::string& comm_options,
             const RankMain& rank_main) {
  return ranks_are_processes ? run_processes(rank_count, comm_options, rank_main)
                             : run_threads(rank_count, comm_options, rank_main);
}

}  // namespace gq::bench
