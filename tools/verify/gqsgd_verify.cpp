// gqsgd-verify: whether every rank of this machine, or of a group, gets the bits that virtual ranks
// on one thread get, in every preset, schedule and type of values.
#include <gqsgd.h>
#include <gqsgd_network.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "bench/perf/team.h"
#include "tools/verify/cases.h"

namespace gq::tools {
namespace {

constexpr char kHelp[] =
    R"(gqsgd-verify: does every rank get the bits that virtual ranks on one thread get?

  --ranks N      ranks of this machine, as threads and then as processes; 3
  --env          instead, this process's rank of the group that torchrun, mpirun or srun started
  --flip RANK    changes one bit of that rank's first result: the check must see it
  -h, --help

All presets, schedules and types of values. Prints rank, preset, schedule and type of values of each
result that differs. Exit status: 0 if all are equal, 1 if one differs, 2 if a call failed.
)";

struct Options {
  int rank_count = 3;
  bool env = false;
  int flipped_rank = -1;
};

/** Throws bench::Failure where the library fails. 1 if a result differs. */
int verify(const char* transport, int rank, int rank_count, gqsgd_comm comm,
           const Options& options) {
  int compared = 0, differing = 0;
  for (const Case& one : all_cases()) {
    // Which ranks share a node follows from the machines in a group of the environment.
    if (options.env && one.schedule == GQSGD_SCHEDULE_HIERARCHICAL) continue;
    gqsgd_quantizer quantizer = nullptr;
    bench::require(gqsgd_quantizer_create(one.preset, &quantizer), one.preset);
    gqsgd_status status = GQSGD_OK;
    const Bytes expected = simulated(one, quantizer, rank_count, &status);
    const Bytes values = values_of(one, rank);
    Bytes result(values.size());
    const gqsgd_config config = one.config();
    // Some presets do not go with some schedules, for ranks as for virtual ones.
    const gqsgd_status called = gqsgd_allreduce(comm, quantizer, values.data(), result.data(),
                                                kValueCount, one.dtype, one.op(), &config, nullptr);
    gqsgd_quantizer_destroy(quantizer);
    const bool is_combination = called != GQSGD_UNSUPPORTED && called != GQSGD_INVALID_ARGUMENT;
    if (!is_combination && called == status) continue;
    bench::require(called, one.name().c_str());
    bench::require(status, "gqsgd_simulate");
    if (rank == options.flipped_rank && compared == 0) result[0] ^= 1;
    compared += 1;
    if (result == expected) continue;
    differing += 1;
    std::printf("%s: rank %d differs from virtual ranks: %s\n", transport, rank,
                one.name().c_str());
  }
  if (rank == 0) std::printf("%s: %d results compared on each rank\n", transport, compared);
  std::fflush(stdout);
  return differing == 0 ? 0 : 1;
}

int verify_here(const Options& options) {
  int worst = 0;
  for (const bool are_processes : {false, true}) {
    const char* const transport = are_processes ? "processes" : "threads";
    std::fflush(stdout);  // a forked process would print it once more
    const int ended =
        bench::run_team(are_processes, options.rank_count, nodes_of_pairs(options.rank_count),
                        [&](int rank, gqsgd_comm comm) {
                          return verify(transport, rank, options.rank_count, comm, options);
                        });
    if (ended > worst) worst = ended;
  }
  return worst;
}

int verify_environment(const Options& options) {
  gqsgd_comm comm = nullptr;
  bench::require(gqsgd_comm_create_env("", &comm), "gqsgd_comm_create_env");
  int32_t rank = 0, size = 0;
  const char* transport = "";
  bench::require(gqsgd_comm_rank(comm, &rank), "gqsgd_comm_rank");
  bench::require(gqsgd_comm_size(comm, &size), "gqsgd_comm_size");
  bench::require(gqsgd_comm_transport(comm, &transport), "gqsgd_comm_transport");
  const int ended = verify(transport, rank, size, comm, options);
  bench::require(gqsgd_comm_destroy(comm), "gqsgd_comm_destroy");
  return ended;
}

/** False where the value is no number from `least` to `most`. */
bool read_number(const char* text, int least, int most, int* number) {
  char* end = nullptr;
  const long read = text == nullptr ? -1 : std::strtol(text, &end, 10);
  if (text == nullptr || end == text || *end != '\0' || read < least || read > most) return false;
  *number = static_cast<int>(read);
  return true;
}

/** False after a sentence. */
bool read_options(int argc, char** argv, Options* options) {
  for (int k = 1; k < argc; ++k) {
    const char* const next = k + 1 < argc ? argv[k + 1] : nullptr;
    bool is_right = true;
    if (std::strcmp(argv[k], "--env") == 0) {
      options->env = true;
    } else if (std::strcmp(argv[k], "--ranks") == 0) {
      is_right = read_number(next, 1, 64, &options->rank_count);
      ++k;
    } else if (std::strcmp(argv[k], "--flip") == 0) {
      is_right = read_number(next, 0, 1023, &options->flipped_rank);
      ++k;
    } else {
      is_right = false;
    }
    if (is_right) continue;
    std::fprintf(stderr, "gqsgd-verify: an option or its value is wrong; see --help\n");
    return false;
  }
  return true;
}

}  // namespace
}  // namespace gq::tools

int main(int argc, char** argv) {
  if (argc == 2 && (std::strcmp(argv[1], "--help") == 0 || std::strcmp(argv[1], "-h") == 0))
    return std::fputs(gq::tools::kHelp, stdout), 0;
  gq::tools::Options options;
  if (!gq::tools::read_options(argc, argv, &options)) return 2;
  try {
    return options.env ? gq::tools::verify_environment(options) : gq::tools::verify_here(options);
  } catch (const std::exception& failure) {
    std::fprintf(stderr, "gqsgd-verify: %s\n", failure.what());
    return 2;
  }
}
