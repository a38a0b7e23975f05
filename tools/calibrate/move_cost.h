// Times the walk over a schedule's moves, without making them.
#ifndef GQ_TOOLS_CALIBRATE_MOVE_COST_H
#define GQ_TOOLS_CALIBRATE_MOVE_COST_H

namespace gq::tools {

/** Nanoseconds of finding out what one move is: the mean over the schedules of a short call. */
double measure_move_ns(int run_count);

}  // namespace gq::tools

#endif
