// Times whole allreduces over a transport: what the constants of messages are fitted to.
#ifndef GQ_TOOLS_CALIBRATE_CALL_TIMES_H
#define GQ_TOOLS_CALIBRATE_CALL_TIMES_H

#include <string>
#include <vector>

#include "src/plan/cost_model.h"
#include "tools/calibrate/options.h"

namespace gq::tools {

struct TimedCall {
  CostQuestion question;
  std::string format;  ///< the quantizer's text
  double time_ns;      ///< the middle one of the runs, each that of the slowest rank
};

/** Every schedule, none and a compressed format, sizes up to the longest, for each group. */
std::vector<TimedCall> time_calls(const CalibrateOptions& options);

}  // namespace gq::tools

#endif
