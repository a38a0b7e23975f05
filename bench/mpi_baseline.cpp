// Times the MPI's own float32 allreduce and this library's, interleaved in one run:
//
//   mpirun -n 2 mpi_baseline [value_count [run_count [schedule]]]
//
// The library's ranks are the same processes, over its own shared memory; the MPI only transfers
// the unique id, the barriers and the times. A time is that of the slowest rank.
#include <gqsgd.h>
#define OMPI_SKIP_MPICXX 1  // the C interface is all that is used
#define MPICH_SKIP_MPICXX 1
#include <mpi.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "bench/machine.h"

namespace {

using gq::bench::median;
using gq::bench::now_ns;

constexpr int kWarmups = 3;
constexpr const char* kFormats[] = {"none", "paper-gl8", "paper-ge8"};
constexpr int kFormatCount = 3;
constexpr int kContenders = 1 + kFormatCount;  // the first is the MPI

struct Setting {
  int value_count = 6553600;
  int run_count = 21;
  std::string schedule_name = "direct";
  gqsgd_schedule schedule = GQSGD_SCHEDULE_DIRECT;
};

/** The MPI's own abort ends all ranks; there is no caller to return an error to. */
void require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "mpi_baseline: %s: %s\n", what, gqsgd_last_error());
  MPI_Abort(MPI_COMM_WORLD, 2);
}

Setting read_setting(int argc, char** argv) {
  Setting setting;
  if (argc > 1) setting.value_count = std::atoi(argv[1]);
  if (argc > 2) setting.run_count = std::atoi(argv[2]);
  if (argc > 3) setting.schedule_name = argv[3];
  const std::string& name = setting.schedule_name;
  if (name == "ring") setting.schedule = GQSGD_SCHEDULE_RING;
  if (name == "tree") setting.schedule = GQSGD_SCHEDULE_TREE;
  if (name == "butterfly") setting.schedule = GQSGD_SCHEDULE_BUTTERFLY;
  require(setting.value_count > 0 && setting.run_count > 0, "counts must be positive");
  require(setting.schedule != GQSGD_SCHEDULE_DIRECT || name == "direct", "unknown schedule");
  return setting;
}

/** One rank's buffers and handles. */
class Rank {
 public:
  explicit Rank(const Setting& setting)
      : setting_(setting), send_(setting.value_count), recv_(setting.value_count) {
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &size_);
    for (size_t e = 0; e < send_.size(); ++e) {
      send_[e] = static_cast<float>(std::sin(0.001 * static_cast<double>(e) + rank_));
    }
    gqsgd_unique_id unique_id;
    if (rank_ == 0) require(gqsgd_unique_id_create(&unique_id) == GQSGD_OK, "unique id");
    MPI_Bcast(&unique_id, sizeof unique_id, MPI_BYTE, 0, MPI_COMM_WORLD);
    require(gqsgd_comm_create_process(&unique_id, rank_, size_, "", &comm_) == GQSGD_OK, "join");
    for (int f = 0; f < kFormatCount; ++f) {
      require(gqsgd_quantizer_create(kFormats[f], &quantizers_[f]) == GQSGD_OK, kFormats[f]);
    }
  }
  ~Rank() {
    for (gqsgd_quantizer quantizer : quantizers_) gqsgd_quantizer_destroy(quantizer);
    gqsgd_comm_destroy(comm_);
  }
  Rank(const Rank&) = delete;
  Rank& operator=(const Rank&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }

  /** One sum by contender 0 (the MPI) or format contender - 1; microseconds of the slowest rank. */
  double run(int contender) {
    MPI_Barrier(MPI_COMM_WORLD);
    const int64_t begin = now_ns();
    if (contender == 0) {
      MPI_Allreduce(send_.data(), recv_.data(), setting_.value_count, MPI_FLOAT, MPI_SUM,
                    MPI_COMM_WORLD);
    } else {
      gqsgd_config config = GQSGD_CONFIG_INIT;
      config.schedule = setting_.schedule;
      require(gqsgd_allreduce(comm_, quantizers_[contender - 1], send_.data(), recv_.data(),
                              send_.size(), GQSGD_FLOAT32, GQSGD_SUM, &config, nullptr) == GQSGD_OK,
              "gqsgd_allreduce");
    }
    double time_us = static_cast<double>(now_ns() - begin) * 1e-3, slowest_us = 0;
    MPI_Allreduce(&time_us, &slowest_us, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return slowest_us;
  }

  /** Largest difference of the last result from the exact sum, relative to the largest sum: a time
   *  is worth nothing if the numbers are wrong. */
  double error() const {
    double worst = 0;
    for (size_t e = 0; e < recv_.size(); ++e) {
      double exact = 0;
      for (int r = 0; r < size_; ++r) exact += std::sin(0.001 * static_cast<double>(e) + r);
      worst = std::max(worst, std::fabs(recv_[e] - exact));
    }
    return worst / size_;
  }

 private:
  const Setting& setting_;
  int rank_ = 0;
  int size_ = 1;
  gqsgd_comm comm_ = nullptr;
  gqsgd_quantizer quantizers_[kFormatCount] = {};
  std::vector<float> send_, recv_;
};

const char* name_of(int contender) { return contender == 0 ? "MPI" : kFormats[contender - 1]; }

void print_head(const Setting& setting, int rank_count) {
  char mpi[MPI_MAX_LIBRARY_VERSION_STRING];
  int size_bytes = 0;
  MPI_Get_library_version(mpi, &size_bytes);
  std::printf("# machine: %s\n# library: %s\n# MPI: %.60s\n", gq::bench::machine().c_str(),
              gqsgd_build_info(), mpi);
  std::printf("# %d processes, %d float32 sums, schedule %s, medians of %d interleaved runs\n",
              rank_count, setting.value_count, setting.schedule_name.c_str(), setting.run_count);
  std::printf("# %-10s %10s %10s %10s %10s %10s\n", "", "median us", "min us", "max us", "/ MPI",
              "MPI /");
}

void print_row(int contender, std::vector<double> times, double mpi_us) {
  std::sort(times.begin(), times.end());
  const double time_us = median(times);
  std::printf("  %-10s %10.0f %10.0f %10.0f %10.3f %10.3f\n", name_of(contender), time_us,
              times.front(), times.back(), time_us / mpi_us, mpi_us / time_us);
}

void measure(const Setting& setting) {
  Rank rank(setting);
  std::vector<double> times[kContenders];
  double errors[kContenders] = {};
  for (int turn = 0; turn < kWarmups + setting.run_count; ++turn) {
    for (int contender = 0; contender < kContenders; ++contender) {
      const double time_us = rank.run(contender);
      if (turn >= kWarmups) times[contender].push_back(time_us);
      if (turn == 0) errors[contender] = rank.error();
    }
  }
  if (rank.rank() != 0) return;
  print_head(setting, rank.size());
  for (int contender = 0; contender < kContenders; ++contender) {
    print_row(contender, times[contender], median(times[0]));
  }
  std::printf("# largest error over the norm of a rank:");
  for (int contender = 0; contender < kContenders; ++contender) {
    std::printf(" %s %.1e%s", name_of(contender), errors[contender],
                contender + 1 < kContenders ? "," : "\n");
  }
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  measure(read_setting(argc, argv));
  MPI_Finalize();
  return 0;
}
