// Times whole allreduces over a transport: what the constants of messages are fitted to.
#ifndef GQ_TOOLS_CALIBRATE_CALL_TIMES_H
#define GQ_TOOLS_CALIBRATE_CALL_TIMES_H

#include <gqsgd.h>

#include <string>
#include <vector>

#include "src/plan/cost/cost_model.h"
#include "tools/calibrate/options.h"

namespace gq::tools {

struct TimedCall {
  CostQuestion question;
  std::string format;  ///< the quantizer's specification
  double time_ns;      ///< the middle one of the runs, each that of the slowest rank
};

/** Every schedule, none and a compressed format, sizes up to the longest; over MPI messages travel,
 *  and none is timed by the transport's own allreduce as well. */
std::vector<TimedCall> calls_of(const CalibrateOptions& options, int rank_count, bool over_mpi);

/** One rank's part: every call `run_count` times, times into times_ns[turn][call][rank]. */
class CallTimer {
 public:
  CallTimer(const std::vector<TimedCall>& calls, int rank, int rank_count, gqsgd_comm comm);
  ~CallTimer();
  CallTimer(const CallTimer&) = delete;
  CallTimer& operator=(const CallTimer&) = delete;

  void run(int run_count, double* times_ns);

 private:
  void allreduce(gqsgd_quantizer quantizer, const float* send, float* recv, size_t value_count,
                 int32_t schedule_id);
  size_t calls_in_run(const TimedCall& call);
  double run_one(const TimedCall& call, size_t count);

  const std::vector<TimedCall>& calls_;
  const int rank_;
  const int rank_count_;
  const gqsgd_comm comm_;
  std::vector<gqsgd_quantizer> quantizers_;
  std::vector<float> send_, recv_;
};

/** Of times of all ranks, as CallTimer lays them out, the middle one of the slowest ranks'. */
void take_medians(const double* times_ns, int run_count, int rank_count,
                  std::vector<TimedCall>* calls);

/** All calls among threads or processes, for each group. */
std::vector<TimedCall> time_calls(const CalibrateOptions& options);

}  // namespace gq::tools

#endif
