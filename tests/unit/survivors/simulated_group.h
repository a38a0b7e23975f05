// A group whose ranks agree in virtual time on one thread, over links that delay, are cut and heal;
// ranks come late, stop and die, also while they agree. All of it follows from a seed.
#ifndef GQ_TESTS_UNIT_SURVIVORS_SIMULATED_GROUP_H
#define GQ_TESTS_UNIT_SURVIVORS_SIMULATED_GROUP_H

#include <deque>
#include <map>
#include <memory>
#include <queue>
#include <string>
#include <vector>

#include "src/survivors/membership.h"
#include "tests/support/seeds.h"

namespace gq {

inline constexpr uint64_t kNotEverUs = UINT64_MAX;
inline constexpr uint64_t kPatienceUs = 300000;
inline constexpr uint64_t kSilenceUs = 100000;
inline constexpr uint64_t kEndUs = 20 * kPatienceUs;
inline constexpr uint64_t kFormingUs = 200000;  ///< after which a group that cannot form fails

struct SimulatedMember {
  std::unique_ptr<Membership> membership;  ///< null before it has entered
  CallReport report;
  uint64_t enters_us = 0;  ///< kNotEverUs: it never does
  uint64_t dies_us = kNotEverUs;
  uint64_t stops_us = kNotEverUs, resumes_us = kNotEverUs;
  bool drops_on_death = false;  ///< what it has sent last is lost with it
  uint64_t returned_us = kNotEverUs;
  uint64_t leaves_us = kNotEverUs;  ///< destroys its communicator, some time after it has returned
  uint64_t published = 0;
  uint64_t looks_us = 0;
  Ballot forming = 0;
  Ballot end = 0;  ///< the attempt of which it has its end of a new group
};

struct SurvivorLink {
  uint64_t delay_us = 1, jitter_us = 1;
  uint64_t cut_us = kNotEverUs, heals_us = kNotEverUs;
  uint64_t newest_us = 0;  ///< arrival of the last register
  struct Arrival {
    uint64_t at_us;
    uint64_t sent_us;
    Register contents;
  };
  std::deque<Arrival> arrivals;
  bool is_over = false;  ///< the receiver knows that its peer is dead or has left
};

/** A group that forms under one name. */
struct FormingGroup {
  Ballot attempt = 0;
  RankSet members, joined;
  bool is_broken = false;
  uint64_t complete_us = kNotEverUs;
  std::map<uint32_t, uint64_t> ends_us;  ///< when each rank learns how it ended
};

class SimulatedGroup {
 public:
  SimulatedGroup(uint32_t size, uint64_t seed, bool shares_memory)
      : draws(seed), shares_memory_(shares_memory), ranks(size), links_(size * size) {
    for (SurvivorLink& link : links_) {
      link.delay_us = shares_memory ? 1 : 20 + draws.below(200);
      link.jitter_us = 1 + draws.below(shares_memory ? 3 : 2000);
    }
  }

  uint32_t size() const { return static_cast<uint32_t>(ranks.size()); }
  SurvivorLink& link(uint32_t from, uint32_t to) { return links_[from * ranks.size() + to]; }
  bool is_dead(uint32_t rank) const { return ranks[rank].dies_us <= now_us; }
  bool is_stopped(uint32_t rank) const {
    return ranks[rank].stops_us <= now_us && now_us < ranks[rank].resumes_us;
  }
  bool has_decided(uint32_t rank) const {
    const SimulatedMember& own = ranks[rank];
    return own.membership && own.returned_us != kNotEverUs &&
           own.membership->outcome() == Membership::Outcome::decided;
  }

  void run() {
    while (now_us < kEndUs && !all_have_ended()) {
      uint64_t next_us = kEndUs;
      for (uint32_t rank = 0; rank < size(); ++rank) {
        step(rank);
        next_us = std::min(next_us, ranks[rank].looks_us);
      }
      now_us = std::max(now_us + 1, next_us);
    }
  }

  test::Draws draws;
  uint64_t now_us = 0;
  size_t decided_without_end = 0;  ///< a rank has been told to go on with a group that it lacks
  uint64_t attempts = 0;

