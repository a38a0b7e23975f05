// The ranks that measure together, as one of them sees the others: what they exchange besides the
// allreduces under test. How they are started is team.h's and mpirun's matter.
#ifndef GQ_BENCH_PERF_PEERS_H
#define GQ_BENCH_PERF_PEERS_H

#include <gqsgd.h>

#include <string>
#include <vector>

namespace gq::bench {

/** One rank's end. Every rank calls the same functions in the same order. */
class Peers {
 public:
  Peers(int rank, gqsgd_comm comm) : rank_(rank), comm_(comm) {}
  virtual ~Peers() = default;
  Peers(const Peers&) = delete;
  Peers& operator=(const Peers&) = delete;

  int rank() const { return rank_; }
  gqsgd_comm comm() const { return comm_; }

  /** Returns when all ranks are there. */
  virtual void barrier() = 0;
  /** Each number becomes the largest of those of all ranks, or their sum. */
  virtual void most(std::vector<double>* numbers) = 0;
  virtual double sum(double number) = 0;
  /** Broadcasts rank 0's bytes; all ranks have as many. */
  virtual void spread(std::vector<unsigned char>* bytes) = 0;

  /** What carries the bytes may have an allreduce of its own, to compare with: its name, or "". */
  virtual std::string foreign_name(int32_t) const { return ""; }
  /** Sums values of a type that foreign_name() was asked for; send == recv is in place. */
  virtual void foreign_sum(const void*, void*, size_t, int32_t) {}

 private:
  int rank_;
  gqsgd_comm comm_;
};

}  // namespace gq::bench

#endif
