// Fills a stream with one call: the stages and messages of a program, with the caller's buffers.
#ifndef GQ_GPU_ENQUEUE_ENQUEUER_H
#define GQ_GPU_ENQUEUE_ENQUEUER_H

#include "src/execute/endpoint.h"
#include "src/execute/stage_arguments.h"
#include "src/gpu/enqueue/plan_cache.h"
#include "src/gpu/enqueue/side_stream.h"

namespace gq {

/** Where on the device a call finds what is no word of it, and where its words travel. */
struct CallPlaces {
  unsigned char* arena;
  SideStream* aside;     ///< for exchanges that stages need not wait for
  void* norm_sums;       ///< workspace of norm stages
  const float* norm;     ///< the global one of a call in one piece, where there are none of blocks
  const uint32_t* gate;  ///< 0: values may be written
};

class Enqueuer {
 public:
  Enqueuer(const Endpoint& endpoint, StreamTransport& transport, const Call& call,
           const CachedPlan& known, const CallPlaces& places)
      : endpoint_(endpoint),
        transport_(transport),
        call_(call),
        known_(known),
        plan_(known.execution_plan.plan()),
        places_(places),
        arguments_(endpoint, call, plan_, places.arena, global_norms()) {}

  /** Everything up to the words of the result. The call's stream comes after all of it, also after
   *  a failure in between. encoded: codes are there already. */
  Status moves(bool encoded) const;
  /** Values, if the gate is open by then. */
  Status results() const;
  /** Messages alone, for a rank whose call the others' is not: they wait for no rank. */
  Status messages() const;

 private:
  Status make_moves(bool encoded) const;
  Status make(const ExecutionStep& step) const;
  Status exchange(const ExecutionStep& step, StreamHandle stream) const;
  Status exchange_aside(const ExecutionStep& step) const;
  Status stage(const ExecutionStep& step) const;
  Status sum(const ExecutionStep& step) const;
  bool has_segment_norms() const;
  Status take_segment_norms() const;
  Status gather_segment_norms() const;
  Status merge_segment_norms() const;
  const float* global_norms() const;
  Status merge_norms(const ExecutionStep& step) const;
  Status reduce_many(const ExecutionStep& step) const;
  Status add_values(const ExecutionStep& step) const;
  Status dequantize(const ExecutionStep& step) const;

  const Stages& stages() const { return *transport_.device().stages; }
  uint32_t* words_at(size_t offset_bytes) const {
    return reinterpret_cast<uint32_t*>(places_.arena + offset_bytes);
  }
  const uint32_t* const* operands_at(size_t first) const {
    return reinterpret_cast<const uint32_t* const*>(known_.lists.list().there + first);
  }

  const Endpoint& endpoint_;
  StreamTransport& transport_;
  const Call& call_;
  const CachedPlan& known_;
  const Plan& plan_;
  const CallPlaces places_;
  const StageArguments arguments_;  // of all of these
};

}  // namespace gq

#endif
