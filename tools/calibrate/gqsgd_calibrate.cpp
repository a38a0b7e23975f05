// gqsgd-calibrate: the constants of the cost model on this machine, as a text. See --help.
#include <gqsgd.h>
#include <sched.h>

#include <cstdio>
#include <string>

#include "bench/machine.h"
#include "bench/perf/team.h"
#include "src/support/names.h"
#include "tools/calibrate/fit.h"
#include "tools/calibrate/options.h"
#include "tools/calibrate/stage_costs.h"

namespace gq::tools {
namespace {

int usable_cpus() {
  cpu_set_t set;
  return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
}

/** Where the descent starts: shared memory, whose bytes stages read in place. */
CostConstants first_guess() {
  CostConstants constants = built_in_costs();
  constants.cpus = usable_cpus();
  constants.latency_ns = 5000;
  constants.message_ns = 1000;
  constants.byte_ns = 0.02;
  return constants;
}

void print_calls(FILE* file, const std::vector<TimedCall>& calls, const CostConstants& constants) {
  std::fprintf(file,
               "#\n#  ranks        bytes  format     schedule    measured us  predicted us\n");
  for (const TimedCall& call : calls) {
    double predicted_ns = 0;
    if (!predict_time(call.question, constants, &predicted_ns).ok()) continue;
    std::fprintf(file, "# %6u %12zu  %-9s  %-9s  %12.1f  %12.1f\n", call.question.ranks,
                 static_cast<size_t>(call.question.value_count) * sizeof(float),
                 call.format.c_str(),
                 name_in(names_of(kScheduleList), static_cast<size_t>(call.question.schedule_id)),
                 call.time_ns * 1e-3, predicted_ns * 1e-3);
  }
}

void print(FILE* file, const CalibrateOptions& options, const std::vector<TimedCall>& calls,
           const CostConstants& constants) {
  std::string text(describe_costs(constants, nullptr, 0), '\0');
  describe_costs(constants, text.data(), text.size() + 1);
  std::fprintf(file,
               "# Costs for schedule=auto, measured by gqsgd-calibrate; the same file for every "
               "rank.\n# %s\n# %s\n# transport %s; calls are met within %.0f %% on average\n",
               bench::machine().c_str(), gqsgd_build_info(),
               options.ranks_are_processes ? "process" : "local", 100 * misfit(calls, constants));
  if (options.verbose) print_calls(file, calls, constants);
  std::fputs(text.c_str(), file);
}

int run(const CalibrateOptions& options) {
  CostConstants constants = first_guess();
  // Processes are forked before threads are started.
  const std::vector<TimedCall> calls = time_calls(options);
  measure_stages(usable_cpus(), options.run_count, &constants);
  fit(calls, &constants);
  FILE* file = options.out_path.empty() ? stdout : std::fopen(options.out_path.c_str(), "w");
  if (file == nullptr) throw bench::Failure(options.out_path + " cannot be written");
  print(file, options, calls, constants);
  if (file != stdout && std::fclose(file) != 0) {
    throw bench::Failure(options.out_path + " cannot be written");
  }
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
