// How a checked call becomes a request that the caller holds a token of.
#ifndef GQ_API_REQUESTS_H
#define GQ_API_REQUESTS_H

#include "src/api/communicator.h"

namespace gq {

/** Puts a call with its segments, if it has any, or this rank's refusal of it, behind the requests
 * in flight. Where no request can be made, *request stays NULL, and the others are told in a call
 * that blocks. */
Status start_request(const Entry& entry, Call call, Segments&& segments, Status checked,
                     gqsgd_request* request);

}  // namespace gq

#endif
