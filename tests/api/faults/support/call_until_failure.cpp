// The loop, and the clock that all processes of a machine share.
#include "tests/api/faults/support/call_until_failure.h"

#include <time.h>

namespace gq::test {

uint64_t now_us() {
  timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<uint64_t>(time.tv_sec) * 1000000 + static_cast<uint64_t>(time.tv_nsec) / 1000;
}

std::string call_until_failure(gqsgd_comm comm, Call* call, Trace* trace,
                               const std::function<void()>& before) {
  for (;;) {
    if (before) before();
    trace->begun = trace->begun + 1;
    const Outcome outcome = call->make(comm);
    if (outcome.status == GQSGD_OK) {
      trace->finished = trace->finished + 1;
      continue;
    }
    trace->returned_us = now_us();
    const Outcome again = call->make(comm);
    const Outcome kept = outcome_of(gqsgd_comm_status(comm));
    const bool stays = again.status == outcome.status && kept.status == outcome.status;
    return outcome.text() + (stays ? "" : ", then " + again.text() + ", " + kept.text());
  }
}

}  // namespace gq::test
