// gqsgd-perf-mpi: gqsgd-perf over MPI, beside the MPI's own allreduce of floats.
//
//   mpirun -n 4 gqsgd-perf-mpi -b 25M -e 25M --format blocks-8 --json FILE
#define OMPI_SKIP_MPICXX 1  // the C interface is all that is used
#define MPICH_SKIP_MPICXX 1
#include <gqsgd_mpi.h>

#include <cstdio>

#include "bench/perf/session.h"
#include "bench/perf/team.h"

namespace {

using namespace gq::bench;

void require_mpi(int code, const char* what) {
  if (code != MPI_SUCCESS) throw Failure(std::string(what) + " failed");
}

/** Barriers sleep while they wait: ranks may be more than cores, and the last one has work. */
class MpiPeers final : public Peers {
 public:
  MpiPeers(int rank, gqsgd_comm comm) : Peers(rank, comm) {}

  void barrier() override {
    MPI_Request request;
    require_mpi(MPI_Ibarrier(MPI_COMM_WORLD, &request), "MPI_Ibarrier");
    for (int done = 0; !done;) {
      require_mpi(MPI_Test(&request, &done, MPI_STATUS_IGNORE), "MPI_Ibarrier");
      if (!done) gqsgd_mpi_sleep(GQSGD_MPI_SLEEP_MIN_US);
    }
  }
  void most(std::vector<double>* numbers) override {
    require_mpi(MPI_Allreduce(MPI_IN_PLACE, numbers->data(), static_cast<int>(numbers->size()),
                              MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD),
                "MPI_Allreduce");
  }
  double sum(double number) override {
    require_mpi(MPI_Allreduce(MPI_IN_PLACE, &number, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD),
                "MPI_Allreduce");
    return number;
  }
  void spread(std::vector<unsigned char>* bytes) override {
    require_mpi(
        MPI_Bcast(bytes->data(), static_cast<int>(bytes->size()), MPI_BYTE, 0, MPI_COMM_WORLD),
        "MPI_Bcast");
  }

  std::string foreign_name(int32_t dtype) const override {
    return dtype == GQSGD_FLOAT32 || dtype == GQSGD_FLOAT64 ? "MPI_Allreduce" : "";
  }
  void foreign_sum(const void* send, void* recv, size_t value_count, int32_t dtype) override {
    require_mpi(
        MPI_Allreduce(send == recv ? MPI_IN_PLACE : send, recv, static_cast<int>(value_count),
                      dtype == GQSGD_FLOAT32 ? MPI_FLOAT : MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD),
        "MPI_Allreduce");
  }
};

/** False, with the reason printed, where ranks are asked for that are not those of mpirun. */
bool check_ranks(const Options& options) {
  const bool others = options.rank_count != 0 || !(options.transport.empty() ||
                                                   options.transport == "mpi");
  if (!others) return true;
  std::fprintf(stderr,
               "gqsgd-perf-mpi: --ranks and --transport are of gqsgd-perf; here ranks are those "
               "that mpirun starts\n");
  return false;
}

int run_rank(Options options, const std::string& command) {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &options.rank_count);
  gqsgd_comm comm = nullptr;
  require(gqsgd_comm_create_mpi(MPI_COMM_WORLD, options.comm_options.c_str(), &comm),
          "gqsgd_comm_create_mpi");
  MpiPeers peers(rank, comm);
  const int result = measure_all(options, command, peers);
  gqsgd_comm_destroy(comm);
  return result;
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  Options options;
  const Parsed parsed = parse_options(argc, argv, &options);
  int result = parsed == Parsed::stop ? 0 : 2;
  if (parsed == Parsed::run && check_ranks(options) && check_formats(options)) {
    options.transport = "mpi";
    try {
      result = run_rank(options, command_of(argc, argv));
    } catch (const std::exception& error) {
      std::fprintf(stderr, "gqsgd-perf-mpi: %s\n", error.what());
      MPI_Abort(MPI_COMM_WORLD, 2);  // the others would wait for this rank
    }
  }
  MPI_Finalize();
  return result;
}
