// The MPI under test: its C interface alone.
#ifndef GQ_TESTS_API_MPI_ADAPTER_H
#define GQ_TESTS_API_MPI_ADAPTER_H

#define OMPI_SKIP_MPICXX 1
#define MPICH_SKIP_MPICXX 1
#include <gqsgd_mpi.h>

#endif
