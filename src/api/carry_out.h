// A checked call runs now, or later as a request. A refused one still takes its turn in the group,
// so that no other rank waits for this one.
#ifndef GQ_API_CARRY_OUT_H
#define GQ_API_CARRY_OUT_H

#include <utility>

#include "src/api/requests.h"

namespace gq {

/** check(communicator, &call, &segments) fills the call, and segments where it has more than one
 *  buffer. */
template <typename Check>
Status run_call(gqsgd_comm comm, Check check) {
  Entry entry;
  GQ_TRY(entry.enter(comm));
  GQ_TRY(entry->endpoint.intact());
  Call call;
  Segments segments;
  const Status checked = check(*entry, &call, &segments);
  return carry_out(entry, call, checked);
}

template <typename Check>
Status start_call(gqsgd_comm comm, gqsgd_request* request, Check check) {
  if (request != nullptr) *request = nullptr;
  Entry entry;
  GQ_TRY(entry.enter(comm));
  GQ_TRY(entry->endpoint.intact());
  Call call;
  Segments segments;
  const Status checked = check(*entry, &call, &segments);
  return start_request(entry, call, std::move(segments), checked, request);
}

}  // namespace gq

#endif
