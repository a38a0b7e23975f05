// gqsgd-perf: times allreduces over sizes, formats and schedules, with every rank's bits checked.
// See --help; the parts are in options, team, session, measure and report.
#include <cstdio>

#include "bench/perf/session.h"
#include "bench/perf/shared_memory_peers.h"

int main(int argc, char** argv) {
  using namespace gq::bench;
  Options options;
  switch (parse_options(argc, argv, &options)) {
    case Parsed::stop:
      return 0;
    case Parsed::refused:
      return 2;
    case Parsed::run:
      break;
  }
  if (options.transport == "mpi") {
    std::fprintf(stderr, "gqsgd-perf: MPI has a program of its own: mpirun gqsgd-perf-mpi\n");
    return 2;
  }
  if (options.transport.empty()) options.transport = "process";
  if (options.rank_count == 0) options.rank_count = 2;
  if (!check_formats(options)) return 2;
  const std::string command = command_of(argc, argv);
  try {
    const SharedNumbers shared = make_shared_numbers(options);
    return run_team(options.transport == "process", options.rank_count, options.comm_options,
                    [&](int rank, gqsgd_comm comm) {
                      SharedMemoryPeers peers(rank, comm, options.rank_count, shared);
                      return measure_all(options, command, peers);
                    });
  } catch (const std::exception& error) {
    std::fprintf(stderr, "gqsgd-perf: %s\n", error.what());
    return 2;
  }
}
