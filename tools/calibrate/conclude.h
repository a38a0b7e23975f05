// From the times of calls to constants, and their output; the places of ranks are not used.
#ifndef GQ_TOOLS_CALIBRATE_CONCLUDE_H
#define GQ_TOOLS_CALIBRATE_CONCLUDE_H

#include <vector>

#include "tools/calibrate/call_times.h"

namespace gq::tools {

/** Processors that this process may use. */
int usable_cpus();

/** Throws Failure if the file of the constants cannot be written: before minutes are spent. */
void require_writable(const CalibrateOptions& options);

/** Measures stages, fits all else to `calls`, from a first guess, and writes the constants. */
void conclude(const CalibrateOptions& options, const char* transport,
              const std::vector<TimedCall>& calls, CostConstants constants);

}  // namespace gq::tools

#endif
