// How the survivors of a failed group agree, without a coordinator, on who goes on and on what
// becomes of interrupted calls: Paxos on registers (decision 34). A quorum is a strict majority of
// the old group, or all ranks but those that are certainly dead. Here is one rank's part as a state
// machine: it sends nothing, waits for nothing and reads no clock.
#ifndef GQ_SURVIVORS_MEMBERSHIP_H
#define GQ_SURVIVORS_MEMBERSHIP_H

#include <memory>
#include <vector>

#include "src/survivors/register.h"

namespace gq {

inline constexpr uint64_t kForEverUs = UINT64_MAX;

struct MembershipOptions {
  uint32_t rank = 0;
  uint32_t size = 1;
  /** For a rank that is neither dead nor here. */
  uint64_t patience_us = kForEverUs;
  /** A rank whose register stays the same for so long does not run, or cannot be reached. */
  uint64_t silence_us = 1000000;  ///< at least some looks of a rank
};

class Membership {
 public:
  enum class Outcome {
    undecided,
    decided,  ///< decision() is that of all, and this rank belongs to it and has its end
    left_out  ///< the others go on without this rank, or it has given up
  };

  /** May throw std::bad_alloc. */
  Membership(const MembershipOptions& options, const CallReport& report, uint64_t now_us);

  /** The newest register of a peer. What no correct rank writes is left out. */
  void see(uint32_t peer, const Register& found, uint64_t now_us);
  /** There is evidence that `peer` never acts again. Its register is seen after that once more. */
  void mark_dead(uint32_t peer) { own_.dead.add(peer); }
  /** A fresh name, for which this rank is asked by needs_offer(). */
  void set_offer(const GroupName& name);
  bool needs_offer() const { return !has_offer_; }

  /** Goes as far as possible. */
  void advance(uint64_t now_us);

  const Register& own() const { return own_; }
  /** Counts changes of own(), each of which the peers are to see. */
  uint64_t version() const { return own_.beat; }
  Outcome outcome() const;
  const Proposal& decision() const { return own_.accepted; }

  /** The attempt that this rank is to form its end of now; 0 if there is none. */
  Ballot to_form() const { return forming_; }
  const Proposal& forming() const { return forming_proposal_; }
  const GroupName& forming_name() const { return forming_name_; }
  /** How that has ended; false too if to_form() has become another. */
  void end_forming(Ballot attempt, bool formed);
  /** This rank does not take part any more: for a reason of its own. */
  void give_up();

  /** Ranks that were neither here nor dead when this rank was last asked. */
  RankSet missing() const;
  const RankSet& dead() const { return own_.dead; }

 private:
  struct Seen {
    Register newest;
    uint64_t changed_us = 0;
  };

  const Register& of(uint32_t rank) const {
    return rank == options_.rank ? own_ : seen_[rank].newest;
  }
  /** Never to act again in this agreement. */
  bool is_out(uint32_t rank) const { return own_.dead.has(rank) || of(rank).gave_up != 0; }
  bool is_silent(uint32_t rank) const;
  bool is_here(uint32_t rank) const { return of(rank).entered != 0 && !is_out(rank); }
  bool is_quorum(const RankSet& ranks) const;
  Ballot highest_ballot() const;

  void share_news();
  void note_silence();
  bool learn();
  void promise();
  void follow();
  void follow_form(const Register& leader);
  void lead();
  bool should_lead(Ballot highest) const;
  void begin_ballot(Ballot highest);
  void collect();
  bool has_promised(uint32_t rank) const {
    return of(rank).entered != 0 && of(rank).promised == own_.lead_ballot;
  }
  bool are_connected(uint32_t a, uint32_t b) const;
  RankSet choose_members() const;
  void propose(const RankSet& members);
  bool proposed_before();
  void watch_forming();
  void count_accepted();
  void end_attempt();

  const MembershipOptions options_;
  Register own_;
  Register shown_;  ///< as it was at its newest beat
  std::vector<Seen> seen_;
  uint64_t now_us_;
  uint64_t advanced_us_;  // when it last went on
  uint64_t entered_us_;   // later by the time for which it was stopped
  uint64_t beat_us_;
  uint64_t beat_interval_us_;  // as often as the most impatient rank expects it
  bool has_offer_ = false;
  Ballot forming_ = 0;
  Proposal forming_proposal_;
  GroupName forming_name_;
  uint32_t failed_attempts_ = 0;   // of this rank's own ballots
  uint32_t overtaken_ = 0;         // how often another ballot has ended one of this rank's
  uint64_t lead_after_us_ = 0;     // no new ballot before
  uint64_t ballot_us_ = 0;         // when its newest began
  uint64_t newcomer_us_ = 0;       // when the first register of the last rank came
};

}  // namespace gq

#endif
