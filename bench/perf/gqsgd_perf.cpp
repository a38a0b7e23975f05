// gqsgd-perf: times allreduces over sizes, formats and schedules, with every rank's bits checked.
// See --help; the parts are in options, team, measure and report.
#include <cstdio>
#include <string>
#include <vector>

#include "bench/perf/measure.h"
#include "bench/perf/options.h"
#include "bench/perf/report.h"
#include "bench/perf/team.h"

namespace {

using namespace gq::bench;

/** All sizes on one rank; rank 0 prints and decides the exit status. */
int measure_all(const Options& options, const Shared& shared, const std::string& command, int rank,
                gqsgd_comm comm) {
  Measurement measurement(options, shared, rank, comm);
  std::vector<Row> rows;
  for (size_t size_bytes : sizes_of(options)) {
    const std::vector<Row> of_size = measurement.measure(size_bytes);
    if (rank == 0) print_rows(options, of_size);
    rows.insert(rows.end(), of_size.begin(), of_size.end());
  }
  if (rank != 0) return 0;
  print_foot(options, rows);
  if (!options.json_path.empty() && !write_json(options, command, rows)) {
    throw Failure("cannot write " + options.json_path);
  }
  return wrong_count(rows) == 0 ? 0 : 1;
}

/** Refuses a bad format once, before there are ranks that would all refuse it. */
void check_formats(const Options& options) {
  for (const std::string& format : options.formats) {
    gqsgd_quantizer quantizer = nullptr;
    require(gqsgd_quantizer_create(format.c_str(), &quantizer), "--format");
    gqsgd_quantizer_destroy(quantizer);
  }
}

}  // namespace

int main(int argc, char** argv) {
  std::string command = "gqsgd-perf";
  for (int i = 1; i < argc; ++i) command += std::string(" ") + argv[i];
  Options options;
  switch (parse_options(argc, argv, &options)) {
    case Parsed::stop:
      return 0;
    case Parsed::refused:
      return 2;
    case Parsed::run:
      break;
  }
  try {
    check_formats(options);
    const Shared shared = make_shared(options);
    print_head(options, command);
    return run_team(options.ranks_are_processes, options.rank_count, options.comm_options,
                    [&](int rank, gqsgd_comm comm) {
                      return measure_all(options, shared, command, rank, comm);
                    });
  } catch (const std::exception& error) {
    std::fprintf(stderr, "gqsgd-perf: %s\n", error.what());
    return 2;
  }
}
