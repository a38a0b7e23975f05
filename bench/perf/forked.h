// Ranks as threads of this process or as its children, with memory that they share.
#ifndef GQ_BENCH_PERF_FORKED_H
#define GQ_BENCH_PERF_FORKED_H

#include <functional>

#include "bench/perf/options.h"
#include "bench/perf/team.h"

namespace gq::bench {

/** What a rank does; the exit status of the program is the largest that a rank returns. */
using RankMain = std::function<int(Team& team)>;

/** Runs all ranks to their end. A rank that throws prints what, and counts as 2; the others then
 * see it leave and fail too. */
int run_team(const Options& options, const RankMain& rank_main);

}  // namespace gq::bench

#endif
