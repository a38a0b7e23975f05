// How long an allreduce takes, predicted before it runs from constants of the machine: host
// arithmetic on one rank's moves, of 100,000 ranks too (docs/COST.md).
#ifndef GQ_PLAN_COST_COST_MODEL_H
#define GQ_PLAN_COST_COST_MODEL_H

#include <stdint.h>

#include "include/gqsgd.h"
#include "src/plan/cost/cost_constants.h"
#include "src/plan/plan.h"

namespace gq {

/** A call whose cost is predicted; chunk_value_count as in the communicator's options. */
struct CostQuestion {
  Format format;
  int32_t schedule_id;  ///< a built one, not AUTO
  uint32_t ranks;
  uint64_t value_count;
  uint64_t chunk_value_count;
  bool reads_in_place;  ///< words are read where peers put them; else messages travel
  int32_t dtype;
  const Nodes* nodes = nullptr;  ///< who shares one, if that is known
  bool transport_adds = false;   ///< for choices: schedule native is possible
  bool on_device = false;        ///< over NCCL; then nodes do not count
  bool nccl_blocks = true;       ///< its operations create no threads
  bool is_short = false;  ///< by direct its values travel with the control messages
};

/** What a byte takes on a link out of a rank. */
inline double link_byte_ns(const CostQuestion& question, const CostConstants& constants) {
  return question.on_device ? constants.device_link_byte_ns : constants.byte_ns;
}

constexpr uint32_t dtype_bytes(int32_t dtype) {
  return dtype == GQSGD_FLOAT64 ? 8 : dtype == GQSGD_FLOAT32 ? 4 : 2;
}

/** Values, results and codes of all ranks that share a cache. */
double touched_bytes(const CostQuestion& question, const CostConstants& constants);

/** Nanoseconds from the call of the last rank to the return of the last rank. Refuses what
 *  make_plan() refuses; UNSUPPORTED for sparse entries, whose number depends on values, and for a
 *  transport's own allreduce that was not measured. */
Status predict_time(const CostQuestion& question, const CostConstants& constants, double* time_ns);

}  // namespace gq

#endif
