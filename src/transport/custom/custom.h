// Ranks that reach each other through a table of functions that the caller gave.
#ifndef GQ_TRANSPORT_CUSTOM_CUSTOM_H
#define GQ_TRANSPORT_CUSTOM_CUSTOM_H

#include <memory>

#include "include/gqsgd_transport.h"
#include "src/transport/transport.h"

namespace gq {

/** One end on a table whose fields have been checked. */
Status create_custom(const gqsgd_transport& table, std::unique_ptr<Transport>* out);

/** From now on a transport that create_custom() made closes its table at its end: the table is the
 *  caller's until nothing can fail any more. */
void adopt_table(Transport& transport);

}  // namespace gq

#endif
