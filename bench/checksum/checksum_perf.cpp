// What the option checksum=crc32c costs: processor time of calls with it over that of calls
// without, in turn, on two ranks whose messages go through a socket pair.
//   checksum_perf [VALUES [TURNS]]
// The second column is that of a third group, which is equal to the first: the noise.
#include <gqsgd.h>
#include <gqsgd_transport.h>
#include <time.h>

#include <algorithm>
#include <barrier>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

#include "bench/machine.h"
#include "bench/perf/elements.h"
#include "bench/perf/team.h"
#include "examples/cpp/socket_transport.h"

namespace gq::bench {
namespace {

constexpr int kRanks = 2, kWarmupTurns = 3;
constexpr const char* kOptions[] = {"checksum=off", "checksum=crc32c", "checksum=off"};
constexpr size_t kGroups = std::size(kOptions);
constexpr const char* kPresets[] = {"blocks-8", "rotated-4", "paper-gl8", "none"};

double processor_us() {
  timespec now;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e6 + static_cast<double>(now.tv_nsec) * 1e-3;
}

/** Both ranks of each group. */
struct Groups {
  gqsgd_comm comms[kGroups][kRanks] = {};

  Groups() {
    for (size_t group = 0; group < kGroups; ++group) {
      int ends[kRanks];
      if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0) throw Failure("no socket pair");
      const gqsgd_transport tables[kRanks] = {socket_transport(0, {-1, ends[0]}),
                                              socket_transport(1, {ends[1], -1})};
      for (int rank = 0; rank < kRanks; ++rank) {
        require(gqsgd_comm_create_custom(&tables[rank], kOptions[group], &comms[group][rank]),
                "gqsgd_comm_create_custom");
      }
    }
  }
  ~Groups() {
    for (auto& group : comms) {
      for (gqsgd_comm comm : group) gqsgd_comm_destroy(comm);
    }
  }
  Groups(const Groups&) = delete;
  Groups& operator=(const Groups&) = delete;
};

/** Processor time of the calls of each group, one per turn. */
struct Times {
  std::vector<double> of_group[kGroups];

  double ratio(size_t group) const {
    std::vector<double> ratios;
    for (size_t turn = 0; turn < of_group[0].size(); ++turn) {
      ratios.push_back(of_group[group][turn] / of_group[0][turn]);
    }
    return median(ratios);
  }
};

/** What one rank does; rank 0 looks at the clock of the process, while the other waits. */
void run_rank(int rank, const Groups& groups, const char* preset, size_t value_count, int turns,
              std::barrier<>* barrier, Times* times) {
  gqsgd_quantizer quantizer = nullptr;
  require(gqsgd_quantizer_create(preset, &quantizer), preset);
  std::vector<float> input(value_count), output(value_count);
  fill_inputs(rank, value_count, GQSGD_FLOAT32, input.data());
  for (int turn = -kWarmupTurns; turn < turns; ++turn) {
    for (size_t k = 0; k < kGroups; ++k) {
      const size_t group = (k + static_cast<size_t>(turn + kWarmupTurns)) % kGroups;
      barrier->arrive_and_wait();
      const double begin_us = processor_us();
      require(gqsgd_allreduce(groups.comms[group][rank], quantizer, input.data(), output.data(),
                              value_count, GQSGD_FLOAT32, GQSGD_MEAN, nullptr, nullptr),
              preset);
      barrier->arrive_and_wait();
      if (rank == 0 && turn >= 0) times->of_group[group].push_back(processor_us() - begin_us);
    }
  }
  gqsgd_quantizer_destroy(quantizer);
}

Times measure(const char* preset, size_t value_count, int turns) {
  const Groups groups;
  Times times;
  std::barrier barrier(kRanks);
  std::thread other([&] { run_rank(1, groups, preset, value_count, turns, &barrier, &times); });
  run_rank(0, groups, preset, value_count, turns, &barrier, &times);
  other.join();
  return times;
}

int run(size_t value_count, int turns) {
  std::printf("# %s; %zu values, %d ranks, %d turns\n", machine().c_str(), value_count, kRanks,
              turns);
  std::printf("preset      crc32c / off   off / off   processor time of a call, us\n");
  for (const char* preset : kPresets) {
    const Times times = measure(preset, value_count, turns);
    std::printf("%-11s %12.3f %11.3f %12.0f\n", preset, times.ratio(1), times.ratio(2),
                median(times.of_group[0]));
  }
  return 0;
}

}  // namespace
}  // namespace gq::bench

int main(int argc, char** argv) {
  const long value_count = argc > 1 ? std::atol(argv[1]) : 1000000;
  const int turns = argc > 2 ? std::atoi(argv[2]) : 200;
  if (value_count < 1 || turns < 1) {
    std::fputs("usage: checksum_perf [VALUES [TURNS]]\n", stderr);
    return 2;
  }
  try {
    return gq::bench::run(static_cast<size_t>(value_count), turns);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "checksum_perf: %s\n", error.what());
    return 1;
  }
}
