// Stages of an execution plan that follow each other and become one launch: which they are, and
// memory for their arguments.
#ifndef GQ_GPU_ENQUEUE_PLAN_BATCHES_H
#define GQ_GPU_ENQUEUE_PLAN_BATCHES_H

#include <algorithm>
#include <tuple>
#include <vector>

#include "src/gpu/enqueue/plan/execution_plan.h"
#include "src/gpu/enqueue/plan/operand_addresses.h"

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

/** Batches of a plan: their pieces that are in tables, and those of the longest. */
struct BatchSizes {
  size_t in_tables = 0;
  size_t longest = 0;

  explicit BatchSizes(const ExecutionPlan& execution_plan) {
    const std::vector<Part>* segments = execution_plan.segments();
    for (size_t left = segments == nullptr ? 0 : segments->size(); left > 0;) {  // their norms
      add(std::min(left, kBatchMax));
      left -= std::min(left, kBatchMax);
    }
    for (const auto* steps : {&execution_plan.steps(), &execution_plan.results()}) {
      for (size_t first = 0, end = 0; first < steps->size(); first = end) {
        end = batch_end(*steps, first);
        add(end - first);
      }
    }
  }

 private:
  void add(size_t count) {
    longest = std::max(longest, count);
    if (count > kBatchArgumentsMax) in_tables += count;
  }
};

class Batches {
 public:
  /** Addresses that are as long as a piece. */
  static constexpr size_t kPieceAddresses = kBatchPieceBytes / sizeof(void*);

  /** For all batches of a plan. May throw std::bad_alloc. */
  void reserve(const BatchSizes& sizes) {
    std::apply([&](auto&... arguments) { (arguments.reserve(sizes.longest), ...); }, arguments_);
  }

  /** A call whose batches have their tables there, in the order in which they are enqueued. A graph
   *  may have written others since the last call: then the host does not know what they have. */
  void begin_call(const AddressArray& tables, bool in_graph) {
    tables_ = tables;
    in_graph_ = in_graph;
    used_ = 0;
  }
  BatchTable next_table(size_t piece_count) {
    if (piece_count <= kBatchArgumentsMax) return {};
    const size_t first = used_;
    used_ += piece_count * kPieceAddresses;
    return {tables_.on_device + first, in_graph_ ? nullptr : tables_.staged + first};
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
  AddressArray tables_;
  bool in_graph_ = false;
  size_t used_ = 0;
};

}  // namespace gq

#endif
