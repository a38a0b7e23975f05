// Times, checks and judges all formats and schedules at one size, on every rank together.
#ifndef GQ_BENCH_PERF_MEASURE_H
#define GQ_BENCH_PERF_MEASURE_H

#include <gqsgd.h>

#include <cstdint>
#include <string>
#include <vector>

#include "bench/line_allocator.h"
#include "bench/perf/options.h"
#include "bench/perf/peers.h"

namespace gq::bench {

/** One way to place the result: out of place or in place. */
struct Timing {
  double time_us = 0;
  std::vector<double> runs_us;  ///< of which that is the median, in the order in which they ran
  uint64_t wrong_count = 0;     ///< values that differ from gqsgd_simulate, over all ranks
};

/** What one format and schedule made of one size. */
struct Row {
  size_t size_bytes;
  size_t value_count;
  std::string format;
  std::string schedule;
  Timing out_of_place;
  Timing in_place;
  uint64_t wire_bytes = 0;  ///< the most that a rank sends; 0 if unknown
  double nmse = 0;          ///< squared error over the square of the exact result
};

class Measurement {
 public:
  /** One rank's share of it; every rank makes one with the same options. */
  Measurement(const Options& options, Peers& peers);
  ~Measurement();
  Measurement(const Measurement&) = delete;
  Measurement& operator=(const Measurement&) = delete;

  /** The rows of one size: every schedule with every format. Complete on rank 0 only. */
  std::vector<Row> measure(size_t size_bytes);

 private:
  struct Contender {
    gqsgd_quantizer quantizer;  ///< nullptr: the peers' foreign allreduce, always a sum
    std::string format;
    Choice schedule;
    size_t call_count = 1;  ///< calls in one run
  };
  bool goes_together(const Contender& contender) const;
  void call(const Contender& contender, const void* send, const gqsgd_config& config);
  void call_once(const Contender& contender, bool in_place);
  size_t calls_in_run(const Contender& contender);
  double run(const Contender& contender, bool in_place);
  void check(const Contender& contender, Row* row);
  void judge_foreign(const Contender& contender, Row* row);
  uint64_t wrong_float_sums(Row* row);
  void expect(const Contender& contender, Row* row);
  uint64_t wrong_count();
  void time_all(bool in_place, std::vector<Row>* rows);
  uint64_t stat(const char* name);

  const Options& options_;
  Peers& peers_;
  std::vector<Contender> contenders_;
  std::vector<gqsgd_quantizer> quantizers_;
  size_t value_count_ = 0;
  size_t in_place_call_count_ = 0;  ///< since the output was the input
  LineVector<unsigned char> input_, output_;
  std::vector<unsigned char> expected_;
};

}  // namespace gq::bench

#endif
