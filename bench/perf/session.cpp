// Measures one size after the other; rank 0 reports what every rank measured.
#include "bench/perf/session.h"

#include "bench/machine.h"
#include "bench/perf/measure.h"
#include "bench/perf/report.h"
#include "bench/perf/team.h"

namespace gq::bench {

int measure_all(const Options& options, const std::string& command, Peers& peers) {
  const bool tells = peers.rank() == 0;
  if (options.bind && !bind_to_processor(peers.rank())) {
    throw Failure("--bind: this rank cannot be kept on a processor");
  }
  Measurement measurement(options, peers);
  std::vector<Row> rows;
  if (tells) print_head(options, command);
  for (size_t size_bytes : sizes_of(options)) {
    const std::vector<Row> of_size = measurement.measure(size_bytes);
    if (tells) print_rows(options, of_size);
    rows.insert(rows.end(), of_size.begin(), of_size.end());
  }
  if (!tells) return 0;
  print_foot(options, rows);
  if (!options.json_path.empty() && !write_json(options, command, rows)) {
    throw Failure("cannot write " + options.json_path);
  }
  return wrong_count(rows) == 0 ? 0 : 1;
}

}  // namespace gq::bench
