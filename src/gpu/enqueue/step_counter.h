// The step that the next call without one of its own takes: counted by the host until a call is
// captured, by the device from then on.
#ifndef GQ_GPU_ENQUEUE_STEP_COUNTER_H
#define GQ_GPU_ENQUEUE_STEP_COUNTER_H

#include <atomic>

#include "src/gpu/enqueue/memory/scratch.h"
#include "src/gpu/enqueue/stream_group.h"

namespace gq {

/** On the device a call counts when it is executed, a replay too. */
class StepCounter {
 public:
  StepCounter(std::atomic<uint64_t>* host, StreamGroup* group, const Scratch* scratch)
      : host_(*host), group_(*group), scratch_(*scratch) {}

  /** From any thread. */
  uint64_t get() const { return on_device_ ? device_counter().load() : host_.load(); }
  bool is_on_device() const { return on_device_; }
  void set(uint64_t step) {
    host_.store(step);
    if (on_device_) device_counter().store(step);
  }

  /** The step of a call outside of graphs. INVALID_ARGUMENT beyond the largest step. */
  Status take(Call* call);
  /** Of a call on host memory, once the device counts: after all that was enqueued before. */
  Status take_on_host(uint64_t* step);
  /** The device counts from now on, also this call, which is captured. */
  void move_to_device(Call* call);

  /** Whether the device counts this call. */
  static bool takes_on_device(const Call& call) {
    return call.counts_later && call.step_at != nullptr;
  }
  /** The stage that takes the step of such a call. */
  TakeStepArgs stage() const;
  Status enqueue(StreamHandle stream) const;
  /** A call that all ranks refuse has a step, as on host memory. A stream that is none takes
   *  nothing. */
  void enqueue_refused(const Call& call) const;

 private:
  /** In pinned memory, where the device writes it at any moment. */
  std::atomic_ref<uint64_t> device_counter() const {
    return std::atomic_ref<uint64_t>(*scratch_.step_counter());
  }

  std::atomic<uint64_t>& host_;
  StreamGroup& group_;
  const Scratch& scratch_;
  std::atomic<bool> on_device_{false};
};

}  // namespace gq

#endif
