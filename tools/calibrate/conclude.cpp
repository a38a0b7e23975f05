// Times stages on this rank alone, fits constants to the calls, and writes them as a string.
#include "tools/calibrate/conclude.h"

#include <gqsgd.h>
#include <sched.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <string>

#include "bench/machine.h"
#include "bench/perf/team.h"
#include "src/support/names.h"
#include "tools/calibrate/fit.h"
#include "tools/calibrate/move_cost.h"
#include "tools/calibrate/stage_costs.h"

namespace gq::tools {
namespace {

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

void print(FILE* file, const CalibrateOptions& options, const char* transport,
           const std::vector<TimedCall>& calls, const CostConstants& constants) {
  std::string text(describe_costs(constants, nullptr, 0), '\0');
  describe_costs(constants, text.data(), text.size() + 1);
  std::fprintf(file,
               "# Costs for schedule=auto, measured by gqsgd-calibrate; the same file for every "
               "rank.\n# %s\n# %s\n# transport %s; calls are met within %.0f %% on average\n",
               bench::machine().c_str(), gqsgd_build_info(), transport,
               100 * misfit(calls, constants));
  if (options.verbose) print_calls(file, calls, constants);
  std::fputs(text.c_str(), file);
}

}  // namespace

int usable_cpus() {
  cpu_set_t set;
  return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
}

void require_writable(const CalibrateOptions& options) {
  namespace fs = std::filesystem;
  const fs::path path = options.out_path;
  if (path.empty()) return;
  std::error_code error;  // says no more than the sentence below
  const fs::path folder = path.has_parent_path() ? path.parent_path() : ".";
  const bool is_there = fs::exists(path, error);
  const fs::path& opened = is_there ? path : folder;
  if (access(opened.c_str(), W_OK) != 0 || (is_there && fs::is_directory(path, error))) {
    throw bench::Failure(options.out_path + " cannot be written");
  }
}

void conclude(const CalibrateOptions& options, const char* transport,
              const std::vector<TimedCall>& calls, CostConstants constants) {
  measure_stages(usable_cpus(), options.run_count, &constants);
  constants.move_ns = measure_move_ns(options.run_count);
  fit(calls, &constants);
  FILE* file = options.out_path.empty() ? stdout : std::fopen(options.out_path.c_str(), "w");
  if (file == nullptr) throw bench::Failure(options.out_path + " cannot be written");
  print(file, options, transport, calls, constants);
  if (file != stdout && std::fclose(file) != 0) {
    throw bench::Failure(options.out_path + " cannot be written");
  }
}

}  // namespace gq::tools
