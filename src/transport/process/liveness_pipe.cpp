// The pipe, made while no other thread may fork.
#include "src/transport/process/liveness_pipe.h"

#include <errno.h>
#include <fcntl.h>

#include "src/transport/system_failure.h"

namespace gq {

Status LivenessPipe::make(Descriptor* watched) {
  ForkHold hold;
  int ends[2];
  if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) {
    return system_failure(errno, "a pipe by which peers see this rank alive");
  }
  watched->attach(ends[0]);
  held_.attach(ends[1]);
  return Status();
}

}  // namespace gq
