// One rank's share of a plan as steps that can be enqueued on a stream: stages, and between them
// groups of messages that leave and arrive together.
#ifndef GQ_GPU_ENQUEUE_PLAN_EXECUTION_PLAN_H
#define GQ_GPU_ENQUEUE_PLAN_EXECUTION_PLAN_H

#include <stddef.h>
#include <stdint.h>

#include <vector>

#include "src/execute/pieces.h"
#include "src/plan/plan.h"
#include "src/transport/stream/stream_transport.h"

namespace gq {

/** One thing to enqueue. Places are bytes into the arena. */
struct ExecutionStep {
  enum class Kind : uint8_t {
    stage,     ///< the action of `move`, on one piece of it
    copy,      ///< size_bytes from from_bytes to to_bytes
    exchange,  ///< transfers first .. first + count - 1, all at once
    join,      ///< what follows comes after the last exchange on the side stream
    sum,       ///< the transport adds what lies at to_bytes
  };
  Kind kind;
  Move move{};
  Piece piece{};
  /** copy; where the one operand of a stage lies; or, of an exchange that shares blocks, the own
   *  one, with all of them at to_bytes, each of size_bytes. */
  size_t from_bytes = 0;
  size_t to_bytes = 0;
  size_t size_bytes = 0;
  uint64_t value_count = 0;  ///< sum: of the values that are added
  uint32_t first = 0;        ///< of the transfers of an exchange, or of the operands of a stage
  uint32_t count = 0;
  /** An exchange that comes after all before it and overlaps what follows. */
  bool on_side_stream = false;
};

/** How stages and messages of one call go together. */
enum class Pace : uint8_t {
  in_turns,    ///< every rank advances as far as it can, then every message sent travels
  overlapped,  ///< a chunk's messages travel while stages work on other chunks
};

/** The moves of all ranks are walked in step to find out which messages travel together: in every
 *  round each rank advances as far as its data allows, then every message sent in this round
 *  travels. Both ends of a message have it in the same round, and so no two groups wait for each
 *  other, though a stream waits for each group. Messages whose place is still in use wait for a
 *  later round. No schedule is known here.
 *
 *  Overlapped, a rank's round ends before it quantizes or sends a second chunk for the same peer,
 *  and a message of one round is received in the next but one: the stages of the round between need
 *  not wait for it. They cannot touch it either: words stay as they are once they are sent, and
 *  places for words are given out again only when stages of the round before, or of earlier ones,
 *  have read them. */
class ExecutionPlan {
 public:
  /** `segments` are those of the call; null for a call in one piece. The pace is the same on all
   *  ranks. Takes time in proportion to the moves of all ranks. INTERNAL if the schedule gets
   *  stuck. May throw std::bad_alloc. */
  Status make(const Plan& plan, uint32_t rank, const std::vector<Part>* segments, Pace pace);

  const Plan& plan() const { return plan_; }
  /** Null for a call in one piece. */
  const std::vector<Part>* segments() const { return in_segments_ ? &segments_ : nullptr; }
  /** All but dequantize, in order. */
  const std::vector<ExecutionStep>& steps() const { return steps_; }
  /** The dequantize stages: values are written last. */
  const std::vector<ExecutionStep>& results() const { return results_; }
  const std::vector<Transfer>& transfers() const { return transfers_; }
  /** The places of the operands of reduce_many stages, one array after the other. Where values are
   *  added an array continues with what is added at a time: sums, and one operand's values. */
  const std::vector<size_t>& operands() const { return operands_; }
  /** Not null: means of nodes are added, each weighted by the ranks of its node. */
  const Nodes* weights() const;

 private:
  friend class ExecutionPlanMaker;

  Plan plan_;
  bool in_segments_ = false;
  std::vector<Part> segments_;  // which the plan points to
  std::vector<ExecutionStep> steps_;
  std::vector<ExecutionStep> results_;
  std::vector<Transfer> transfers_;
  std::vector<size_t> operands_;
};

/** Formats with one norm have one for each segment, which do not fit into a control message. */
inline bool has_segment_norms(const ExecutionPlan& execution_plan) {
  const Coding& coding = execution_plan.plan().coding;
  const std::vector<Part>* segments = execution_plan.segments();
  return coding.block == 0 && has_norm(coding.levels) && segments != nullptr && !segments->empty();
}

}  // namespace gq

#endif
