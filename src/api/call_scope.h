// What a function of the C ABI sets on its caller's thread, and gives back when it returns.
#ifndef GQ_API_CALL_SCOPE_H
#define GQ_API_CALL_SCOPE_H

#include "kernels/cpu/float_environment.h"
#include "src/api/last_error.h"
#include "src/support/posix/cancel_off.h"

namespace gq {
namespace {  // as FloatEnvironment

/** Rounding to nearest, with denormals, without traps of floating-point exceptions and without
 *  cancellation of the thread: for functions that compute with floats, wait or call back. Others
 *  need none of it. What computes in the scope is not inlined, so that arithmetic stays where the
 *  environment is set. */
class CallScope {
  const CancelOff whole_calls_;
  const FloatEnvironment environment_;
};

}  // namespace

template <typename Work>
[[gnu::noinline]] Status run_out_of_line(const Work& work) {
  return work();
}

/** Runs `work` in a CallScope. */
template <typename Work>
gqsgd_status in_call_scope(const Work& work) {
  const CallScope scope;
  return to_caller(run_out_of_line(work));
}

}  // namespace gq

#endif
