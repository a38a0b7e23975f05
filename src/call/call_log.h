// Lines of the log about calls: with GQSGD_LOG=info one for each new kind of call of a
// communicator, with GQSGD_LOG=trace one for each call.
#ifndef GQ_CALL_CALL_LOG_H
#define GQ_CALL_CALL_LOG_H

#include "src/execute/endpoint.h"

namespace gq {

/** One call on one rank. Both members do nothing where nothing is logged. */
class CallLog {
 public:
  /** Takes the counters and the time before the call. */
  void begin(const Endpoint& endpoint, const Call& call);

  /** `schedule` is the name of the one that was executed; not used after a failure. */
  void end(Endpoint* endpoint, const Call& executed, const char* schedule, Status status);

 private:
  void log_kind(Endpoint* endpoint, const Call& executed, const char* schedule) const;

  bool is_on_ = false;
  Call asked_;
  uint64_t begun_ns_ = 0;
  TransportCounters before_;
};

}  // namespace gq

#endif
