// How a checked call becomes a request that the caller holds a token of.
#ifndef GQ_API_REQUESTS_H
#define GQ_API_REQUESTS_H

#include "src/api/communicator/communicator.h"

namespace gq {

inline Status execute_call(const ExclusiveAccess& access, const Call& call, Status checked) {
  StreamCalls* const calls = access->calls_on(call.stream);
  if (calls == nullptr) return call.captured ? checked : access->requests.run(call, checked);
  access->requests.drain();
  return calls->run(call, checked);
}

/** A failed check of this rank in place of a call, behind the requests in flight: OK once the other
 *  ranks are notified, else what broke the communicator. */
Status execute_refusal(const ExclusiveAccess& access, const Call& call);

/** Puts a call with its segments, if it has any, or this rank's refusal of it, behind the requests
 * in flight. Where no request can be made, *request stays NULL, and a blocking call notifies the
 * other ranks. */
Status start_request(const ExclusiveAccess& access, Call call, Segments&& segments, Status checked,
                     gqsgd_request* request);

}  // namespace gq

#endif
