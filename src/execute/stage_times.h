// What the stages of this rank take for a value: the rows of the cost constants, timed on a short
// range in a cache. What a stage takes from memory is not measured.
#ifndef GQ_EXECUTE_STAGE_TIMES_H
#define GQ_EXECUTE_STAGE_TIMES_H

#include "src/execute/endpoint.h"
#include "src/plan/cost/measure_rounds.h"

namespace gq {

class StageTimes {
 public:
  /** The most that it adds at once, whatever the number of ranks. */
  static constexpr uint32_t kOperands = 4;

  /** Memory that time_row() uses, and leaves with any contents. */
  static size_t workspace_bytes();

  /** Nanoseconds for a value of each stage of the row; of rows that are paid in addition, what is
   *  more than without their field. 0 for stages that a format of the row does not have. Rows come
   *  in the order of CostRow, from the first on. */
  Status time_row(const Endpoint& endpoint, CostRow row, unsigned char* workspace,
                  RoundNumbers* value_ns);

 private:
  double value_ns_[kCostRowCount][kCostStageCount] = {};  // with all that the row's format has
};

}  // namespace gq

#endif
