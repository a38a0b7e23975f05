// The control message's fields by name: where each lies, and what its values are called. Finds the
// first field in which two control messages differ and writes a sentence about it.
#ifndef GQ_CALL_CONTROL_FIELDS_H
#define GQ_CALL_CONTROL_FIELDS_H

#include "src/schedule/nodes.h"
#include "src/support/status.h"
#include "src/transport/control_message.h"

namespace gq {

/** True of operations on segments: the control message has the hash of their lengths where an
 * allreduce has its norm. */
bool has_segments(const ControlMessage& control);

/** True if both ask for the same operation: all words but status, number of the call, digest,
 *  checksum and an allreduce's norm. */
bool same_request(const ControlMessage& a, const ControlMessage& b);

/** True of a control message that no correct rank of this version makes: bits are set that no field
 * has, the checksum is wrong, or a digest is there where ranks have none. */
bool has_spare_bits(const ControlMessage& control, bool has_digests);

/** MISMATCH or VERSION naming the first differing field, both ranks and both values. PROTOCOL where
 *  all fields are equal, naming the rank whose spare bits are set. nodes: this rank's, which are
 *  shown where nodes differ: of other ranks there is a digest alone. */
Status describe_mismatch(uint64_t sequence, uint32_t rank_a, const ControlMessage& a,
                         uint32_t rank_b, const ControlMessage& b, bool has_digests,
                         const Nodes& nodes);

}  // namespace gq

#endif
