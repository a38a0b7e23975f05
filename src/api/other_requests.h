// Requests over transports that only callers' threads may use, while such a thread waits elsewhere.
#ifndef GQ_API_OTHER_REQUESTS_H
#define GQ_API_OTHER_REQUESTS_H

#include "src/api/communicator/communicator.h"

namespace gq {

/** The calling thread has started a request of the communicator. May throw std::bad_alloc. */
void note_request(const Communicator& communicator);

/** Makes progress in the requests that the calling thread has started in communicators other than
 *  that of `waiting`, without waiting for any. True if there are some. Ranks may so wait for
 *  requests of several communicators each in an order of its own. */
bool progress_other_requests(const Endpoint* waiting);

}  // namespace gq

#endif
