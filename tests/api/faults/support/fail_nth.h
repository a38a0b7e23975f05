/* Makes one chosen allocation or system call of this thread fail: the functions that the library
 * takes from the C library stand in the test program, before the real ones. */
#ifndef GQ_TESTS_API_FAULTS_SUPPORT_FAIL_NTH_H
#define GQ_TESTS_API_FAULTS_SUPPORT_FAIL_NTH_H

#ifdef __cplusplus
extern "C" {
#endif

/* From now on, the `nth` (from 1) such call of this thread fails, once. */
void fail_nth(unsigned long nth);

/* Ends that for now. Returns the number to go on with: 0 if the call has failed. */
unsigned long fail_nth_pause(void);

/* The name of the function that failed since the last question; NULL if none did. */
const char *fail_nth_failed(void);

/* From now on a signal interrupts every fallocate of this thread of more than `size_bytes`; 0:
 * none. */
void interrupt_longer_commits(long size_bytes);

/* Heap memory that is in use in this process; unlike mallinfo, exactly. */
long heap_bytes_in_use(void);

#ifdef __cplusplus
}
#endif

#endif
