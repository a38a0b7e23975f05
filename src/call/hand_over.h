// How one rank of a new group gives the others the result of a call of the old one.
#ifndef GQ_CALL_HAND_OVER_H
#define GQ_CALL_HAND_OVER_H

#include "src/execute/endpoint.h"

namespace gq {

/** What to do between two waits; false ends the transfer. */
struct KeepGoing {
  bool (*function)(void* user);
  void* user;
};

/** A collective of the new group: `bytes` of the rank that has them become those of all. ABORTED if
 *  `keep_going` ends it, which breaks the endpoint. May throw std::bad_alloc. */
Status hand_over(Endpoint& endpoint, bool has_them, std::vector<unsigned char>* bytes,
                 KeepGoing keep_going);

}  // namespace gq

#endif
