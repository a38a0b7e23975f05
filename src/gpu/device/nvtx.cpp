// Ranges by NVTX's headers, which look for a profiler at the first range and link to nothing.
#include <nvtx3/nvToolsExt.h>

#include "src/gpu/device/time_range.h"

namespace gq {

TimeRange::TimeRange(const char* name) { (void)nvtxRangePushA(name); }
TimeRange::~TimeRange() { (void)nvtxRangePop(); }

}  // namespace gq
