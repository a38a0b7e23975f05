// One look after the other: learn what is decided, promise, accept, and lead where no lower rank
// does.
#include "src/survivors/membership.h"

#include <string.h>

#include <algorithm>
#include <utility>

#include "src/survivors/call_fate.h"

namespace gq {
namespace {

// Of the silence that lets others take over, how often a rank shows that it runs.
constexpr uint64_t kBeatsPerSilence = 8;
constexpr uint64_t kBeatMinUs = 1000;
// Of `patience` and `silence`: longer than any other rank waits for a rank that is not here.
constexpr uint64_t kGiveUpPatiences = 2;
constexpr uint64_t kGiveUpSilences = 16;
// Of `silence`: what a leader waits after its patience for ranks that come or come back.
constexpr uint64_t kReturningSilences = 4;
// Between attempts of one rank that fail; the first follows at once.
constexpr uint64_t kRetryUs = 2000;
constexpr uint32_t kDoublingsMax = 8;

bool is_set(const RankSet& set, uint32_t size) {
  for (uint32_t rank = size; rank < kSurvivorRanksMax; ++rank) {
    if (set.has(rank)) return false;
  }
  return true;
}

bool is_proposal(const Proposal& proposal, uint32_t size) {
  return is_set(proposal.members, size) && proposal.source < size &&
         proposal.fate <= CallFate::differs;
}

/** Everything that is used as a rank, or to tell one step from the next. */
bool is_possible(const Register& found, uint32_t size) {
  for (const Ballot ballot : {found.promised, found.accepted_ballot, found.lead_ballot}) {
    if (rank_of(ballot) >= size) return false;
  }
  return found.entered == 1 && found.stage <= LeadStage::accept && is_set(found.dead, size) &&
         is_set(found.silent, size) && is_proposal(found.accepted, size) &&
         is_proposal(found.proposed, size);
}

uint64_t beat_interval(uint64_t silence_us) {
  return std::max(silence_us / kBeatsPerSilence, kBeatMinUs);
}

/** Of the time between two looks, what is no time that a rank has waited: it was stopped itself
 *  then, and the others may have been as well. */
uint64_t stopped_us(uint64_t pause_us, uint64_t silence_us) {
  return pause_us > silence_us ? pause_us - silence_us : 0;
}

}  // namespace

Membership::Membership(const MembershipOptions& options, const CallReport& report, uint64_t now_us)
    : options_(options),
      seen_(options.size),
      now_us_(now_us),
      advanced_us_(now_us),
      entered_us_(now_us),
      beat_us_(now_us),
      beat_interval_us_(beat_interval(options.silence_us)) {
  own_.entered = 1;
  own_.beat = 1;
  own_.silence_us = options.silence_us;
  own_.report = report;
}

void Membership::see(uint32_t peer, const Register& found, uint64_t now_us) {
  Seen& seen = seen_[peer];
  if (peer == options_.rank || found.beat <= seen.newest.beat) return;
  if (!is_possible(found, options_.size)) return;
  now_us_ = std::max(now_us_, now_us);
  if (seen.newest.entered == 0 || is_silent(peer)) newcomer_us_ = now_us;
  beat_interval_us_ = std::min(beat_interval_us_, beat_interval(found.silence_us));
  seen.newest = found;
  seen.changed_us = now_us;
}

void Membership::set_offer(const GroupName& name) {
  own_.offer = name;
  has_offer_ = true;
}

bool Membership::is_silent(uint32_t rank) const {
  if (rank == options_.rank) return false;
  return now_us_ - std::max(seen_[rank].changed_us, entered_us_) > options_.silence_us;
}

bool Membership::is_quorum(const RankSet& ranks) const {
  if (2 * ranks.count() > options_.size) return true;
  for (uint32_t rank = 0; rank < options_.size; ++rank) {
    if (!ranks.has(rank) && !is_out(rank)) return false;
  }
  return true;
}

Ballot Membership::highest_ballot() const {
  Ballot highest = 0;
  for (uint32_t rank = 0; rank < options_.size; ++rank) {
    const Register& found = of(rank);
    highest = std::max({highest, found.promised, found.lead_ballot, found.accepted_ballot});
  }
  return highest;
}

Membership::Outcome Membership::outcome() const {
  if (own_.decided == 0) return own_.gave_up != 0 ? Outcome::left_out : Outcome::undecided;
  const bool is_member = own_.accepted.members.has(options_.rank);
  const bool has_end = own_.formed == own_.accepted.attempt;
  return is_member && has_end ? Outcome::decided : Outcome::left_out;
}

void Membership::advance(uint64_t now_us) {
  if (outcome() != Outcome::undecided) return;
  entered_us_ += stopped_us(now_us - advanced_us_, options_.silence_us);
  now_us_ = advanced_us_ = now_us;
  share_news();
  note_silence();
  if (!learn()) {
    promise();
    follow();
    lead();
    follow();  // itself as well
    const uint64_t limit_us = kGiveUpSilences * options_.silence_us;
    if (options_.patience_us != kForEverUs &&
        now_us_ - entered_us_ > kGiveUpPatiences * options_.patience_us + limit_us) {
      give_up();
    }
  }
  const bool has_changed = memcmp(&shown_, &own_, sizeof own_) != 0;
  if (!has_changed && now_us_ - beat_us_ < beat_interval_us_) return;
  own_.beat += 1;
  beat_us_ = now_us_;
  shown_ = own_;
}

/** Evidence of one is evidence for all; and a name is for one attempt. */
void Membership::share_news() {
  for (uint32_t rank = 0; rank < options_.size; ++rank) {
    own_.dead.add(of(rank).dead);
    if (memcmp(&of(rank).name, &own_.offer, sizeof own_.offer) == 0) has_offer_ = false;
  }
}

void Membership::note_silence() {
  own_.silent = RankSet();
  for (uint32_t peer = 0; peer < options_.size; ++peer) {
    if (is_silent(peer)) own_.silent.add(peer);
  }
}

/** Also from a rank that is dead by now: others may have learned it before. */
bool Membership::learn() {
  for (uint32_t peer = 0; peer < options_.size; ++peer) {
    if (peer == options_.rank || of(peer).decided == 0) continue;
    own_.accepted_ballot = std::max(own_.accepted_ballot, of(peer).accepted_ballot);
    own_.accepted = of(peer).accepted;
    own_.decided = 1;
    own_.stage = LeadStage::none;
    if (forming_ != 0) end_forming(forming_, false);
    return true;
  }
  return false;
}

void Membership::promise() {
  for (uint32_t peer = 0; peer < options_.size; ++peer) {
    if (peer == options_.rank || is_out(peer)) continue;
    own_.promised = std::max(own_.promised, of(peer).lead_ballot);
  }
}

/** What the leader of the promised ballot asks for. */
void Membership::follow() {
  const Register& leader = of(rank_of(own_.promised));
  const bool leads = own_.promised != 0 && leader.lead_ballot == own_.promised;
  const bool is_asked = leads && leader.stage == LeadStage::form && !is_out(rank_of(own_.promised));
  if (forming_ != 0 && (!is_asked || leader.proposed.attempt != forming_)) {
    end_forming(forming_, false);
  }
  if (!leads) return;
  if (leader.stage == LeadStage::form) follow_form(leader);
  if (leader.stage != LeadStage::accept || own_.accepted_ballot == own_.promised) return;
  own_.accepted_ballot = own_.promised;
  own_.accepted = leader.proposed;
}

void Membership::follow_form(const Register& leader) {
  const Ballot attempt = leader.proposed.attempt;
  if (forming_ == attempt || !leader.proposed.members.has(options_.rank)) return;
  if (own_.formed == attempt || own_.failed == attempt) return;
  own_.formed = 0;  // its end of an earlier one is of no use: no quorum has accepted that
  own_.begun = attempt;
  forming_ = attempt;
  forming_proposal_ = leader.proposed;
  forming_name_ = leader.name;
  own_.name = leader.name;
}

void Membership::end_forming(Ballot attempt, bool formed) {
  if (forming_ != attempt) return;
  forming_ = 0;
  (formed ? own_.formed : own_.failed) = attempt;
}

void Membership::give_up() {
  own_.gave_up = 1;
  own_.stage = LeadStage::none;
  own_.beat += 1;
  if (forming_ != 0) end_forming(forming_, false);
}

/** The ballot that is under way is led to its end, unless its rank cannot; then the lowest rank
 *  that is here begins another. */
bool Membership::should_lead(Ballot highest) const {
  const uint32_t current = rank_of(highest);
  if (highest != 0 && current != options_.rank && !is_out(current)) {
    const bool leads = of(current).lead_ballot != highest || of(current).stage != LeadStage::none;
    if ((leads && !is_silent(current)) || now_us_ < lead_after_us_) return false;
  }
  for (uint32_t rank = 0; rank < options_.rank; ++rank) {
    if (is_here(rank) && !is_silent(rank)) return false;
  }
  return true;
}

void Membership::lead() {
  const Ballot highest = highest_ballot();
  if (own_.lead_ballot != highest && own_.stage != LeadStage::none) {
    own_.stage = LeadStage::none;
    overtaken_ = std::min(overtaken_ + 1, kDoublingsMax);
    lead_after_us_ = now_us_ + (options_.silence_us << overtaken_) / 2;
  }
  const bool retries = own_.stage == LeadStage::pause && now_us_ >= lead_after_us_;
  const bool leads = own_.stage != LeadStage::none;
  if (retries || (!leads && should_lead(highest))) begin_ballot(highest);
  if (own_.stage == LeadStage::collect) collect();
  if (own_.stage == LeadStage::form) watch_forming();
  if (own_.stage == LeadStage::accept) count_accepted();
}

void Membership::begin_ballot(Ballot highest) {
  own_.lead_ballot = ballot_of(round_of(highest) + 1, options_.rank);
  own_.promised = own_.lead_ballot;
  own_.stage = LeadStage::collect;
  ballot_us_ = now_us_;
}

/** Whether each of them receives from the other. */
bool Membership::are_connected(uint32_t a, uint32_t b) const {
  return a == b || (!of(a).silent.has(b) && !of(b).silent.has(a));
}

/** All that live and have promised, if they reach each other; else some of them that do, without
 *  those first that most others do not reach. */
RankSet Membership::choose_members() const {
  std::vector<std::pair<uint32_t, uint32_t>> candidates;  // unreached others, rank
  for (uint32_t rank = 0; rank < options_.size; ++rank) {
    if (!has_promised(rank) || is_out(rank)) continue;
    uint32_t unreached = 0;
    for (uint32_t other = 0; other < options_.size; ++other) {
      const bool counts = has_promised(other) && !is_out(other);
      unreached += counts && !are_connected(rank, other) ? 1 : 0;
    }
    candidates.push_back({rank == options_.rank ? 0 : unreached, rank});
  }
  std::sort(candidates.begin(), candidates.end());
  RankSet members;
  members.add(options_.rank);
  for (const auto& [unreached, rank] : candidates) {
    bool fits = true;
    for (uint32_t other = 0; other < options_.size && fits; ++other) {
      fits = !members.has(other) || are_connected(rank, other);
    }
    if (fits) members.add(rank);
  }
  return members;
}

void Membership::collect() {
  const RankSet members = choose_members();
  bool all = true;
  for (uint32_t rank = 0; rank < options_.size; ++rank) {
    all = all && (members.has(rank) || is_out(rank));
  }
  if (all) return propose(members);
  const uint64_t waited_us = now_us_ - entered_us_;
  if (options_.patience_us == kForEverUs || waited_us < options_.patience_us) return;
  // Promises of this ballot are on their way, or reach a rank that has just come.
  const bool is_late =
      waited_us > options_.patience_us + kReturningSilences * options_.silence_us;
  const uint64_t quiet_us = now_us_ - (is_late ? ballot_us_ : std::max(ballot_us_, newcomer_us_));
  if (quiet_us < options_.silence_us) return;
  if (is_quorum(members)) return propose(members);
  if (is_late) give_up();
}

void Membership::propose(const RankSet& members) {
  if (proposed_before()) {
    own_.stage = LeadStage::accept;
    return;
  }
  std::vector<CallReport> reports(options_.size);
  uint32_t first = options_.size;
  for (uint32_t rank = 0; rank < options_.size; ++rank) {
    reports[rank] = of(rank).report;
    if (members.has(rank)) first = std::min(first, rank);
  }
  if (first == options_.rank && !has_offer_) return;  // until there is another
  Proposal proposal;
  proposal.attempt = own_.lead_ballot;
  proposal.members = members;
  decide_calls(reports, members, &proposal);
  own_.proposed = proposal;
  own_.name = of(first).offer;
  own_.stage = LeadStage::form;
}

/** Proposes again what a quorum may have accepted. Its members had formed their ends. No quorum has
 *  if one of them has begun another attempt since it was last accepted: the leader of that attempt
 *  knew of none. One that was begun before shows nothing: the ranks that had accepted may have been
 *  asked later than its leader. Then a member without its end is left out. */
bool Membership::proposed_before() {
  Ballot newest = 0;
  for (uint32_t rank = 0; rank < options_.size; ++rank) {
    const Register& found = of(rank);
    if (!has_promised(rank) || found.accepted_ballot <= newest) continue;
    newest = found.accepted_ballot;
    own_.proposed = found.accepted;
  }
  for (uint32_t rank = 0; rank < options_.size && newest != 0; ++rank) {
    const bool is_member = own_.proposed.members.has(rank);
    if (is_member && has_promised(rank) && of(rank).begun > newest) return false;
  }
  return newest != 0;
}

void Membership::watch_forming() {
  const Ballot attempt = own_.proposed.attempt;
  bool all = true;
  for (uint32_t rank = 0; rank < options_.size; ++rank) {
    if (!own_.proposed.members.has(rank) || of(rank).formed == attempt) continue;
    all = false;
    if (of(rank).failed == attempt || is_out(rank) || is_silent(rank)) return end_attempt();
  }
  if (all) own_.stage = LeadStage::accept;
}

/** The next ballot follows, later each time. */
void Membership::end_attempt() {
  own_.stage = LeadStage::pause;
  const uint64_t pause_us = failed_attempts_ == 0 ? 0 : kRetryUs << failed_attempts_;
  failed_attempts_ = std::min(failed_attempts_ + 1, kDoublingsMax);
  lead_after_us_ = now_us_ + pause_us;
}

void Membership::count_accepted() {
  RankSet accepted;
  for (uint32_t rank = 0; rank < options_.size; ++rank) {
    if (of(rank).accepted_ballot == own_.lead_ballot) accepted.add(rank);
  }
  if (!is_quorum(accepted)) return;
  own_.decided = 1;
  own_.stage = LeadStage::none;
}

RankSet Membership::missing() const {
  RankSet missing;
  for (uint32_t rank = 0; rank < options_.size; ++rank) {
    const bool is_there = rank == options_.rank || (of(rank).entered != 0 && !is_silent(rank));
    if (!is_there && !is_out(rank)) missing.add(rank);
  }
  return missing;
}

}  // namespace gq
