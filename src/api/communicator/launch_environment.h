// What torchrun, mpirun, mpiexec and srun put into the environment of the ranks that they start.
#ifndef GQ_API_COMMUNICATOR_LAUNCH_ENVIRONMENT_H
#define GQ_API_COMMUNICATOR_LAUNCH_ENVIRONMENT_H

#include "src/transport/network/network.h"

namespace gq {

/** Rank, size, rank 0's address, port and secret: docs/TRANSPORTS.md has the variables and their
 *  precedence. INVALID_ARGUMENT naming the variable that is missing or wrong, and its value. */
Status read_launch_environment(LaunchedGroup* group);

}  // namespace gq

#endif
