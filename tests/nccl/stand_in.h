// What tests ask of the stand-in of NCCL besides NCCL's own functions.
#ifndef GQ_TESTS_NCCL_STAND_IN_H
#define GQ_TESTS_NCCL_STAND_IN_H

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
  int flip_a_bit;         ///< 1: a bit of the next message is wrong on its way
  int deaf_abort;         ///< 1: ncclCommAbort does not return
};

void stand_in_set(const struct StandInFaults* faults);
/** What a null stream stands for. */
void stand_in_default_stream(void* stream);
/** Communicators that were made and neither destroyed nor aborted. */
int stand_in_comms(void);
/** Those that were aborted so far. */
int stand_in_aborts(void);

#ifdef __cplusplus
}
#endif

#endif
