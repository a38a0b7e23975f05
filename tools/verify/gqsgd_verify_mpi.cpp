// gqsgd-verify-mpi: whether every rank of MPI gets the bits of the format.
//
//   mpirun -n 4 gqsgd-verify-mpi
#define OMPI_SKIP_MPICXX 1  // the C interface is all that is used
#define MPICH_SKIP_MPICXX 1
#include <gqsgd_mpi.h>

#include <cstdio>

#include "bench/perf/team.h"
#include "tools/verify/options.h"

namespace gq::tools {
namespace {

int verify_world(const VerifyOptions& options) {
  gqsgd_comm comm = nullptr;
  bench::require(gqsgd_comm_create_mpi(MPI_COMM_WORLD, "", &comm), "gqsgd_comm_create_mpi");
  const int ended = verify(comm, options);
  bench::require(gqsgd_comm_destroy(comm), "gqsgd_comm_destroy");
  return ended;
}

}  // namespace
}  // namespace gq::tools

int main(int argc, char** argv) {
  gq::tools::VerifyOptions options;
  if (!gq::tools::read_options(argc, argv, &options)) return 2;
  if (options.help) return gq::tools::print_help(), 0;
  MPI_Init(&argc, &argv);
  int status = 2;
  try {
    status = gq::tools::verify_world(options);
  } catch (const std::exception& failure) {
    std::fprintf(stderr, "gqsgd-verify-mpi: %s\n", failure.what());
    MPI_Abort(MPI_COMM_WORLD, 2);  // the others would wait for this rank
  }
  MPI_Finalize();
  return status;
}
