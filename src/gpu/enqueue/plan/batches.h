// Stages of an execution plan that follow each other and become one launch: which they are, and
// memory for their arguments.
#ifndef GQ_GPU_ENQUEUE_PLAN_BATCHES_H
#define GQ_GPU_ENQUEUE_PLAN_BATCHES_H

#include <algorithm>
#include <tuple>
#include <vector>

#include "src/gpu/device/buffer.h"
#include "src/gpu/enqueue/plan/execution_plan.h"

namespace gq {

/** Whether `next` may be in a launch with `step`: the same stage, of other values or operands. Such
 *  stages do not need each other's results. */
inline bool are_batched(const ExecutionStep& step, const ExecutionStep& next) {
  const Move &a = step.move, &b = next.move;
  const bool same = step.kind == ExecutionStep::Kind::stage && next.kind == step.kind &&
                    a.kind == b.kind && a.content == b.content && a.hop == b.hop;
  if (!same) return false;
  switch (a.kind) {
    case MoveKind::norm:
    case MoveKind::quantize:
    case MoveKind::dequantize:
      return true;
    case MoveKind::merge_norms:
      return a.first_value == b.first_value && a.value_count == b.value_count;
    case MoveKind::reduce_many:
      return a.addends == b.addends && a.part == b.part && step.count == next.count;
    default:
      return false;
  }
}

/** Pieces of the longest batch. */
inline constexpr size_t kBatchMax = 1024;

/** The number of the step behind the batch that begins with step `first`. */
inline size_t batch_end(const std::vector<ExecutionStep>& steps, size_t first) {
  const size_t most = std::min(steps.size(), first + kBatchMax);
  size_t end = first + 1;
  while (end < most && are_batched(steps[first], steps[end])) ++end;
  return end;
}

class Batches {
 public:
  Status open(const Device& device) {
    return table_.reserve(device, kBatchMax * kBatchPieceBytes);
  }
  /** Memory of the device for the pieces of one batch. */
  void* table() const { return table_.data(); }
  /** The device may still use it: it is never freed. */
  void forget() { table_.forget(); }

  /** For all batches of a plan. May throw std::bad_alloc. */
  void reserve(const ExecutionPlan& execution_plan) {
    size_t longest = execution_plan.segments() == nullptr ? 0 : execution_plan.segments()->size();
    for (const auto* steps : {&execution_plan.steps(), &execution_plan.results()}) {
      for (size_t first = 0, end = 0; first < steps->size(); first = end) {
        end = batch_end(*steps, first);
        longest = std::max(longest, end - first);
      }
    }
    std::apply([&](auto&... arguments) { (arguments.reserve(longest), ...); }, arguments_);
  }

  /** Empty, with memory for the longest batch. */
  template <typename Args>
  std::vector<Args>& begin() {
    auto& arguments = std::get<std::vector<Args>>(arguments_);
    arguments.clear();
    return arguments;
  }

 private:
  std::tuple<std::vector<NormArgs>, std::vector<MergeNormsArgs>, std::vector<QuantizeArgs>,
             std::vector<ReduceManyArgs>, std::vector<DequantizeArgs>, std::vector<SegmentPlace>>
      arguments_;
  DeviceBuffer table_;
};

}  // namespace gq

#endif
