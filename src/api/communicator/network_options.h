// What the environment adds to the options of a network.
#ifndef GQ_API_COMMUNICATOR_NETWORK_OPTIONS_H
#define GQ_API_COMMUNICATOR_NETWORK_OPTIONS_H

#include "src/api/communicator/options_string.h"

namespace gq {

/** GQSGD_INTERFACE and GQSGD_HOST_ID, where the options do not say it. */
Status read_network_environment(CommOptions* options);

}  // namespace gq

#endif
