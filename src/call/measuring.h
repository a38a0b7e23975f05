// Ranks measure the constants of the cost model together: rounds of stages and messages, each with
// an exchange of control messages in which all learn the slowest rank's times. A state machine that
// never waits.
#ifndef GQ_CALL_MEASURING_H
#define GQ_CALL_MEASURING_H

#include <memory>

#include "src/call/agreement.h"
#include "src/execute/processors.h"
#include "src/execute/stage_times.h"
#include "src/plan/cost/measure_rounds.h"

namespace gq {

class Measuring {
 public:
  /** What ranks allocate to measure. */
  static size_t workspace_bytes();

  /** Sends the first control message. */
  Status begin(Endpoint& endpoint);

  /** Advances as far as possible without waiting. */
  Status advance(bool* done);

  /** Changes whenever something has happened. */
  uint64_t steps_made() const { return steps_made_ + agreement_.controls_read(); }
  /** True once the control messages of all ranks are here. */
  bool compared() const { return agreement_.compared(*endpoint_); }
  /** False while a failure is one that all ranks get: another rank may not measure at all. */
  bool agreed() const { return phase_ != Phase::agree; }

  /** Equal on all ranks; once advance() is done. */
  const std::shared_ptr<const CostConstants>& costs() const { return costs_; }

  /** TIMEOUT after `waited_ms` without progress: for which rank (*culprit), and for what. */
  Status timed_out(int64_t waited_ms, uint32_t* culprit);

 private:
  enum class Phase { agree, work, numbers, done };
  /** The ranks of a link round: equal to the own one where this rank has no part in it. */
  struct Neighbours {
    uint32_t next, previous;
  };

  Status allocate();
  void begin_round();
  Status work(bool* done);
  Status exchange(bool* done);
  Status add_sums(bool* done);
  void read_words(const unsigned char* words);
  void find_time();
  Status send_numbers();
  Status read_numbers(bool* all);
  Status check_control(uint32_t rank, const ControlMessage& control) const;
  void add_numbers(uint32_t rank, const ControlMessage& control);
  void end_round();
  Status finish();

  uint32_t node_of(uint32_t rank) const;
  Neighbours neighbours() const;
  Message message_to(uint32_t peer) const;
  Message message_from(uint32_t peer, uint64_t number) const;
  uint64_t now_ns() const { return endpoint_->clock.now_ns(); }

  Endpoint* endpoint_ = nullptr;
  Call call_;  // what the first control message has
  Agreement agreement_;
  MeasureRounds rounds_;
  StageTimes stages_;
  Phase phase_ = Phase::agree;
  unsigned char* arena_ = nullptr;
  uint64_t steps_made_ = 0;
  uint64_t begin_ns_ = 0, round_ns_ = 0;  // when all, and this round, began
  uint64_t sent_ns_ = 0;                  // the control message of this round
  double exchange_ns_ = 0;                // what the last exchange of control messages took
  // Of this round: what this rank has found out, the slowest rank's, and messages.
  RoundNumbers own_, slowest_;
  double elapsed_ns_ = 0;
  uint32_t controls_read_ = 0;
  Processors here_;
  uint32_t sharers_ = 0;        // ranks of this node with this rank's processors
  double node_processors_ = 0;  // of this rank's node
  uint32_t expected_ = 0, sent_ = 0, received_ = 0;
  bool sum_begun_ = false;
  bool cleared_ = false;     // the workspace
  uint64_t words_read_ = 0;  // their sum, so that reading them is not left out
  std::shared_ptr<const CostConstants> costs_;
};

}  // namespace gq

#endif
