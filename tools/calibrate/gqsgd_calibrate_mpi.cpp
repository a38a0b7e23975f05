// gqsgd-calibrate-mpi: the constants of the cost model for ranks of MPI, its own allreduce among
// them.
//
//   mpirun -n 4 gqsgd-calibrate-mpi -o costs.txt
#define OMPI_SKIP_MPICXX 1  // the C interface is all that is used
#define MPICH_SKIP_MPICXX 1
#include <gqsgd_mpi.h>

#include <algorithm>
#include <cstdio>

#include "bench/perf/team.h"
#include "tools/calibrate/conclude.h"

namespace gq::tools {
namespace {

struct World {
  int rank = 0;
  int size = 0;
  int nodes = 0;
};

World world_of_mpi() {
  World world;
  MPI_Comm node = MPI_COMM_NULL;
  int rank_on_node = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &world.rank);
  MPI_Comm_size(MPI_COMM_WORLD, &world.size);
  MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
  MPI_Comm_rank(node, &rank_on_node);
  const int leads = rank_on_node == 0;
  MPI_Allreduce(&leads, &world.nodes, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  MPI_Comm_free(&node);
  return world;
}

/** The first `rank_count` ranks time all calls; rank 0 has their times. */
std::vector<TimedCall> time_group(const CalibrateOptions& options, const World& world,
                                  int rank_count) {
  std::vector<TimedCall> calls = calls_of(options, rank_count, true);
  MPI_Comm group = MPI_COMM_NULL;
  const int color = world.rank < rank_count ? 0 : MPI_UNDEFINED;
  MPI_Comm_split(MPI_COMM_WORLD, color, world.rank, &group);
  if (group == MPI_COMM_NULL) return {};
  gqsgd_comm comm = nullptr;
  bench::require(gqsgd_comm_create_mpi(group, "uncompressed=never", &comm), "a group");
  const size_t turns = static_cast<size_t>(options.run_count);
  std::vector<double> times_ns(turns * calls.size() * static_cast<size_t>(rank_count));
  CallTimer(calls, world.rank, rank_count, comm).run(options.run_count, times_ns.data());
  gqsgd_comm_destroy(comm);
  // Every rank has its own times and zeros in place of the others'.
  MPI_Allreduce(MPI_IN_PLACE, times_ns.data(), static_cast<int>(times_ns.size()), MPI_DOUBLE,
                MPI_MAX, group);
  MPI_Comm_free(&group);
  take_medians(times_ns.data(), options.run_count, rank_count, &calls);
  return calls;
}

std::vector<TimedCall> time_all(CalibrateOptions* options, const World& world) {
  if (world.rank == 0) require_writable(*options);
  std::vector<int>& counts = options->rank_counts;
  if (counts.empty()) counts = {std::min(2, world.size), world.size};
  counts.erase(std::unique(counts.begin(), counts.end()), counts.end());
  std::vector<TimedCall> all;
  for (const int rank_count : counts) {
    if (rank_count > world.size) throw bench::Failure("--ranks: so many were not started");
    const std::vector<TimedCall> calls = time_group(*options, world, rank_count);
    all.insert(all.end(), calls.begin(), calls.end());
    MPI_Barrier(MPI_COMM_WORLD);
  }
  return all;
}

/** Where the descent starts: messages of MPI between the nodes that there are. */
CostConstants first_guess(const World& world) {
  CostConstants constants = built_in_costs();
  constants.cpus = usable_cpus() * world.nodes;
  constants.native_step_ns = 5000;
  constants.native_byte_ns = constants.byte_ns;
  return constants;
}

}  // namespace
}  // namespace gq::tools

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  gq::tools::CalibrateOptions options;
  const gq::tools::Parsed parsed = gq::tools::parse_options(argc, argv, &options);
  const gq::tools::World world = gq::tools::world_of_mpi();
  std::vector<gq::tools::TimedCall> calls;
  try {
    if (parsed == gq::tools::Parsed::run) calls = gq::tools::time_all(&options, world);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "gqsgd-calibrate-mpi: %s\n", error.what());
    MPI_Abort(MPI_COMM_WORLD, 1);  // the others would wait for this rank
  }
  MPI_Finalize();
  if (parsed != gq::tools::Parsed::run) return parsed == gq::tools::Parsed::stop ? 0 : 2;
  if (world.rank != 0) return 0;
  try {
    gq::tools::conclude(options, "mpi", calls, gq::tools::first_guess(world));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "gqsgd-calibrate-mpi: %s\n", error.what());
    return 1;
  }
  return 0;
}
