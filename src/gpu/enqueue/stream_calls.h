// Collectives that are enqueued on a caller's stream: how ranks agree on them, on the device where
// they can and on the host where they must, and what is enqueued then (docs/NCCL.md).
#ifndef GQ_GPU_ENQUEUE_STREAM_CALLS_H
#define GQ_GPU_ENQUEUE_STREAM_CALLS_H

#include <atomic>
#include <memory>

#include "src/call/agreement.h"
#include "src/execute/endpoint.h"
#include "src/gpu/enqueue/enqueuer.h"
#include "src/gpu/enqueue/pending_operations.h"
#include "src/gpu/enqueue/plan_cache.h"
#include "src/gpu/enqueue/scratch_layout.h"
#include "src/support/kept_failure.h"

namespace gq {

class StreamCalls {
 public:
  /** `counter`: the step that the next call with none of its own takes. */
  StreamCalls(Endpoint* endpoint, StreamTransport* transport, std::atomic<uint64_t>* counter)
      : endpoint_(*endpoint),
        transport_(*transport),
        device_(transport->device()),
        lists_(transport->device()),
        counter_(*counter),
        aside_(transport->device()) {}
  ~StreamCalls();
  StreamCalls(const StreamCalls&) = delete;
  StreamCalls& operator=(const StreamCalls&) = delete;

  /** Memory and events that do not depend on calls. */
  Status open();

  /** Enqueues one call on call.stream, or notifies the other ranks that this one refuses: `own` is
   *  its refusal, whose sentence is this thread's last error. Waits on the host for the others'
   *  headers where the call is not the one that was expected. A failure of an earlier call, found
   *  since, is returned by this one, which is executed all the same: to refuse it would make it
   *  fail on other ranks, and so on for ever. */
  Status run(const Call& call, Status own);

  /** The same for a request, which ends when its stream is through with the call, or at once with
   *  what run() would return. What the device finds of it is its own: no later call returns it. */
  void start(std::shared_ptr<Request> request);
  /** True once `request`, which was started here, has ended. Never sleeps. */
  bool test(const Request& request);
  /** Returns when it has; TIMEOUT, which breaks the group, is an end as well. */
  void wait(const Request& request);

  /** Allocates workspace for calls of this plan. */
  Status reserve(PlanRequest request);

  /** What went wrong after a call had returned; stays until the next call reports it. */
  Status late_failure() const;
  /** What broke the group on a device, which no call has reported yet; from any thread. */
  Status broken_on_device() const {
    FusedKernels* const fused = transport_.fused();
    return fused == nullptr ? Status() : fused->too_late();
  }

  /** The step that the next call with at = NULL takes. From the first capture on the device counts:
   *  a call counts when it is executed, a replay too. From any thread. */
  uint64_t counter() const { return device_counts_ ? *device_counter() : counter_.load(); }
  bool counts_on_device() const { return device_counts_; }
  /** Of a call on host memory, once the device counts: after all that was enqueued before. */
  Status take_step_on_host(uint64_t* step);
  void set_counter(uint64_t step) {
    counter_.store(step);
    if (device_counts_) *device_counter() = step;
  }

 private:
  /** A call on its way into the stream. */
  struct Attempt {
    Call call;
    Header header;
    CachedPlan* known = nullptr;
    std::unique_ptr<CachedPlan> fresh;  ///< where the kind of call is a new one
    bool expected = false;
    bool speculative = false;       ///< without a look at the others' headers
    bool captured = false;          ///< becomes part of a graph
    bool may_fuse = false;          ///< one kernel of each rank may do it
    Disagreement* found = nullptr;  ///< where the device writes the status, if the host does not
                                    ///< wait
  };

  // What a stream may take to end once its messages are given up.
  static constexpr int64_t kGraceMs = 1000;

  Status make(const Call& call, Status own, Disagreement* found);
  Status describe(const Disagreement* late) const;
  Status index_refused(uint64_t sequence) const;
  Status take_late_failure();
  Status outcome_of(const PendingOperation& pending);
  Status look_after(PendingOperation* pending);
  Status refuse_capture(const Call& call) const;
  void end_pending(Status status);
  Status prepare(Attempt* attempt);
  Status check_sums(const Plan& plan) const;
  Status find_plan(const Plan& plan, Attempt* attempt);
  Status check_places(const Call& call) const;
  Status check_place(const char* name, const void* pointer, uint64_t value_count) const;
  Status grow(size_t arena_bytes);
  Status list_operands(const Attempt& attempt);

