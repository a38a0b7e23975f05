// When the moves of a schedule end, in nanoseconds: a walk over the moves of one rank, or of the
// few whose moves stand for those of all. No rank is simulated whose time follows from another's.
//
// A rank is three clocks: its processor, the link out of it, the link into it. Every move takes
// move_ns of the processor. Then a stage takes it for its values; a send takes message_ns of it and
// then the link out for its bytes; what was sent arrives latency_ns later and takes the link in. A
// receive waits for its message, then takes message_ns. That is the overlap of the executor: it
// posts sends and continues, and waits only at receives. Where links let bursts through, bytes are
// ahead of the links' clocks by as much; the call ends only when its bytes have had their time on a
// link, since the next call starts from the state that this one leaves.
//
// When the peer sent what is received follows from symmetry:
//   ring, direct   every rank does what this one does, at the same time: the k-th message that
//                  comes was sent when this rank sent its k-th. Parts are taken for full, so that
//                  it is so.
//   butterfly      the same between partners; where ranks are folded, rank 0 and the one that is
//                  folded into it are both walked.
//   tree           the root and its children are walked. Any other rank does what that child of the
//                  root does that has as many children: rank r what rank (r AND -r) does.
//   hierarchical   as direct, as if all nodes were of the size of this rank's.
//   native         one rank is walked; the sum takes the time in the constants.
// Norms go from all to all in every schedule, like messages of direct.
//
// Where it is given which ranks share a node, there are two more clocks, of the links inside it.
// The link out of a node is all its ranks': in direct, butterfly and hierarchical all of them send
// at a time, so that a byte takes as many times longer; in a ring and a tree of ranks that lie in
// order one of them does. A ring is walked from a rank whose next one is on another node, which all
// wait for in the end.
#ifndef GQ_PLAN_COST_COST_WALK_H
#define GQ_PLAN_COST_COST_WALK_H

#include <stdint.h>

#include "src/plan/cost/cost_codec.h"
#include "src/plan/plan.h"

namespace gq {

struct WalkTimes {
  double finish_ns = 0;  ///< when the last move of the last rank ends
  double busy_ns = 0;    ///< processor time of a rank, on average
};

/** Walks `plan` as it is, chunk by chunk, from rank `rank` where all ranks are alike. nodes: null
 *  where all links are alike. May throw std::bad_alloc. */
WalkTimes walk_moves(const Plan& plan, const CodecCost& codec, const CostConstants& constants,
                     uint32_t rank, const Nodes* nodes = nullptr);

/** Parts that a schedule cuts a call into (docs/FORMAT.md, section 10). */
uint32_t part_count(const Plan& plan);

}  // namespace gq

#endif
