// Peers of one machine, threads or processes, which exchange values in shared memory.
#ifndef GQ_BENCH_PERF_SHARED_MEMORY_PEERS_H
#define GQ_BENCH_PERF_SHARED_MEMORY_PEERS_H

#include <algorithm>
#include <vector>

#include "bench/perf/options.h"
#include "bench/perf/peers.h"
#include "bench/perf/team.h"

namespace gq::bench {

/** Where ranks leave what the others are to know. */
struct SharedNumbers {
  size_t number_count;
  double* numbers;       ///< [rank][number]
  unsigned char* bytes;  ///< as many as the largest size
};

inline SharedNumbers make_shared_numbers(const Options& options) {
  const size_t contenders = options.formats.size() * options.schedules.size();
  const size_t numbers = std::max<size_t>(1, contenders * options.run_count);
  const size_t all_numbers = numbers * static_cast<size_t>(options.rank_count);
  return {numbers, static_cast<double*>(shared_bytes(all_numbers * sizeof(double))),
          static_cast<unsigned char*>(shared_bytes(options.most_bytes))};
}

/** Barriers are allreduces of nothing: they return when all ranks are there, or one has failed. */
class SharedMemoryPeers final : public Peers {
 public:
  SharedMemoryPeers(int rank, gqsgd_comm comm, int rank_count, const SharedNumbers& shared)
      : Peers(rank, comm), rank_count_(rank_count), shared_(shared) {
    require(gqsgd_quantizer_create("none", &none_), "none");
  }
  ~SharedMemoryPeers() override { gqsgd_quantizer_destroy(none_); }

  void barrier() override {
    gqsgd_config config = GQSGD_CONFIG_INIT;  // a barrier uses no step of the counter
    config.step_source = GQSGD_STEP_GIVEN;
    config.schedule = GQSGD_SCHEDULE_RING;
    require(gqsgd_allreduce(comm(), none_, nullptr, nullptr, 0, GQSGD_FLOAT32, GQSGD_SUM, &config,
                            nullptr),
            "barrier");
  }
  void most(std::vector<double>* numbers) override {
    gather(*numbers);
    for (size_t k = 0; k < numbers->size(); ++k) {
      for (int rank = 0; rank < rank_count_; ++rank) {
        (*numbers)[k] = std::max((*numbers)[k], of_rank(rank)[k]);
      }
    }
    barrier();
  }
  double sum(double number) override {
    gather({number});
    double sum = 0;
    for (int rank = 0; rank < rank_count_; ++rank) sum += of_rank(rank)[0];
    barrier();
    return sum;
  }
  void spread(std::vector<unsigned char>* bytes) override {
    if (rank() == 0) std::copy(bytes->begin(), bytes->end(), shared_.bytes);
    barrier();
    std::copy(shared_.bytes, shared_.bytes + bytes->size(), bytes->begin());
    barrier();
  }

 private:
  double* of_rank(int rank) const { return shared_.numbers + rank * shared_.number_count; }
  void gather(const std::vector<double>& numbers) {
    std::copy(numbers.begin(), numbers.end(), of_rank(rank()));
    barrier();
  }

  int rank_count_;
  SharedNumbers shared_;
  gqsgd_quantizer none_ = nullptr;
};

}  // namespace gq::bench

#endif
