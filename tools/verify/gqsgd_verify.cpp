// gqsgd-verify: whether every rank of this machine, or of a group, gets the bits of the format, in
// every preset, schedule and type of values. What it compares is gqsgd_comm_verify's matter.
#include <gqsgd.h>
#include <gqsgd_network.h>

#include <algorithm>
#include <cstdio>
#include <string>

#include "bench/perf/team.h"
#include "tools/verify/options.h"

namespace gq::tools {
namespace {

/** The option by which pairs of ranks share a node: "nodes=0:0:1:1". */
std::string nodes_of_pairs(int rank_count) {
  std::string option = "nodes=";
  for (int rank = 0; rank < rank_count; ++rank) {
    if (rank > 0) option += ':';
    option += std::to_string(rank / 2);
  }
  return option;
}

int verify_here(const VerifyOptions& options) {
  int worst = 0;
  for (const bool are_processes : {false, true}) {
    std::fflush(stdout);  // a forked process would print it once more
    const int ended =
        bench::run_team(are_processes, options.rank_count, nodes_of_pairs(options.rank_count),
                        [&](int, gqsgd_comm comm) { return verify(comm, options); });
    worst = std::max(worst, ended);
  }
  return worst;
}

int verify_environment(const VerifyOptions& options) {
  gqsgd_comm comm = nullptr;
  bench::require(gqsgd_comm_create_env("", &comm), "gqsgd_comm_create_env");
  const int ended = verify(comm, options);
  bench::require(gqsgd_comm_destroy(comm), "gqsgd_comm_destroy");
  return ended;
}

}  // namespace
}  // namespace gq::tools

int main(int argc, char** argv) {
  gq::tools::VerifyOptions options;
  if (!gq::tools::read_options(argc, argv, &options)) return 2;
  if (options.help) return gq::tools::print_help(), 0;
  try {
    return options.env ? gq::tools::verify_environment(options) : gq::tools::verify_here(options);
  } catch (const std::exception& failure) {
    std::fprintf(stderr, "gqsgd-verify: %s\n", failure.what());
    return 2;
  }
}
