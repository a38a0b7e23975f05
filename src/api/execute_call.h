// A checked call runs now, or later as a request. A call that fails its checks still exchanges its
// control message, and no other rank waits for it.
#ifndef GQ_API_EXECUTE_CALL_H
#define GQ_API_EXECUTE_CALL_H

#include "src/api/communicator/communicator.h"

namespace gq {

/** A call on a communicator, which no other thread can enter for as long as it lives. */
struct CheckedCall {
  /** check(communicator, &call, &buffers) fills the call, and `buffers` where it has several. */
  template <typename Check>
  CheckedCall(gqsgd_comm comm, const Check& check) : entered(enter(comm)) {
    if (entered.ok()) own = check(*access, &call, &buffers);
  }

  ExclusiveAccess access;
  Call call;
  SegmentedBuffers buffers;
  Status entered;  ///< a failure before any check: other ranks learn nothing of it
  Status own;      ///< this rank's refusal of the call

 private:
  Status enter(gqsgd_comm comm) {
    GQ_TRY(access.enter(comm));
    return access->endpoint.intact();
  }
};

/** Returns when the call has ended, or is on its stream. */
Status execute_call(const CheckedCall& checked);

/** A call that this rank refuses for its caller: OK once the other ranks are notified, else what
 * broke the communicator. */
Status execute_refusal(const CheckedCall& checked);

/** Puts the call behind the requests in flight. Where no request can be made, *request is NULL, and
 *  a blocking call notifies the other ranks. */
Status start_request(CheckedCall* checked, gqsgd_request* request);

}  // namespace gq

#endif
