// One allreduce on one rank, as a state machine that never waits: norm, agree, send sparse entries
// or make moves, done. The other collectives are the same with other moves, and with norms of
// segments between agreement and moves.
#ifndef GQ_CALL_ALLREDUCE_H
#define GQ_CALL_ALLREDUCE_H

#include <memory>

#include "src/call/agreement.h"
#include "src/call/measuring.h"
#include "src/call/sparse.h"
#include "src/execute/executor.h"
#include "src/execute/segment_norms.h"

namespace gq {

class Allreduce {
 public:
  /** Computes the norm and sends it to the others. `own` is a failure of checks already made here:
   *  the others receive it and this rank does nothing more for the call, but its call number stays
   *  equal to theirs. */
  Status begin(Endpoint& endpoint, const Call& call, Status own);

  /** Advances as far as possible without waiting. */
  Status advance(bool* done);

  /** After a call in which words were found changed: ranks that have its result learn in their next
   *  call that this one has not. Its control message of that call is sent now, since it makes no
   *  other. */
  void report_damage_in_next_call();

  /** Changes whenever something has happened. */
  uint64_t progress() const {
    const uint64_t measured = measuring_ ? measuring_->steps_made() : 0;
    return events_ + measured + segment_norms_.steps_made() + sparse_entries_.steps_made() +
           executor_.moves_made();
  }

  /** The call with its schedule resolved, and what is executed; of a call that succeeded. */
  const Call& call() const { return call_; }
  const char* schedule_name() const {
    return plan_.schedule == nullptr ? "" : plan_.schedule->name;
  }

  /** True once the control messages of all ranks are here: a failure before is this rank's alone,
   *  or the transport's word for a rank that broke the group. */
  bool compared() const {
    return phase_ == Phase::measure ? measuring_->compared()
                                    : agreement_.compared(*endpoint_);
  }

  /** True once more than arguments may move: a failure from then on breaks the communicator. */
  bool agreed() const {
    return phase_ == Phase::measure ? measuring_->agreed() : phase_ != Phase::agree;
  }

  /** True if the call failed because results of the call before differ: all ranks fail alike. */
  bool found_divergence() const { return agreement_.found_divergence(); }

  /** Notes in the endpoint that the call has ended in step with all ranks: OK, or with a failure
   *  that they share. */
  void note_end(bool has_result);

  /** TIMEOUT after `waited_ms` without progress: what was awaited, from which rank (*culprit). */
  Status timed_out(int64_t waited_ms, uint32_t* culprit);

 private:
  enum class Phase { measure, agree, norms, sparse_entries, move, flush, done };

  void forget_last_call();
  bool has_to_measure() const;
  Status begin_measuring();
  Status measure(bool* done);
  Status begin_agreement();
  Status check_sums();
  Status prepare_short_call();
  Status finish_short_call();
  bool flushing() const;
  Status take_norm(NormWords* norm);
  Status norm_of(const Part& part, const void* values, bool rotated, NormWords* norm);
  Status check_finite();
  Status refuse(const Part& part, const void* values, uint64_t before);
  Status exchange_norms();
  Status agree(bool* done);
  void keep_digest();
  Status allocate_workspace();
  Status exchange_sparse_entries();

  Endpoint* endpoint_ = nullptr;
  Call call_;
  Plan plan_;
  Phase phase_ = Phase::agree;
  Status own_;
  NonfiniteSite nonfinite_;
  std::unique_ptr<Measuring> measuring_;  // null but in the call that measures costs
  Agreement agreement_;
  SegmentNorms segment_norms_;
  SparseEntries sparse_entries_;
  Executor executor_;
  unsigned char* arena_ = nullptr;
  float norm_ = 0;  // the global one of a call in one piece
  bool is_short_ = false;
  uint64_t sequence_ = 0;  // of its control message
  uint64_t events_ = 0;
};

/** Writes the result of the endpoint's newest call that has ended, which is kept, to `recv` again.
 */
Status write_kept_result(Endpoint& endpoint, void* recv);

}  // namespace gq

#endif
