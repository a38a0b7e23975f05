// Ranks that reach each other through a table of functions that the caller gave.
#ifndef GQ_TRANSPORT_CUSTOM_CUSTOM_H
#define GQ_TRANSPORT_CUSTOM_CUSTOM_H

#include <memory>

#include "include/gqsgd_transport.h"
#include "src/transport/host_transport.h"

namespace gq {

class CustomTransport;

/** One end on a table whose fields have been checked; *made is the same one. */
Status create_custom(const gqsgd_transport& table, std::unique_ptr<HostTransport>* out,
                     CustomTransport** made);

/** From now on it closes its table at its end: the table is the caller's until nothing can fail any
 *  more. */
void adopt_table(CustomTransport* transport);

}  // namespace gq

#endif
