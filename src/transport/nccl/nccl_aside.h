// Threads for what NCCL may never return from: they belong to no one, and receive no signal of the
// program.
#ifndef GQ_TRANSPORT_NCCL_NCCL_ASIDE_H
#define GQ_TRANSPORT_NCCL_NCCL_ASIDE_H

#include <signal.h>

#include <new>
#include <system_error>
#include <thread>

namespace gq {

/** Runs `body`, which owns all that it uses. False if the system has no thread to give. */
template <typename Body>
bool run_aside(Body body) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  bool begun = true;
  try {
    std::thread(body).detach();
  } catch (const std::system_error&) {
    begun = false;
  } catch (const std::bad_alloc&) {
    begun = false;
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return begun;
}

}  // namespace gq

#endif