 private:
  bool all_have_ended() const {
    for (uint32_t rank = 0; rank < size(); ++rank) {
      const SimulatedMember& own = ranks[rank];
      if (is_dead(rank) || own.enters_us == kNotEverUs) continue;
      if (is_stopped(rank) && own.resumes_us == kNotEverUs) continue;
      if (own.returned_us == kNotEverUs) return false;
    }
    return true;
  }

  uint64_t arrival_us(uint32_t from, uint32_t to) {
    SurvivorLink& on = link(from, to);
    uint64_t at_us = now_us + on.delay_us + draws.below(on.jitter_us);
    if (on.cut_us <= now_us && now_us < on.heals_us) {
      if (on.heals_us == kNotEverUs) return kNotEverUs;
      at_us += on.heals_us - now_us;
    }
    on.newest_us = std::max(on.newest_us, at_us);
    return on.newest_us;
  }

  void publish(uint32_t rank) {
    SimulatedMember& own = ranks[rank];
    own.published = own.membership->version();
    for (uint32_t to = 0; to < size(); ++to) {
      if (to == rank) continue;
      const uint64_t at_us = arrival_us(rank, to);
      if (at_us == kNotEverUs) continue;
      link(rank, to).arrivals.push_back({at_us, now_us, own.membership->own()});
      ranks[to].looks_us = std::min(ranks[to].looks_us, at_us);
    }
  }

  /** When `rank` has gone, as evidence: its death, or that it has left. */
  uint64_t gone_us(uint32_t rank) const {
    return std::min(ranks[rank].dies_us, ranks[rank].leaves_us);
  }

  void receive(uint32_t from, uint32_t to) {
    SurvivorLink& on = link(from, to);
    Membership& membership = *ranks[to].membership;
    const SimulatedMember& peer = ranks[from];
    const bool is_gone = gone_us(from) <= now_us;
    const bool is_cut = on.cut_us <= now_us && now_us < on.heals_us;
    // What shares memory is read after the evidence of a death; what a network loses is not.
    const bool drops = !shares_memory_ && is_gone && peer.drops_on_death &&
                       peer.dies_us < peer.leaves_us;
    const uint64_t evidence_us = gone_us(from) + on.delay_us + (shares_memory_ ? 2000 : 0);
    // A reset over a link that was cut is no evidence.
    const bool is_doubtful = drops && on.cut_us <= now_us;
    const bool is_evident = is_gone && !is_cut && !is_doubtful && evidence_us <= now_us;
    while (!on.arrivals.empty()) {
      const SurvivorLink::Arrival& next = on.arrivals.front();
      const bool is_lost = drops && is_evident && next.at_us > now_us;
      const bool is_there = next.at_us <= now_us || (shares_memory_ && is_evident);
      if (!is_lost && !is_there) break;
      if (!is_lost) membership.see(from, next.contents, now_us);
      on.arrivals.pop_front();
    }
    if (is_evident && on.arrivals.empty()) membership.mark_dead(from);
  }

  void step(uint32_t rank) {
    SimulatedMember& own = ranks[rank];
    if (own.looks_us > now_us) return;
    own.looks_us = kEndUs;
    if (is_dead(rank) || own.returned_us != kNotEverUs || own.enters_us == kNotEverUs) return;
    if (is_stopped(rank)) {
      own.looks_us = own.resumes_us;
      return;
    }
    if (now_us < own.enters_us) {
      own.looks_us = own.enters_us;
      return;
    }
    if (!own.membership) enter(rank);
    look(rank);
    // Now and then, and earlier if something comes.
    own.looks_us = std::min(own.looks_us, now_us + 1000 + draws.below(12000));
    for (uint32_t from = 0; from < size(); ++from) {
      const auto& arrivals = link(from, rank).arrivals;
      if (!arrivals.empty() && arrivals.front().at_us > now_us) {
        own.looks_us = std::min(own.looks_us, arrivals.front().at_us);
      }
    }
    if (own.returned_us != kNotEverUs) own.looks_us = kEndUs;
  }

  void enter(uint32_t rank) {
    SimulatedMember& own = ranks[rank];
    const MembershipOptions options{rank, size(), kPatienceUs, kSilenceUs};
    own.membership = std::make_unique<Membership>(options, own.report, now_us);
  }

