// Who executes a blocking call: the progress loop of this thread, or the calls on a stream.
#include "src/api/execute_call.h"

namespace gq {

Status execute_call(const CheckedCall& checked) {
  GQ_TRY(checked.entered);
  Communicator& communicator = *checked.access;
  StreamCalls* const calls = communicator.calls_on(checked.call.stream);
  if (calls != nullptr) {
    communicator.requests.drain();
    return calls->run(checked.call, checked.own);
  }
  if (checked.call.captured) return checked.own;
  GQ_TRY(communicator.requests.await_turn());
  return allreduce(communicator.endpoint, checked.call, checked.own);
}

}  // namespace gq
