// The descriptors that UCX opens for an engine. UCX leaves them to every child of the process.
#ifndef GQ_TRANSPORT_UCX_UCX_DESCRIPTORS_H
#define GQ_TRANSPORT_UCX_UCX_DESCRIPTORS_H

#include <sys/types.h>

#include <vector>

#include "src/support/posix/fork.h"

namespace gq {

/** May throw std::bad_alloc. Needs /proc; without it nothing is guarded. */
class UcxDescriptors {
 public:
  /** Before UCX opens any for this engine: sockets that are there already are not its own. */
  void note_sockets();
  /** Once all connections are there: programs that are executed do not get what UCX has opened, and
   *  forked children close the sockets of this engine. `event_fd` is the worker's. */
  void guard(int event_fd);

 private:
  std::vector<ino_t> foreign_;
  ForkSockets sockets_;
};

}  // namespace gq

#endif