  void look(uint32_t rank) {
    SimulatedMember& own = ranks[rank];
    Membership& membership = *own.membership;
    if (membership.needs_offer()) {
      GroupName name;
      name.bytes[0] = static_cast<unsigned char>(++names_);
      name.bytes[1] = static_cast<unsigned char>(names_ >> 8);
      membership.set_offer(name);
    }
    for (uint32_t from = 0; from < size(); ++from) {
      if (from != rank) receive(from, rank);
    }
    for (uint64_t version = 0; version != membership.version();) {
      version = membership.version();
      membership.advance(now_us);
      form(rank);
    }
    if (membership.version() != own.published) publish(rank);
    if (membership.outcome() == Membership::Outcome::undecided) return;
    own.returned_us = now_us;
    own.leaves_us = now_us + 1 + draws.below(50000);
    const bool goes_on = membership.outcome() == Membership::Outcome::decided;
    if (goes_on && own.end != membership.decision().attempt) decided_without_end += 1;
  }

  FormingGroup& group_of(const Membership& membership) {
    const GroupName& name = membership.forming_name();
    return groups_[name.bytes[0] | name.bytes[1] << 8];
  }

  void form(uint32_t rank) {
    SimulatedMember& own = ranks[rank];
    Membership& membership = *own.membership;
    if (own.forming != 0 && membership.to_form() != own.forming) {
      for (auto& [name, group] : groups_) {
        if (group.attempt == own.forming && !group.ends_us.count(rank)) group.is_broken = true;
      }
      own.forming = 0;
    }
    if (membership.to_form() == 0) return;
    FormingGroup& group = group_of(membership);
    if (own.forming == 0) join(rank, &group);
    const auto end = group.ends_us.find(rank);
    const bool is_late = group.complete_us == kNotEverUs && now_us >= begun_us_[rank] + kFormingUs;
    if (is_late) group.is_broken = true;
    if (!is_late && (end == group.ends_us.end() || end->second > now_us)) {
      if (end != group.ends_us.end()) own.looks_us = std::min(own.looks_us, end->second);
      return;
    }
    // A death in the middle leaves some with a group and some without.
    const bool formed = !is_late && !(has_lost_member(group) && draws.one_in(2));
    own.forming = 0;
    if (formed) own.end = membership.to_form();
    membership.end_forming(membership.to_form(), formed);
  }

  void join(uint32_t rank, FormingGroup* group) {
    SimulatedMember& own = ranks[rank];
    const Membership& membership = *own.membership;
    own.forming = membership.to_form();
    own.end = 0;  // of an earlier attempt
    begun_us_[rank] = now_us;
    if (group->attempt == 0) {
      attempts += 1;
      group->attempt = own.forming;
      group->members = membership.forming().members;
    }
    if (group->attempt != own.forming) group->is_broken = true;
    group->joined.add(rank);
    if (group->is_broken || !(group->joined == group->members)) return;
    if (has_lost_member(*group)) return;
    group->complete_us = now_us;
    for (uint32_t member = 0; member < size(); ++member) {
      if (!group->members.has(member)) continue;
      group->ends_us[member] = now_us + 100 + draws.below(5000);
      ranks[member].looks_us = std::min(ranks[member].looks_us, group->ends_us[member]);
    }
  }

  bool has_lost_member(const FormingGroup& group) {
    for (uint32_t a = 0; a < size(); ++a) {
      if (!group.members.has(a)) continue;
      if (is_dead(a) || group.is_broken) return true;
      for (uint32_t b = 0; b < size(); ++b) {
        const SurvivorLink& on = link(a, b);
        if (a != b && group.members.has(b) && on.cut_us <= now_us && now_us < on.heals_us) {
          return true;
        }
      }
    }
    return false;
  }

  const bool shares_memory_;

 public:
  std::vector<SimulatedMember> ranks;

 private:
  std::vector<SurvivorLink> links_;
  std::map<int, FormingGroup> groups_;
  std::map<uint32_t, uint64_t> begun_us_;
  uint32_t names_ = 0;
};

}  // namespace gq

#endif
