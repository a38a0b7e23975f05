/* libgqsgd_mpi.so: gqsgd_mpi.h compiled once, for languages that cannot compile it themselves. */
#define GQSGD_MPI_API __attribute__((visibility("default")))
#include <gqsgd_mpi.h>
