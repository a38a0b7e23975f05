// What a rank of a failed group shows the others while they agree on who goes on: one register per
// rank, written by its owner alone and read by all. The newest contents count; those before may be
// missed.
#ifndef GQ_SURVIVORS_REGISTER_H
#define GQ_SURVIVORS_REGISTER_H

#include <stddef.h>
#include <stdint.h>

#include <bit>

namespace gq {

inline constexpr uint32_t kSurvivorRanksMax = 1024;

/** Ranks of the old group. */
struct RankSet {
  uint64_t words[kSurvivorRanksMax / 64] = {};

  bool has(uint32_t rank) const { return (words[rank / 64] >> rank % 64 & 1) != 0; }
  void add(uint32_t rank) { words[rank / 64] |= uint64_t{1} << rank % 64; }
  void add(const RankSet& others) {
    for (size_t k = 0; k < kSurvivorRanksMax / 64; ++k) words[k] |= others.words[k];
  }
  uint32_t count() const {
    int count = 0;
    for (const uint64_t word : words) count += std::popcount(word);
    return static_cast<uint32_t>(count);
  }
  bool operator==(const RankSet&) const = default;
};

/** The number of a try to lead: round and rank, so that no two ranks have the same. 0 is none. */
using Ballot = uint64_t;
constexpr Ballot ballot_of(uint32_t round, uint32_t rank) { return uint64_t{round} << 32 | rank; }
constexpr uint32_t round_of(Ballot ballot) { return static_cast<uint32_t>(ballot >> 32); }
constexpr uint32_t rank_of(Ballot ballot) { return static_cast<uint32_t>(ballot); }

/** What becomes of calls that were not finished on all survivors. */
enum class CallFate : uint32_t {
  repeat,            ///< no survivor has a result that another lacks: what failed is repeated
  hand_over,         ///< rank `source` gives its result to those that lack it
  repeat_finished,   ///< the newest call that ended on some is repeated on all
  differs            ///< some have the result of a call, and the others cannot get it
};

/** What the survivors agree on. */
struct Proposal {
  Ballot attempt = 0;  ///< the ballot that first proposed it, which names the new group; 0: none
  RankSet members;
  uint64_t step = 0;    ///< that the counter continues with
  uint64_t ended = 0;   ///< calls that have ended on the survivor that is furthest
  CallFate fate = CallFate::repeat;
  uint32_t source = 0;  ///< of a result
  uint32_t costs_differ = 0;
  uint32_t reserved = 0;

  bool operator==(const Proposal&) const = default;
};

/** What a rank knows of its own calls when it enters. */
struct CallReport {
  uint64_t ended = 0;  ///< calls that ended alike on all ranks: with a result or a shared failure
  uint64_t step = 0;   ///< its counter
  uint32_t costs_digest = 0;
  // Of the newest call that has ended here; 0 or 1.
  uint32_t has_result = 0;
  uint32_t is_kept = 0;      ///< the result can still be given to others
  uint32_t is_in_place = 0;  ///< its input is overwritten
  // 0 or 1.
  uint32_t takes_result = 0;  ///< the caller has given a place for a result
  uint32_t uses_streams = 0;  ///< there were calls on streams, whose ends no host knows
};

enum class LeadStage : uint32_t {
  none,
  pause,    ///< a group has not formed, and another ballot follows
  collect,  ///< awaits promises
  form,     ///< the members of the proposal form a group
  accept    ///< they have formed it
};

/** The significant bytes of a gqsgd_unique_id; the rest is 0. */
struct GroupName {
  unsigned char bytes[128] = {};
};

struct Register {
  uint32_t entered = 0;  ///< 1 once its owner takes part
  uint32_t gave_up = 0;  ///< 1 once it never will again: it does not go on
  uint32_t decided = 0;  ///< 1: `accepted` is what all agree on
  LeadStage stage = LeadStage::none;
  uint64_t beat = 0;          ///< grows while its owner runs
  uint64_t silence_us = 0;    ///< for which its owner waits for another rank's beat
  Ballot promised = 0;        ///< no proposal of a smaller ballot is accepted from now on
  Ballot accepted_ballot = 0;  ///< 0: nothing is accepted
  Proposal accepted;
  Ballot lead_ballot = 0;  ///< the newest that its owner leads
  Proposal proposed;       ///< by it, in stages form and accept
  GroupName name;          ///< by which its group forms, or another's that it takes part in
  GroupName offer;         ///< a fresh name, of which this rank would be rank 0
  Ballot formed = 0;       ///< the attempt of which its owner has its end; 0: none
  Ballot failed = 0;       ///< the newest of which it cannot
  Ballot begun = 0;        ///< the newest that it has begun to form: it has no end of any before
  RankSet dead;            ///< known by evidence never to act again
  RankSet silent;          ///< whose registers its owner has not seen change for some time
  CallReport report;
};
static_assert(sizeof(Register) % sizeof(uint64_t) == 0);
inline constexpr size_t kRegisterWordCount = sizeof(Register) / sizeof(uint64_t);
static_assert(kRegisterWordCount <= 128, "a register of a transport has 128 words");

}  // namespace gq

#endif
