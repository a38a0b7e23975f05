// Norm exchange, in steps.
//
//   steps      2, of n - 1 messages each
//   values     2 (n - 1) / n of the call, 2 bytes for each block
//
// The call has n parts here, whatever a schedule makes of it afterwards.
#include "src/schedule/norms.h"

namespace gq {
namespace {

constexpr uint32_t kPhaseCount = 3;

uint32_t reduction_depth(uint32_t) { return 0; }

uint64_t round_count(const Shape& shape, uint32_t) { return step_round_count(shape, kPhaseCount); }

Round round_at(const Shape& shape, uint32_t rank, uint64_t round) {
  const StepPlace place = step_place(shape, kPhaseCount, round);
  const uint32_t owner = rank_after(rank, place.distance, shape.ranks);
  return step_round(shape, owner, place, norm_move_count(shape, place));
}

Move move_at(const Shape& shape, uint32_t rank, uint64_t round, uint32_t index) {
  return norm_move(shape, rank, step_place(shape, kPhaseCount, round), index);
}

/** n - 1 operands, each merged as it comes, then n - 1 answers. */
Move merge_move(const Shape& shape, uint32_t rank, uint32_t index) {
  const uint32_t operands = 2 * (shape.ranks - 1);
  if (index >= operands) {
    return send_move(rank_after(rank, 1 + index - operands, shape.ranks), rank);
  }
  const uint32_t peer = rank_before(rank, 1 + index / 2, shape.ranks);
  return index % 2 == 0 ? receive_operand_move(peer) : merge_norms_move(peer);
}

}  // namespace

uint32_t norm_move_count(const Shape& shape, const StepPlace& place) {
  const uint32_t messages = place.distance == 0 ? 0 : 1;
  switch (place.phase) {
    case kTakeNorms:
      return 1 + messages;
    case kMergeNorms:
      return 3 * (shape.ranks - 1);
    default:
      return messages;
  }
}

Move norm_move(const Shape& shape, uint32_t rank, const StepPlace& place, uint32_t index) {
  const uint32_t owner = rank_after(rank, place.distance, shape.ranks);
  switch (place.phase) {
    case kTakeNorms:
      return of(Content::norms, index == 0 ? take_norms_move() : send_move(owner, rank));
    case kMergeNorms:
      return of(Content::norms, merge_move(shape, rank, index));
    default:
      return of(Content::norms, receive_result_move(owner, owner));
  }
}

const Schedule kNormExchange = {"norms", -1, reduction_depth, round_count, round_at, move_at, true};

}  // namespace gq
