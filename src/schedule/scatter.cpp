// Norms, then codes, to the owners of parts.
#include "src/schedule/scatter.h"

namespace gq {
namespace {

constexpr uint32_t kPhaseCount = 5;  // an odd number, as steps.h needs it

uint32_t first_phase(const Shape& shape) { return shape.block_norms ? kTakeNorms : kScatter; }

uint32_t phase_count(const Shape& shape) { return kPhaseCount - first_phase(shape); }

/** Norm moves of a round, which come first. */
uint32_t norms_within(const Shape& shape, const StepPlace& place) {
  return shape.block_norms ? norm_move_count(shape, place) : 0;
}

}  // namespace

uint64_t scatter_round_count(const Shape& shape, uint32_t) {
  return step_round_count(shape, phase_count(shape));
}

StepPlace scatter_place(const Shape& shape, uint64_t round) {
  StepPlace place = step_place(shape, phase_count(shape), round);
  place.phase += first_phase(shape);
  return place;
}

uint32_t scatter_move_count(const Shape& shape, const StepPlace& place) {
  const uint32_t norms = norms_within(shape, place);
  if (place.phase < kScatter) return norms;
  return norms + (place.distance == 0 ? 1 : 2);
}

Move scatter_move(const Shape& shape, uint32_t rank, const StepPlace& place, uint32_t index) {
  const uint32_t norms = norms_within(shape, place);
  if (index < norms) return norm_move(shape, rank, place, index);
  if (index == norms) return quantize_move();
  return send_move(rank_after(rank, place.distance, shape.ranks), rank);
}

uint32_t add_move_count(const Shape& shape) { return shape.ranks; }

Move add_move(const Shape& shape, uint32_t rank, uint32_t index) {
  if (index + 1 == add_move_count(shape)) return reduce_many_move();
  return receive_operand_move(rank_before(rank, 1 + index, shape.ranks));
}

}  // namespace gq
