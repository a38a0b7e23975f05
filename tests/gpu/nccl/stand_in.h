// What tests ask of the stand-in of NCCL besides NCCL's own functions.
#ifndef GQ_TESTS_GPU_NCCL_STAND_IN_H
#define GQ_TESTS_GPU_NCCL_STAND_IN_H

#ifdef __cplusplus
extern "C" {
#endif

/** Faults, process-wide. -1 and 0 stand for none where nothing else is said. */
struct StandInFaults {
  int fail_call;          ///< the n-th call from now on that enqueues something fails (1: the next)
  int fail_result;        ///< with this result
  int async_error;        ///< every communicator has this error from now on
  int in_progress_polls;  ///< calls on communicators that do not block are through after so many
                          ///< looks
  int flip_a_bit;         ///< a bit of the n-th message from now on is wrong (1: the next)
  int deaf_abort;         ///< 1: ncclCommAbort does not return
  int exchange_time_ms;   ///< what a group of messages takes before its words move
  int fail_register;      ///< the n-th registration of memory from now on fails (1: the next)
  int has_memory;         ///< 1: ncclMemAlloc has memory
  int slow_exchange;      ///< only each communicator's n-th group from now on takes that (1: the
                          ///< next; 0: all of them)
  int stuck_group;        ///< the n-th group of messages from now on of a communicator that blocks
                          ///< (1: the next) does not return before the communicator is aborted
  int enqueue_time_ms;    ///< what ncclGroupEnd takes
  int look_time_ms;       ///< what ncclCommGetAsyncError takes of one that does not block, where
                          ///< NCCL ends the thread of the last operation
};

void stand_in_set(const struct StandInFaults* faults);
/** What a null stream stands for. */
void stand_in_default_stream(void* stream);
/** Communicators that were made and neither destroyed nor aborted. */
int stand_in_comms(void);
/** Those that were aborted so far. */
int stand_in_aborts(void);
/** Those of them that were aborted while a thread was in ncclGroupEnd. */
int stand_in_aborts_inside(void);
/** How often a thread came to a communicator that does not block while another one was there: NCCL
 *  would free twice what it has for the last operation. */
int stand_in_crowds(void);

/** What all ranks enqueued so far. */
struct StandInTraffic {
  int sends;    ///< messages of ncclSend
  int gathers;  ///< calls of ncclAllGather
};
struct StandInTraffic stand_in_traffic(void);

/** What was registered with communicators so far, process-wide. */
struct StandInRegistrations {
  int registered;
  int deregistered;
  int live;        ///< of communicators that are neither destroyed nor aborted
  int allocated;   ///< allocations of ncclMemAlloc
  int violations;  ///< of NCCL's rules: deregistered without being registered, or after the end of
                   ///< the communicator; left at its destruction; freed while registered; messages
                   ///< of which one end is registered memory and the other is not
};
struct StandInRegistrations stand_in_registrations(void);

#ifdef __cplusplus
}
#endif

#endif
