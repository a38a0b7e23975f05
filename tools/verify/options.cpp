// How arguments are read and a verification is printed.
#include "tools/verify/options.h"

#include <gqsgd_model.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "bench/perf/team.h"

namespace gq::tools {
namespace {

constexpr char kHelp[] =
    R"(gqsgd-verify: does every rank get the bits that the format has?

  --ranks N      ranks of this machine, as threads and then as processes; 3
  --env          instead, this process's rank of the group that torchrun, mpirun or srun started
  --flip RANK    changes one bit of that rank's first results: the check must see it
  -h, --help

mpirun -n 4 gqsgd-verify-mpi [--flip RANK] is the same over MPI.

Makes the calls of all presets, schedules and types of values. Each result is compared with that of
virtual ranks, and those of this processor with digests of the reference. Rank 0 prints the number
of results compared, or the ranks that differ with the first such call and both digests. Exit
status, the same of all ranks: 0 if all are equal, 1 if one differs, 2 if a call failed.
)";

/** False where the value is no number from `least` to `most`. */
bool read_number(const char* text, int least, int most, int* number) {
  char* end = nullptr;
  const long read = text == nullptr ? -1 : std::strtol(text, &end, 10);
  if (text == nullptr || end == text || *end != '\0' || read < least || read > most) return false;
  *number = static_cast<int>(read);
  return true;
}

/** mpirun ends all ranks when the first one ends with 1: not before rank 0 has printed. */
void wait_for_all(gqsgd_comm comm) {
  gqsgd_quantizer none = nullptr;
  float value = 0;
  bench::require(gqsgd_quantizer_create("none", &none), "gqsgd_quantizer_create");
  const gqsgd_status status =
      gqsgd_allreduce(comm, none, &value, &value, 1, GQSGD_FLOAT32, GQSGD_SUM, nullptr, nullptr);
  gqsgd_quantizer_destroy(none);
  bench::require(status, "gqsgd_allreduce");
}

}  // namespace

void print_help() { std::fputs(kHelp, stdout); }

bool read_options(int argc, char** argv, VerifyOptions* options) {
  for (int k = 1; k < argc; ++k) {
    const char* const next = k + 1 < argc ? argv[k + 1] : nullptr;
    bool is_right = true;
    if (std::strcmp(argv[k], "--help") == 0 || std::strcmp(argv[k], "-h") == 0) {
      options->help = true;
    } else if (std::strcmp(argv[k], "--env") == 0) {
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

int verify(gqsgd_comm comm, const VerifyOptions& options) {
  int32_t rank = 0, size = 0, compared = -1;
  const char* transport = "";
  bench::require(gqsgd_comm_rank(comm, &rank), "gqsgd_comm_rank");
  bench::require(gqsgd_comm_size(comm, &size), "gqsgd_comm_size");
  bench::require(gqsgd_comm_transport(comm, &transport), "gqsgd_comm_transport");
  const gqsgd_status status = gqsgd_comm_verify(comm, options.flipped_rank, &compared, nullptr);
  // A message that changed on its way is INTEGRITY too, and then nothing was compared.
  const bool differ = status == GQSGD_INTEGRITY && compared >= 0;
  if (!differ) bench::require(status, transport);
  if (rank == 0 && differ) std::printf("%s: %s\n", transport, gqsgd_last_error());
  if (rank == 0 && !differ)
    std::printf("%s: %d ranks, %d results compared on each\n", transport, size, compared);
  std::fflush(stdout);
  if (differ) wait_for_all(comm);
  return differ ? 1 : 0;
}

}  // namespace gq::tools
