// How peers see that a rank has died: a pipe whose writing end only that rank holds. When it is
// gone, by whatever death, the kernel hangs up on every reader.
#ifndef GQ_TRANSPORT_PROCESS_LIVENESS_PIPE_H
#define GQ_TRANSPORT_PROCESS_LIVENESS_PIPE_H

#include "src/support/posix/fork.h"
#include "src/transport/process/descriptor.h"

namespace gq {

/** The rank's own end; nothing is ever written to it. A forked child does not keep it. */
class LivenessPipe {
 public:
  /** `watched`, which is none yet, becomes the end to hand to the peers. */
  Status make(Descriptor* watched);

 private:
  ForkGuard held_;
};

}  // namespace gq

#endif
