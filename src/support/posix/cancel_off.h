// A thread that is cancelled in a call of this library would leave locks held and peers waiting.
#ifndef GQ_SUPPORT_POSIX_CANCEL_OFF_H
#define GQ_SUPPORT_POSIX_CANCEL_OFF_H

#include <pthread.h>

namespace gq {

/** Puts pthread_cancel() of this thread off for as long as it lives. */
class CancelOff {
 public:
  CancelOff() { pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before_); }
  ~CancelOff() { pthread_setcancelstate(before_, nullptr); }
  CancelOff(const CancelOff&) = delete;
  CancelOff& operator=(const CancelOff&) = delete;

 private:
  int before_ = PTHREAD_CANCEL_ENABLE;
};

}  // namespace gq

#endif
