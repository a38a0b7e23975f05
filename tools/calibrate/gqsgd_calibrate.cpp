// gqsgd-calibrate: the constants of the cost model on this machine, as a string. See --help.
#include <cstdio>

#include "tools/calibrate/conclude.h"

namespace gq::tools {
namespace {

/** Where the descent starts: shared memory, whose bytes stages read in place. */
CostConstants first_guess() {
  CostConstants constants = built_in_costs();
  constants.cpus = usable_cpus();
  constants.latency_ns = 5000;
  constants.message_ns = 1000;
  constants.byte_ns = 0.02;
  return constants;
}

int run(CalibrateOptions options) {
  if (options.rank_counts.empty()) options.rank_counts = {2, 4};
  require_writable(options);
  // Processes are forked before threads are started.
  const std::vector<TimedCall> calls = time_calls(options);
  conclude(options, options.ranks_are_processes ? "process" : "local", calls, first_guess());
  return 0;
}

}  // namespace
}  // namespace gq::tools

int main(int argc, char** argv) {
  gq::tools::CalibrateOptions options;
  const gq::tools::Parsed parsed = gq::tools::parse_options(argc, argv, &options);
  if (parsed == gq::tools::Parsed::stop) return 0;
  if (parsed == gq::tools::Parsed::refused) return 2;
  try {
    return gq::tools::run(options);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "gqsgd-calibrate: %s\n", error.what());
    return 1;
  }
}
