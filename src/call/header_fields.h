// The header's fields by name: where each lies, and what its values are called. Finds the first
// field in which two headers differ and writes a sentence about it.
#ifndef GQ_CALL_HEADER_FIELDS_H
#define GQ_CALL_HEADER_FIELDS_H

#include "src/support/status.h"
#include "src/transport/header.h"

namespace gq {

/** True of operations on segments: the header has the hash of their lengths where an allreduce has
 *  its norm. */
bool has_segments(const Header& header);

/** True if both ask for the same operation: all words but status, number of the call and an
 *  allreduce's norm. */
bool same_request(const Header& a, const Header& b);

/** True of a header that no correct rank of this version makes: bits are set that no field has. */
bool has_spare_bits(const Header& header);

/** MISMATCH or VERSION naming the first differing field, both ranks and both values. PROTOCOL where
 *  all fields are equal, naming the rank whose spare bits are set. */
Status describe_mismatch(uint64_t sequence, uint32_t rank_a, const Header& a, uint32_t rank_b,
                         const Header& b);

}  // namespace gq

#endif
