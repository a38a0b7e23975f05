// The group that follows an old one: its transport, by the kind of its id, and the options that its
// ranks have from the old one.
#ifndef GQ_API_COMMUNICATOR_SUCCESSOR_H
#define GQ_API_COMMUNICATOR_SUCCESSOR_H

#include "src/api/communicator/communicator.h"
#include "src/transport/deadline.h"

namespace gq {

struct NewRank {
  const gqsgd_unique_id* id;
  uint32_t rank;
  uint32_t size;
};

/** Joins the group of an id, which decides the transport; *name is that of gqsgd_comm_transport.
 *  `interrupt` ends it early. `own`: a failure that keeps this rank from joining, which the others
 *  are told. */
Status join_group(const NewRank& place, const CommOptions& options, Interrupt interrupt,
                  const Status& own, const char** name, std::unique_ptr<HostTransport>* transport);

/** UNSUPPORTED for a communicator over a library that makes its groups itself. */
Status check_can_be_followed(const Communicator& communicator, const char* what_is_done);

/** What a successor has unless its options say otherwise. */
Status read_successor_options(const Communicator& communicator, CommOptions* defaults);

/** INVALID_ARGUMENT for options that are the old group's. */
Status check_not_given(const CommOptions& options);

}  // namespace gq

#endif
