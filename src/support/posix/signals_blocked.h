// Threads of the library get no signal of the program: they are made while all are blocked.
#ifndef GQ_SUPPORT_POSIX_SIGNALS_BLOCKED_H
#define GQ_SUPPORT_POSIX_SIGNALS_BLOCKED_H

#include <pthread.h>
#include <signal.h>

namespace gq {

/** For the calling thread, and so for those that are made while it lives. */
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_;
};

}  // namespace gq

#endif
