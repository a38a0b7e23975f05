// Direct: every rank sends each part straight to its owner, which adds all of them wide, encodes
// once and sends the result to all.
//
//   steps      2, of n - 1 messages each
//   values     2 (n - 1) / n of the call sent by each rank
//   roundings  no chain of reductions; one re-encode
//
// The call goes through in steps (steps.h): codes to their owners (scatter.h), the own part,
// results of the others.
#include "include/gqsgd.h"
#include "src/schedule/scatter.h"

namespace gq {
namespace {

uint32_t reduction_depth(uint32_t) { return 0; }

/** Results are taken in the order in which owners send them, each to the rank after it first. */
uint32_t owner_of(const Shape& shape, uint32_t rank, const StepPlace& place) {
  return place.phase == kGather ? rank_before(rank, place.distance, shape.ranks)
                                : rank_after(rank, place.distance, shape.ranks);
}

/** By index and not as an array: with n ranks the own part takes 2 n moves. */
Move own_move(const Shape& shape, uint32_t rank, uint32_t index) {
  if (index < add_move_count(shape)) return add_move(shape, rank, index);
  const uint32_t sends = index - add_move_count(shape);
  if (sends == shape.ranks - 1) return of(Content::sums, dequantize_move(rank));
  return of(Content::sums, send_move(rank_after(rank, 1 + sends, shape.ranks), rank));
}

uint32_t move_count(const Shape& shape, const StepPlace& place) {
  switch (place.phase) {
    case kOwn:
      return add_move_count(shape) + shape.ranks;
    case kGather:
      return place.distance == 0 ? 0 : 2;
    default:
      return scatter_move_count(shape, place);
  }
}

Round round_at(const Shape& shape, uint32_t rank, uint64_t round) {
  const StepPlace place = scatter_place(shape, round);
  return step_round(shape, owner_of(shape, rank, place), place, move_count(shape, place));
}

Move move_at(const Shape& shape, uint32_t rank, uint64_t round, uint32_t index) {
  const StepPlace place = scatter_place(shape, round);
  const uint32_t owner = owner_of(shape, rank, place);
  switch (place.phase) {
    case kOwn:
      return own_move(shape, rank, index);
    case kGather:
      return of(Content::sums,
                index == 0 ? receive_result_move(owner, owner) : dequantize_move(owner));
    default:
      return scatter_move(shape, rank, place, index);
  }
}

}  // namespace

const Schedule kDirect = {
    "direct", GQSGD_SCHEDULE_DIRECT, reduction_depth, scatter_round_count, round_at, move_at, true,
    true};

// Sparse entries are no moves: src/call/sparse.h.
const Schedule kSparse = {"sparse",
                          GQSGD_SCHEDULE_SPARSE,
                          reduction_depth,
                          scatter_round_count,
                          round_at,
                          move_at,
                          true,
                          true,
                          true};

}  // namespace gq
