// A client of the root of a group that forms: the test sends and receives the messages itself.
#ifndef GQ_TESTS_UNIT_TRANSPORT_BOOTSTRAP_CLIENT_H
#define GQ_TESTS_UNIT_TRANSPORT_BOOTSTRAP_CLIENT_H

#include <stddef.h>
#include <stdint.h>

#include <string>

#include "include/gqsgd.h"
#include "src/transport/bootstrap/bootstrap_messages.h"
#include "src/transport/bootstrap/packet_socket.h"
#include "src/transport/bootstrap/unique_id.h"

namespace gq::test {

UniqueId read_id(const gqsgd_unique_id& bytes);

/** A connection to rank 0; returns when rank 0 listens. */
ForkGuard connect_to_root(const gqsgd_unique_id& id);

/** One packet, without descriptors. */
void send_bytes(int socket, const void* bytes, size_t size_bytes);

JoinRequest join_request_of(const gqsgd_unique_id& id, uint32_t rank, uint32_t size);

/** A connection whose join request is sent; the descriptors of the rank are the ends of a pipe. */
ForkGuard join_as_client(const gqsgd_unique_id& id, uint32_t rank, uint32_t size);

/** The answer of rank 0: "NAME: sentence", or "closed". */
std::string answer_at(int socket);

}  // namespace gq::test

#endif
