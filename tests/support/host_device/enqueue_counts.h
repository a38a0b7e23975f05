// What a thread has enqueued on streams that are threads: the unit in which a host pays for a call.
#ifndef GQ_TESTS_SUPPORT_HOST_DEVICE_ENQUEUE_COUNTS_H
#define GQ_TESTS_SUPPORT_HOST_DEVICE_ENQUEUE_COUNTS_H

#include <cstdint>

namespace gq::test {

/** Events are not counted. */
struct EnqueueCounts {
  uint64_t kernels = 0;
  uint64_t copies = 0;       ///< and memory that is set
  uint64_t collectives = 0;  ///< of the stand-in of NCCL: collectives, and groups of messages

  uint64_t all() const { return kernels + copies + collectives; }
};

/** Of the calling thread. */
inline EnqueueCounts& enqueue_counts() {
  thread_local EnqueueCounts counts;
  return counts;
}

}  // namespace gq::test

#endif
