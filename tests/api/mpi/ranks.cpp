// Starting, judging and ending the ranks of a test.
#include "tests/api/mpi/ranks.h"

#include <time.h>

#include <cstdio>
#include <stdexcept>

namespace gq::test {
namespace {

double seconds_of(clockid_t clock) {
  timespec time;
  clock_gettime(clock, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

}  // namespace

double wall_seconds() { return seconds_of(CLOCK_MONOTONIC); }
double core_seconds() { return seconds_of(CLOCK_PROCESS_CPUTIME_ID); }

WorldComm::WorldComm(const std::string& options) {
  if (gqsgd_comm_create_mpi(MPI_COMM_WORLD, options.c_str(), &comm_) != GQSGD_OK) {
    throw std::runtime_error(gqsgd_last_error());
  }
}

int run_check(int argc, char** argv, Check check) {
  int level = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &level);
  World world;
  MPI_Comm_rank(MPI_COMM_WORLD, &world.rank);
  MPI_Comm_size(MPI_COMM_WORLD, &world.size);
  std::string sentence;
  try {
    sentence = check(world);
  } catch (const std::exception& error) {
    sentence = error.what();
  }
  if (!sentence.empty()) std::fprintf(stderr, "rank %d: %s\n", world.rank, sentence.c_str());
  int failed = !sentence.empty(), any_failed = 0;
  MPI_Allreduce(&failed, &any_failed, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
  MPI_Finalize();
  return any_failed;
}

}  // namespace gq::test
