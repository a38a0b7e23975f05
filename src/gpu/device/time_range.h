// Named stretches of a thread's time, for profilers that look at this process.
#ifndef GQ_GPU_DEVICE_TIME_RANGE_H
#define GQ_GPU_DEVICE_TIME_RANGE_H

namespace gq {

/** A range of NVTX for as long as it lives; where no profiler looks, or the library was built
 * without CUDA, nothing. Ranges of a thread lie within each other. */
class TimeRange {
 public:
  explicit TimeRange(const char* name);
  ~TimeRange();
  TimeRange(const TimeRange&) = delete;
  TimeRange& operator=(const TimeRange&) = delete;
};

}  // namespace gq

#endif
