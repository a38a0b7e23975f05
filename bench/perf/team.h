// Runs one function on all ranks, threads or processes, and gives them memory to share. What they
// measure is measure.h's matter.
#ifndef GQ_BENCH_PERF_TEAM_H
#define GQ_BENCH_PERF_TEAM_H

#include <gqsgd.h>

#include <cstddef>
#include <functional>
#include <stdexcept>
#include <string>

namespace gq::bench {

/** A call of the library that failed; its message is the library's. */
class Failure : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/** Throws Failure unless `status` is OK. */
void require(gqsgd_status status, const char* what);

/** Zeroed memory that threads and forked processes share; it lives as long as the program. */
void* shared_bytes(size_t size_bytes);

/** What a rank does; the exit status of the program is the largest that a rank returns. */
using RankMain = std::function<int(int rank, gqsgd_comm comm)>;

/** Runs all ranks to their end. A rank that throws prints what, and counts as 2; the others then
 * see it leave and fail too. */
int run_team(bool ranks_are_processes, int rank_count, const std::string& comm_options,
             const RankMain& rank_main);

}  // namespace gq::bench

#endif
