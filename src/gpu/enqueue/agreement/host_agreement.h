// How ranks agree on a call on a stream where their hosts synchronize: control messages are
// compared on the hosts before anything is enqueued, so that a difference is found at once, on all
// ranks.
#ifndef GQ_GPU_ENQUEUE_AGREEMENT_HOST_AGREEMENT_H
#define GQ_GPU_ENQUEUE_AGREEMENT_HOST_AGREEMENT_H

#include "src/call/agreement.h"
#include "src/gpu/enqueue/call_on_stream.h"

namespace gq {

class HostAgreement {
 public:
  explicit HostAgreement(Endpoint* endpoint) : endpoint_(*endpoint) {}

  /** The agreed status of the control messages, or a failure to get them. `own` is this rank's
   *  refusal. */
  Status exchange(const CallOnStream& call, Status own, Status* outcome);

 private:
  Status await(Agreement* agreement);

  Endpoint& endpoint_;
};

}  // namespace gq

#endif
