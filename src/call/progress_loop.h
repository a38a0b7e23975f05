// Advances an allreduce to its end: by a thread that sleeps in the one wait primitive, or by calls
// that never sleep. virtual_ranks.h advances all ranks on one thread. The state machine is the
// same.
#ifndef GQ_CALL_PROGRESS_LOOP_H
#define GQ_CALL_PROGRESS_LOOP_H

#include "src/call/allreduce.h"
#include "src/call/call_log.h"

namespace gq {

/** One call on one rank, with the clock that runs while nothing happens. The caller decides whether
 *  to sleep. A failure that the ranks do not share breaks the endpoint. */
class ProgressLoop {
 public:
  /** `own` is a refusal of the call. An endpoint that is broken already ends the call at once. */
  void begin(Endpoint& endpoint, const Call& call, Status own);

  /** Advances as far as possible without waiting. True once the call has ended. */
  bool advance();
  /** Sleeps until something may have changed: a peer's news, a death, the timeout. */
  void wait();
  /** wait() without the sleep. */
  void look();

  bool has_ended() const { return ended_; }
  /** OK if the result is complete, whatever has broken the endpoint meanwhile; else what broke it
   *  first, or how the call ended. */
  const Status& status() const { return status_; }

 private:
  void end(Status status);
  void shorten_pause(uint64_t least_ns);
  void give_up_in_time();

  Endpoint* endpoint_ = nullptr;
  Allreduce operation_;
  CallLog log_;
  bool sent_control_ = false;
  bool has_others_ = false;  // requests of this thread in other communicators
  bool ended_ = true;
  Status status_;
  uint64_t progress_ = 0;
  uint64_t progress_ns_ = 0;  // when something last happened
  uint64_t looked_ns_ = 0;    // time of the last check
};

/** Blocking: advances one call to its end, sleeping where it has to wait. */
Status allreduce(Endpoint& endpoint, const Call& call, Status own);

/** The same without a call: the ranks measure the constants that their options leave to them. */
Status measure_costs(Endpoint& endpoint);

/** Breaks an endpoint from any thread, also in a signal handler: "rank 2 aborted its communicator".
 */
void abort_endpoint(Endpoint& endpoint);

/** Breaks an endpoint from any thread, without waiting: "rank 2 `what`". */
void abort_group(Endpoint& endpoint, const char* what);

}  // namespace gq

#endif
