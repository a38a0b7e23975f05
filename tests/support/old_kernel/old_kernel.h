/* A kernel that does not know F_SEAL_FUTURE_WRITE, as those before 5.1: fcntl stands in the test
 * program, before the real one. */
#ifndef GQ_TESTS_SUPPORT_OLD_KERNEL_H
#define GQ_TESTS_SUPPORT_OLD_KERNEL_H

#ifdef __cplusplus
extern "C" {
#endif

/* While `without` is not 0, adding that seal fails with EINVAL. Of this process. */
void run_without_write_seal(int without);

#ifdef __cplusplus
}
#endif

#endif
