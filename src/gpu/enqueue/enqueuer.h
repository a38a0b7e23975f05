// Fills a stream with one call: the stages and messages of its execution plan, with the caller's
// buffers.
#ifndef GQ_GPU_ENQUEUE_ENQUEUER_H
#define GQ_GPU_ENQUEUE_ENQUEUER_H

#include "kernels/agreement.h"
#include "src/execute/endpoint.h"
#include "src/execute/stage_arguments.h"
#include "src/gpu/enqueue/plan/batches.h"
#include "src/gpu/enqueue/plan/plan_cache.h"
#include "src/gpu/enqueue/side_stream.h"

namespace gq {

/** Where norms of segments are: this rank's, and those of all ranks, stride_bytes apart; all of
 *  them null in calls without. */
struct SegmentNormPlaces {
  unsigned char* own = nullptr;
  unsigned char* all = nullptr;
  size_t stride_bytes = 0;
  /** They travel with the control messages and are merged where those are compared; the own ones
   *  are 0 until they are taken. Else they are exchanged and merged by themselves. */
  bool with_control = false;
};

/** Memory of the device and the second stream that a call uses. */
struct CallPlaces {
  unsigned char* arena;
  SideStream* side_stream;  ///< for exchanges that overlap stages
  void* norm_sums;          ///< workspace of norm stages
  const float* norm;     ///< the global one of a call in one piece, where there are none of blocks
  Gate gate;             ///< whether values may be written
  Batches* batches;
  SegmentNormPlaces segment_norms;
};

class Enqueuer {
 public:
  Enqueuer(const Endpoint& endpoint, StreamTransport& transport, const Call& call,
           const CachedPlan& cached, const CallPlaces& places)
      : endpoint_(endpoint),
        transport_(transport),
        call_(call),
        cached_(cached),
        plan_(cached.execution_plan.plan()),
        places_(places),
        grouped_(groups_of_call()),
        arguments_(endpoint, call, plan_, places.arena, global_norms()) {}

  /** Everything up to the packed codes of the result. The call's stream comes after all of it, also
   *  after a failure in between. encoded: the codes of all values are in the arena already. */
  Status moves(bool encoded) const;
  /** Values, if the gate is open by then. */
  Status results() const;
  /** Norms of segments, and how all ranks' become the global ones. */
  Status take_segment_norms() const;
  MergeRankNormsArgs merged_segment_norms() const;
  /** Messages alone, for a rank whose own call is another one: the other ranks wait for them. */
  Status messages() const;

 private:
  Status make_moves(bool encoded) const;
  Status make(const ExecutionStep& step) const;
  Status make_batch(const ExecutionStep* steps, size_t count) const;
  template <typename Args, typename ArgsOf, typename Stage>
  Status enqueue(const ExecutionStep* steps, size_t count, ArgsOf args_of, Stage stage) const;
  Status exchange(const ExecutionStep& step, StreamHandle stream) const;
  Status exchange_on_side_stream(const ExecutionStep& step) const;
  Status reduce(const ExecutionStep& step) const;
  Status sum(const ExecutionStep& step) const;
  bool gathers_segment_norms() const {
    return places_.segment_norms.own != nullptr && !places_.segment_norms.with_control;
  }
  Status gather_segment_norms() const;
  const float* global_norms() const;
  GroupedValues groups_of_call() const;
  Status write_segments() const;
  template <typename Args>
  Args in_groups(Args args) const;
  Status add_values(const ExecutionStep& step) const;
  ReduceManyArgs add_rice_values(const ExecutionStep& step) const;
  ReduceManyArgs reduce_many(const ExecutionStep& step) const;
  DequantizeArgs dequantize(const ExecutionStep& step) const;

  const BatchStages& batches() const { return *transport_.device().batches; }
  const Stages& stages() const { return *transport_.device().stages; }
  uint32_t* words_at(size_t offset_bytes) const {
    return reinterpret_cast<uint32_t*>(places_.arena + offset_bytes);
  }
  const uint32_t* const* operands_at(size_t first) const {
    return reinterpret_cast<const uint32_t* const*>(cached_.addresses.get().on_device + first);
  }
  /** The ranks of each node, behind the addresses of operands. */
  const uint64_t* device_weights() const {
    const size_t behind = cached_.execution_plan.operands().size();
    return reinterpret_cast<const uint64_t*>(cached_.addresses.get().on_device + behind);
  }
  const uint32_t* const* host_operands_at(size_t first) const {
    return reinterpret_cast<const uint32_t* const*>(cached_.addresses.get().staged + first);
  }

  const Endpoint& endpoint_;
  StreamTransport& transport_;
  const Call& call_;
  const CachedPlan& cached_;
  const Plan& plan_;
  const CallPlaces places_;
  const GroupedValues grouped_;  // where there are groups
  const StageArguments arguments_;  // of all of these
};

}  // namespace gq

#endif
