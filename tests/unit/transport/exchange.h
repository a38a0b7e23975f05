// One operation on a transport as an executor makes it: control messages first, then words from
// every rank to every other, read where they lie and compared.
#ifndef GQ_TESTS_UNIT_TRANSPORT_EXCHANGE_H
#define GQ_TESTS_UNIT_TRANSPORT_EXCHANGE_H

#include <string>

#include "src/transport/host_transport.h"

namespace gq::test {

inline constexpr int64_t kTimeoutMs = 20000;

/** "OK", or "PEER_LOST: sentence". */
std::string text_of(Status status);

/** A control message that only `rank` makes for `sequence`. */
ControlMessage control_of(uint32_t rank, uint64_t sequence);

/** Sends one, then collects the control messages of all peers. */
Status agree(HostTransport& transport, uint64_t sequence, int64_t timeout_ms = kTimeoutMs);

/** Sends a control message for `sequence`, collects all, sends every peer `message_bytes` of words
 * that depend on (rank, peer, sequence), and checks what the peers sent. Breaks off with TIMEOUT
 * after `timeout_ms` without progress. A wrong word is INTERNAL. */
Status exchange(HostTransport& transport, uint64_t sequence, size_t message_bytes = 4096,
                int64_t timeout_ms = kTimeoutMs);

/** Waits until the next message of `message.peer` is there. */
Status receive_blocking(HostTransport& transport, const Message& message,
                        const unsigned char** words, int64_t timeout_ms = kTimeoutMs);

}  // namespace gq::test

#endif
