// Direct: every rank sends each part straight to its owner, which adds all of them wide, encodes
// once and sends the result to all.
//
//   steps      2, of n - 1 messages each
//   values     2 (n - 1) / n of the call sent by each rank
//   roundings  no chain of reductions; one re-encode
//
// The call goes through in steps (steps.h): codes to their owners, the own part, results of the
// others. Norms of blocks are exchanged in two phases before these and at the beginning of the
// first: a chunk is quantized where its norms arrive.
#include "include/gqsgd.h"
#include "src/schedule/norms.h"

namespace gq {
namespace {

uint32_t combines(uint32_t) { return 0; }

constexpr uint32_t kScatter = kUseNorms;
constexpr uint32_t kOwn = 3;
constexpr uint32_t kGather = 4;
constexpr uint32_t kPhaseCount = 5;

uint32_t first_phase(const Shape& shape) { return shape.block_norms ? kTakeNorms : kScatter; }

uint32_t phase_count(const Shape& shape) { return kPhaseCount - first_phase(shape); }

uint64_t round_count(const Shape& shape, uint32_t) {
  return step_round_count(shape, phase_count(shape));
}

StepPlace place_of(const Shape& shape, uint64_t round) {
  StepPlace place = step_place(shape, phase_count(shape), round);
  place.phase += first_phase(shape);
  return place;
}

/** Results are taken in the order in which owners send them, each to the rank after it first. */
uint32_t owner_of(const Shape& shape, uint32_t rank, const StepPlace& place) {
  return place.phase == kGather ? rank_before(rank, place.distance, shape.ranks)
                                : rank_after(rank, place.distance, shape.ranks);
}

/** Norm moves of a scatter round, which come first. */
uint32_t norms_within(const Shape& shape, const StepPlace& place) {
  return shape.block_norms ? norm_move_count(shape, place) : 0;
}

/** By index and not as a list: with n ranks the own part takes 2 n moves. */
Move own_move(const Shape& shape, uint32_t rank, uint32_t index) {
  const uint32_t others = shape.ranks - 1;
  if (index < others) return receive_operand_move(rank_before(rank, 1 + index, shape.ranks));
  if (index == others) return reduce_many_move();
  if (index == 2 * others + 1) return of(Content::sums, dequantize_move(rank));
  return of(Content::sums, send_move(rank_after(rank, index - others, shape.ranks), rank));
}

uint32_t move_count(const Shape& shape, const StepPlace& place) {
  switch (place.phase) {
    case kScatter:
      return norms_within(shape, place) + (place.distance == 0 ? 1 : 2);
    case kOwn:
      return 2 * shape.ranks;
    case kGather:
      return place.distance == 0 ? 0 : 2;
    default:
      return norm_move_count(shape, place);
  }
}

Round round_at(const Shape& shape, uint32_t rank, uint64_t round) {
  const StepPlace place = place_of(shape, round);
  const Part chunk = step_chunk(shape, owner_of(shape, rank, place), place);
  return {chunk.first_value, chunk.value_count, move_count(shape, place)};
}

Move move_at(const Shape& shape, uint32_t rank, uint64_t round, uint32_t index) {
  const StepPlace place = place_of(shape, round);
  const uint32_t owner = owner_of(shape, rank, place);
  const uint32_t norms = norms_within(shape, place);
  switch (place.phase) {
    case kScatter:
      if (index < norms) return norm_move(shape, rank, place, index);
      return index == norms ? quantize_move() : send_move(owner, rank);
    case kOwn:
      return own_move(shape, rank, index);
    case kGather:
      return of(Content::sums,
                index == 0 ? receive_result_move(owner, owner) : dequantize_move(owner));
    default:
      return norm_move(shape, rank, place, index);
  }
}

}  // namespace

const Schedule kDirect = {
    "direct", GQSGD_SCHEDULE_DIRECT, combines, round_count, round_at, move_at, true, true};

// Lists are no moves: src/execute/sparse.h.
const Schedule kSparse = {
    "sparse", GQSGD_SCHEDULE_SPARSE, combines, round_count, round_at, move_at, true, true, true};

}  // namespace gq
