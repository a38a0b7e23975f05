/* libgqsgd_mpi.so: gqsgd_mpi.h compiled once, for languages that cannot compile it themselves. */
#define GQSGD_MPI_API
#include <gqsgd_mpi.h>
