// Times of calls on the host's clock.
#ifndef GQ_BENCH_GPU_CALL_TIMES_H
#define GQ_BENCH_GPU_CALL_TIMES_H

#include <algorithm>
#include <chrono>
#include <vector>

namespace gq::bench {

using Clock = std::chrono::steady_clock;

inline double us_since(Clock::time_point begin) {
  return std::chrono::duration<double, std::micro>(Clock::now() - begin).count();
}

inline double median(std::vector<double> times) {
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

}  // namespace gq::bench

#endif
