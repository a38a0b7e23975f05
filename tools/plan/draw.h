// A timeline as characters: ranks from top to bottom, time from left to right.
#ifndef GQ_TOOLS_PLAN_DRAW_H
#define GQ_TOOLS_PLAN_DRAW_H

#include <string>
#include <vector>

#include "tools/plan/timeline.h"

namespace gq::tools {

/** Two lines for each rank: its processor (n norm, q quantize, r reduce, R reduce_many, d
 *  dequantize) and the link out of it (the last digit of the rank that it sends to). */
std::string drawing_of(const std::vector<TimedMove>& moves, uint32_t ranks);

}  // namespace gq::tools

#endif