  Status capture(Attempt* attempt, const KeptFailure& refusal);
  static Status not_captured_yet(const Attempt& attempt, const char* why);
  static Status agrees_on_host(const Call& call, const char* why);
  Status keep_arena();
  static Status keep_lists(CachedPlan* known);
  Status capture_fused(Attempt* attempt);
  Status fused_block_count(const Attempt& attempt, uint32_t* block_count);
  void count_on_device(Call* call);
  void count_refused(const Call& call);
  Status take_step(Call* call);
  Status take_step_on_device(StreamHandle stream);
  TakeStepArgs step_args() const;
  static bool takes_step_on_device(const Call& call) {
    return call.counts_later && call.step_at != nullptr;
  }
  volatile uint64_t* device_counter() const { return pinned_.as<volatile uint64_t>(kCounterBytes); }

  Status enqueue(Attempt* attempt, const KeptFailure& refusal);
  Status publish(const Attempt& attempt, bool takes_norm);
  Status write_header(const Attempt& attempt, bool keep_norm);
  Status take_norm(const Attempt& attempt);
  Status agree_on_device(const Call& call, Disagreement* found);
  Status agree_on_host(const Attempt& attempt, Status own, Status* outcome);
  Status stay_in_step(const Call& call);
  Status enqueue_after_host_agreement(Attempt* attempt, const KeptFailure& refusal,
                                      bool takes_norm);
  Status agree_headers(const Attempt& attempt, const KeptFailure& refusal, Status* outcome);
  Status await_headers(Agreement* agreement);
  Status fill(Attempt* attempt, bool takes_norm);
  Status execute_call(Attempt* attempt);
  Status prepare_lists(const Plan& plan);
  Status list_codes(const Attempt& attempt, bool* as_lists);
  Status count_codes(const Call& call, const Plan& plan);
  Status gather_counts(const Attempt& attempt);
  Status read_counts(uint64_t* longest);
  Status check_count(uint32_t rank) const;
  Status select_entries(const Call& call, const Plan& plan);
  Status exchange_lists(const Call& call, const Plan& plan);
  Status add_lists(const Call& call, const Plan& plan);
  Status prepare_fused(Attempt* attempt);
  Status execute_fused(Attempt* attempt, uint32_t block_count);
  FusedArgs fused_args(const Attempt& attempt, uint32_t block_count) const;
  Status late_failure_of_kernels();
  Status wait_on_host(EventHandle event, const char* what);
  Status timed_out(int64_t timeout_ms, const char* what) const;
  Status end(Status status);
  void abandon();

  static bool sends_lists(const Attempt& attempt) {
    return attempt.known != nullptr && attempt.known->execution_plan.plan().schedule->sends_lists;
  }
  /** Whose norm travels in the header. */
  static bool has_one_norm(const Call& call) {
    return call.segments == nullptr && call.format.levels != Levels::none && call.format.block == 0;
  }
  /** Where hosts synchronize in every exchange there is nothing to overlap: stages are enqueued
   *  after. */
  Pace pace() const { return transport_.agrees_on_host() ? Pace::in_turns : Pace::overlapped; }
  CallPlaces places(const CachedPlan& known);
  StageArguments arguments_of(const Call& call, const Plan& plan) const {
    return {endpoint_, call, plan, arena_.data(), scratch_.as<const float>(kNormBytes)};
  }
  /** Workspace of the stages of sparse entries. */
  unsigned char* sparse_workspace(const Plan& plan) const;
  const Header* seen_headers() const { return pinned_.as<const Header>(kPinnedHeadersBytes); }
  /** Workspace of norm stages, behind everything else in the arena. */
  unsigned char* norm_sums(size_t group_count) const {
    return arena_.data() + arena_.size_bytes() - group_count * sizeof(double);
  }

  Endpoint& endpoint_;
  StreamTransport& transport_;
  const Device& device_;
  AddressListMemory lists_;  // before the members that use memory of it
  PlanCache plans_;
  PendingOperations pending_operations_;
  std::unique_ptr<CachedPlan> unused_;  ///< of a call that failed: the stream may not know yet
  std::atomic<uint64_t>& counter_;      // of the host
  std::atomic<bool> device_counts_{false};
  bool has_captured_ = false;
  DeviceBuffer arena_;
  std::vector<DeviceBuffer> earlier_arenas_;  // that graphs use
  DeviceBuffer scratch_;                      // headers of all ranks, the own one, norm and gate
  PinnedBuffer pinned_;  // what the host reads: disagreements, headers of all ranks
  std::vector<Transfer> list_transfers_;
  EventHandle done_ = nullptr;   // behind the last call
  EventHandle there_ = nullptr;  // behind headers on their way to the host
  SideStream aside_;             // after the memory that it may use
};

}  // namespace gq

#endif
