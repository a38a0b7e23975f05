// A whole measurement on one rank: all sizes, printed and written by rank 0.
#ifndef GQ_BENCH_PERF_SESSION_H
#define GQ_BENCH_PERF_SESSION_H

#include <string>

#include "bench/perf/options.h"
#include "bench/perf/peers.h"

namespace gq::bench {

/** The exit status of this rank: 1 if any value was wrong. */
int measure_all(const Options& options, const std::string& command, Peers& peers);

}  // namespace gq::bench

#endif
