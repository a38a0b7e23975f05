// A checked call runs now, or later as a request. A call that fails its checks still exchanges its
// control message, and no other rank waits for it.
#ifndef GQ_API_EXECUTE_CALL_H
#define GQ_API_EXECUTE_CALL_H

#include <utility>

#include "src/api/requests.h"

namespace gq {

/** check(communicator, &call, &segments) fills the call, and segments where it has more than one
 *  buffer. */
template <typename Check>
Status run_call(gqsgd_comm comm, Check check) {
  ExclusiveAccess access;
  GQ_TRY(access.enter(comm));
  GQ_TRY(access->endpoint.intact());
  Call call;
  Segments segments;
  const Status checked = check(*access, &call, &segments);
  return execute_call(access, call, checked);
}

template <typename Check>
Status start_call(gqsgd_comm comm, gqsgd_request* request, Check check) {
  if (request != nullptr) *request = nullptr;
  ExclusiveAccess access;
  GQ_TRY(access.enter(comm));
  GQ_TRY(access->endpoint.intact());
  Call call;
  Segments segments;
  const Status checked = check(*access, &call, &segments);
  return start_request(access, call, std::move(segments), checked, request);
}

}  // namespace gq

#endif
