// When each move of a call happens on an idealised machine: one link out of each rank and one into
// it, both busy at once, fixed times per value. For the proof that schedules overlap, and for
// pictures; the numbers are units, not seconds.
#ifndef GQ_TOOLS_PLAN_TIMELINE_H
#define GQ_TOOLS_PLAN_TIMELINE_H

#include <vector>

#include "src/schedule/move.h"

namespace gq {

/** Times for one full chunk; shorter ranges take their share. */
struct Machine {
  double link = 1.0;            ///< a chunk on a link
  double latency = 0.0;         ///< on top of each message, whatever its length
  double norm = 0.1;            ///< a chunk's norms on this rank
  double norm_link = 1.0 / 64;  ///< they on a link: 2 bytes for 128 codes of a byte each
  double quantize = 0.25;       ///< a chunk on this rank
  double reduce = 0.5;          ///< one operand; reduce_many takes this for each of the other ranks
  double dequantize = 0.25;
};

/** A move and its time: of a send, the time its message is on the link. */
struct TimedMove {
  uint32_t rank;
  Move move;
  double start;
  double end;
};

/** All moves of all ranks, each rank walking its own in order; receives wait, sends do not. */
std::vector<TimedMove> timeline(const Schedule& schedule, const Shape& shape,
                                const Machine& machine);

/** When the last move ends. */
double finish_time(const std::vector<TimedMove>& moves);

}  // namespace gq

#endif
