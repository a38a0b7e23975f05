// The first exchange of every operation: each rank sends the arguments of its call, all compare
// them, and all reach the same outcome before a code moves. Also where local norms become global
// ones.
#ifndef GQ_CALL_AGREEMENT_H
#define GQ_CALL_AGREEMENT_H

#include <stdint.h>

#include "kernels/codec/global_norm.h"
#include "src/execute/endpoint.h"
#include "src/support/rank_list.h"
#include "src/transport/control_message.h"

namespace gq {

class Agreement {
 public:
  /** The control message of a call whose checks passed; `norm` as it travels. */
  static ControlMessage control_of(const Endpoint& endpoint, const Call& call, int32_t schedule_id,
                                   NormWords norm);
  /** The control message of a call that this rank refuses, so that no other waits for it. */
  static ControlMessage refusal_of(const Endpoint& endpoint, const Call& call, gqsgd_status code,
                                   NonfiniteSite where);

  /** The control message of the call after one in which words were changed. */
  static ControlMessage damage_of(const Endpoint& endpoint, const Damage& damage);

  /** INTEGRITY if `control`, of `rank`, says that words were changed; else OK. */
  static Status check_damage(const Endpoint& endpoint, const char* operation, uint32_t rank,
                             const ControlMessage& control);

  /** NONFINITE in the words that every rank uses. */
  static Status nonfinite(const Endpoint& endpoint, const char* operation, uint32_t rank,
                          NonfiniteSite where);

  void begin(const Call& call) {
    *this = Agreement();
    operation_ = operation_name(call);
    norm_ = GlobalNorm(call.format.q, call.format.p);
  }

  /** Reads what has come; *done once all control messages are in. Never waits. */
  Status collect(Endpoint& endpoint, bool* done);
  /** The next rank's, which has come otherwise. */
  void read(const ControlMessage& control) { add(next_rank_++, control); }

  uint32_t controls_read() const { return next_rank_; }

  /** True once the control messages of all ranks are here. */
  bool compared(const Endpoint& endpoint) const { return next_rank_ == endpoint.size(); }

  /** After collect() is done: OK, or the same failure on every rank. `own` is this rank's refusal.
   */
  Status outcome(const Endpoint& endpoint, Status own);

  /** Both in one: *done once the outcome is OK. A failure is returned when the own control message
   *  has left, without which the others do not come to it. */
  Status conclude(Endpoint& endpoint, const Status& own, bool* done);

  /** True if the outcome is that results of the call before differ. */
  bool found_divergence() const { return diverged_; }

  /** The norm of all ranks; only after an OK outcome. */
  float global_norm() const;

  /** TIMEOUT of a rank that waited for control messages, which names the ranks that are missing, or
   *  for its own to leave. */
  Status timed_out(Endpoint& endpoint, int64_t waited_ms, uint32_t* culprit) const;

  /** Adds the ranks from `next_rank` on that have not made this call, without those that another
   *  rank keeps waiting in an earlier one, and sets *first to the first of them. If none is left,
   *  the rank that keeps `next_rank` waiting. Returns the transport's failure, if it has one. */
  static Status find_missing(Endpoint& endpoint, uint32_t next_rank, RankList* missing,
                             uint32_t* first);

 private:
  Status take_damage(Endpoint& endpoint) const;
  Status leaving_timed_out(const Endpoint& endpoint, int64_t waited_ms, uint32_t* culprit) const;
  void add(uint32_t rank, const ControlMessage& control);
  Status compare_digests(const Endpoint& endpoint);

  const char* operation_ = "";
  uint32_t next_rank_ = 0;
  bool has_reference_ = false;
  ControlMessage reference_;  // of the first rank: rank 0, unless its own was changed
  uint32_t reference_rank_ = 0;
  ControlMessage differing_;  // of the first rank that differs from it
  uint32_t differing_rank_ = 0;
  bool differs_ = false;
  ControlMessage refused_;  // of the first rank whose own checks failed
  uint32_t refused_rank_ = 0;
  bool refuses_ = false;
  bool has_digests_ = false;
  bool diverged_ = false;
  bool is_damaged_ = false;
  uint32_t damaged_rank_ = 0;  // the first whose control message was changed on its way
  Status shared_failure_;      // the outcome, while the own control message is leaving
  GlobalNorm norm_;
};

}  // namespace gq

#endif
