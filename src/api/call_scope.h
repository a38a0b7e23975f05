// What a function of the C ABI sets on its caller's thread, and gives back when it returns.
#ifndef GQ_API_CALL_SCOPE_H
#define GQ_API_CALL_SCOPE_H

#include "kernels/cpu/float_environment.h"
#include "src/support/cancel_off.h"
#include "src/support/status.h"

namespace gq {

/** Not inlined, so that arithmetic stays where the environment is set. */
template <typename Work>
[[gnu::noinline]] Status run_out_of_line(const Work& work) {
  return work();
}

/** Runs `work` to nearest, with denormals, without traps of floating-point exceptions and without
 *  cancellation of the thread: for functions that compute with floats, wait or call back. Others
 *  need none of it. */
template <typename Work>
gqsgd_status in_call_scope(const Work& work) {
  const CancelOff whole_calls;
  const FloatEnvironment environment;
  return run_out_of_line(work).code();
}

}  // namespace gq

#endif
