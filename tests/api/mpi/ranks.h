// What the programs of this folder share: they run under mpirun, every rank checks, and all ranks
// report what any of them found.
#ifndef GQ_TESTS_API_MPI_RANKS_H
#define GQ_TESTS_API_MPI_RANKS_H

#include <string>

#include "tests/api/mpi/adapter.h"
#include "tests/support/operation.h"

namespace gq::test {

/** Rank and size in MPI_COMM_WORLD. */
struct World {
  int rank = 0;
  int size = 1;
};

/** A test of one rank: "" or a sentence. */
using Check = std::string (*)(const World& world);

/** Runs a check between MPI_Init_thread and MPI_Finalize; the exit status of the program. */
int run_check(int argc, char** argv, Check check);

/** A communicator over MPI_COMM_WORLD for the life of this object; throws if it is refused. */
class WorldComm {
 public:
  explicit WorldComm(const std::string& options);
  ~WorldComm() { gqsgd_comm_destroy(comm_); }
  WorldComm(const WorldComm&) = delete;
  WorldComm& operator=(const WorldComm&) = delete;
  gqsgd_comm get() const { return comm_; }

 private:
  gqsgd_comm comm_ = nullptr;
};

/** Seconds since some moment, and those of this process on a core. */
double wall_seconds();
double core_seconds();

}  // namespace gq::test

#endif
