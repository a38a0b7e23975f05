// Threads for what NCCL may never return from: they belong to no one, and receive no signal of the
// program.
#ifndef GQ_TRANSPORT_NCCL_NCCL_ASIDE_H
#define GQ_TRANSPORT_NCCL_NCCL_ASIDE_H

#include <new>
#include <system_error>
#include <thread>

#include "src/support/posix/signals_blocked.h"

namespace gq {

/** Runs `body`, which owns all that it uses. False if the system has no thread to give. */
template <typename Body>
bool run_aside(Body body) {
  const SignalsBlocked blocked;
  try {
    std::thread(body).detach();
    return true;
  } catch (const std::system_error&) {
    return false;
  } catch (const std::bad_alloc&) {
    return false;
  }
}

}  // namespace gq

#endif
