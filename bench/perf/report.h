// Prints rows as the table of nccl-tests and as JSON.
#ifndef GQ_BENCH_PERF_REPORT_H
#define GQ_BENCH_PERF_REPORT_H

#include <string>
#include <vector>

#include "bench/perf/measure.h"
#include "bench/perf/options.h"

namespace gq::bench {

/** Machine, library, configuration and the columns' heads. */
void print_head(const Options& options, const std::string& command);

/** One size. The first row of each schedule is none, to which ratios refer. */
void print_rows(const Options& options, const std::vector<Row>& rows);

/** Wrong values and the average bus bandwidth. */
void print_foot(const Options& options, const std::vector<Row>& rows);

/** False if the file could not be written. */
bool write_json(const Options& options, const std::string& command, const std::vector<Row>& rows);

uint64_t wrong_count(const std::vector<Row>& rows);

}  // namespace gq::bench

#endif
