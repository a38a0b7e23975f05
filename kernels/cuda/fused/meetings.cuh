// How blocks of all ranks wait for each other inside a kernel, and how they stop waiting.
#ifndef GQ_KERNELS_CUDA_FUSED_MEETINGS_CUH
#define GQ_KERNELS_CUDA_FUSED_MEETINGS_CUH

#include "kernels/cuda/fused/signal.cuh"
#include "kernels/cuda/launch/body.cuh"
#include "kernels/fused.h"

namespace gq::cuda {

/** What a block's threads share of a meeting. */
struct MeetingShared {
  uint32_t call;     ///< its number
  uint32_t largest;  ///< of the words that were heard
  uint32_t differs;  ///< not 0: at the meeting for codes one was not the own word
  uint32_t left;     ///< not 0: a thread, or the rank, has given up
};

/** One rank's part of the meetings of a call. */
struct Meetings {
  static constexpr uint32_t kThreads = BodyDefaults::kThreads;
  static constexpr uint32_t kLooks = 64;  ///< at a place, before one at the host's word
  uint32_t rank;
  uint32_t ranks;
  uint32_t block_count;
  uint64_t timeout_ns;
  FusedRoom* rooms[kFusedRanksMax];
  uint64_t* leave[kFusedRanksMax];

  explicit Meetings(const FusedArgs& args)
      : rank(args.random.rank),
        ranks(args.ranks),
        block_count(args.block_count),
        timeout_ns(args.timeout_ns) {
    for (uint32_t peer = 0; peer < kFusedRanksMax; ++peer) {
      rooms[peer] = peer < ranks ? args.rooms[peer] : nullptr;
      leave[peer] = peer < ranks ? args.leave[peer] : nullptr;
    }
  }

  /** Before the first meeting, by one thread: the number of this call. The block leaves if a kernel
   *  of the rank has left: the number is one that was used. */
  GQ_HD void begin(MeetingShared* shared) const {
    const uint64_t calls = noted(&desk().calls), left = noted(&desk().left);
    shared->call = static_cast<uint32_t>(calls) + 1;
    shared->left = left != 0 ? 1 : 0;
  }

  /** After the first meeting, which says that all blocks of the rank know the number. */
  template <typename Team>
  GQ_HD void count(Team& team) const {
    if (team.number() != 0) return;
    const uint32_t call = team.shared().meeting.call;
    team.all([&](uint32_t thread) {
      if (thread == 0) say(&desk().calls, call);
    });
  }

  /** Says `word` for this block, then waits until all blocks of all ranks have said theirs, whose
   *  largest is shared.largest. False, for all threads alike, if the block has given up. What it
   *  has written before is there for all who come back with true. */
  template <typename Team>
  GQ_HD bool meet(Team& team, MeetFor meeting, uint32_t word) const {
    MeetingShared& shared = team.shared().meeting;
    team.all([](uint32_t) {});  // threads may still be at what they heard last
    team.all([&](uint32_t thread) {
      if (thread == 0) shared.largest = shared.differs = shared.left = 0;
    });
    const uint32_t call = shared.call;
    team.each([&](uint32_t thread) {  // nobody listens before all are told
      if (thread < ranks) tell(call, meeting, thread, team.number(), word);
    });
    team.all([&](uint32_t thread) {
      raise_together(&shared.largest, listen(call, meeting, thread, word, &shared));
    });
    return shared.left == 0;
  }

  /** A meeting after which a rank's blocks go on together or not at all: what the first of them
   *  finds holds for all. */
  template <typename Team>
  GQ_HD bool meet_as_one(Team& team, MeetFor meeting) const {
    const bool came = meet(team, meeting, 0);
    MeetingShared& shared = team.shared().meeting;
    team.all([](uint32_t) {});
    team.all([&](uint32_t thread) {
      if (thread == 0) shared.left = verdict(shared.call, !came) ? 1 : 0;
    });
    return shared.left == 0;
  }

 private:
  GQ_HD FusedDesk& desk() const { return rooms[rank]->desk; }

  GQ_HD void tell(uint32_t call, MeetFor meeting, uint32_t peer, uint32_t block,
                  uint32_t word) const {
    say(&rooms[peer]->desk.said[static_cast<uint32_t>(meeting)][rank][block],
        uint64_t{call} << 32 | word);
  }

  /** The largest word at the places that are this thread's to look at. */
  GQ_HD uint32_t listen(uint32_t call, MeetFor meeting, uint32_t thread, uint32_t own,
                        MeetingShared* shared) const {
    const auto& said = desk().said[static_cast<uint32_t>(meeting)];
    const uint64_t begun_ns = clock_ns();
    uint32_t largest = 0;
    for (uint32_t number = thread; number < ranks * block_count; number += kThreads) {
      const uint32_t peer = number / block_count;
      uint32_t word = 0;
      if (!await(call, &said[peer][number % block_count], begun_ns, &word)) {
        give_up({rank, peer, meeting});
        raise(&shared->left, 1);
        break;
      }
      if (meeting == MeetFor::codes && word != own) raise(&shared->differs, 1);
      largest = word > largest ? word : largest;
    }
    return largest;
  }

  GQ_HD bool await(uint32_t call, const uint64_t* place, uint64_t begun_ns, uint32_t* word) const {
    for (uint32_t look = 1;; ++look) {
      const uint64_t said = heard(place);
      if (static_cast<uint32_t>(said >> 32) == call) {
        *word = static_cast<uint32_t>(said);
        return true;
      }
      if (look % kLooks == 0 && (heard(leave[rank]) != 0 || clock_ns() - begun_ns >= timeout_ns)) {
        return false;
      }
      rest();
    }
  }

  /** Unless it was told to leave this rank tells the others, who would wait for it in vain. */
  GQ_HD void give_up(const TooLate& late) const {
    say(&desk().left, 1);
    if (heard(leave[rank]) != 0) return;
    for (uint32_t peer = 0; peer < ranks; ++peer) say(leave[peer], leave_word(late));
  }

  /** Whether the rank leaves: what the first block to ask has found. */
  GQ_HD bool verdict(uint32_t call, bool leaves) const {
    uint64_t* const place = &desk().verdict;
    uint64_t seen = heard(place);
    while (seen >> 1 != call) {
      const uint64_t before = replaced(place, seen, uint64_t{call} << 1 | (leaves ? 1 : 0));
      if (before == seen) return leaves;
      seen = before;
    }
    return (seen & 1) != 0;
  }
};

}  // namespace gq::cuda

#endif
