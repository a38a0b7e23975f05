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

Status execute_refusal(const CheckedCall& checked) {
  GQ_TRY(checked.entered);
  Communicator& communicator = *checked.access;
  StreamCalls* const calls = communicator.calls_on(checked.call.stream);
  if (calls == nullptr && checked.call.captured) return Status();  // no rank waits for it
  Status outcome;
  if (calls != nullptr) {
    communicator.requests.drain();
    outcome = calls->refuse(checked.call, checked.own);
  } else {
    GQ_TRY(communicator.requests.await_turn());
    outcome = allreduce(communicator.endpoint, checked.call, checked.own);
  }
  // Its own status is what all ranks have agreed on, unless one of them has values that are not
  // finite.
  const bool agreed = outcome.code() == checked.own.code() || outcome.code() == GQSGD_NONFINITE;
  return agreed ? Status() : outcome;
}

}  // namespace gq
