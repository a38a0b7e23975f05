// Plans of the collectives in slices: codes travel one way only, and the rank that needs values
// decodes each rank's codes separately.
#include <algorithm>

#include "src/plan/plan.h"

namespace gq {
namespace {

// Values whose float32 sums an owner makes at once: they and one operand stay in a cache.
constexpr uint64_t kSumTileValues = 4096;

/** Values that an owner adds at once. */
uint64_t sum_tile(const PlanRequest& request, const Shape& shape) {
  if (!request.stages_are_launches) return std::max(kSumTileValues, shape.value_alignment);
  const uint64_t longest = std::min(shape.chunk_value_count, shape.slice_value_count_max);
  return (longest / shape.value_alignment + 1) * shape.value_alignment;
}

/** A format whose codes are never encoded again: fields about that have no effect. */
Format one_way(const Format& format) {
  Format result = format;
  result.bits_down = format.bits;
  result.rounding_down = RoundingDown::random;
  result.rescale = false;
  return result;
}

}  // namespace

void plan_slices(const PlanRequest& request, Plan* plan) {
  const bool sums = request.operation == Operation::reduce_scatter;
  const Format format = one_way(*request.format);
  plan->schedule = sums ? &kReduceScatter : &kAllgather;
  plan->schedule_id = plan->schedule->id;
  plan->coding = coding_of(format, request.ranks, 0);
  plan->one_rank = coding_of(format, 1, 0);
  const bool floats = sums || format.levels == Levels::rice;
  plan->decoding = floats ? float_coding(format, sums ? request.ranks : 1) : plan->one_rank;
  plan->pair_sum = float_coding(format, 2);
  plan->adds_values = sums;
  if (plan->coding.grouped()) {
    set_groups(consecutive_groups(request.value_count, plan->coding), plan);
  }
  plan->shape = shape_of(request, plan->coding);
  plan->given_value_count = plan->shape.value_count;  // of which moves have slices alone
  plan->shape.slices = request.segments;
  for (uint64_t rank = 0; rank < request.segment_count; ++rank) {
    plan->shape.slice_value_count_max =
        std::max(plan->shape.slice_value_count_max, request.segments[rank].value_count);
  }
  Coding laid_out = plan->coding;
  if (sums) laid_out.bits_down = 32;
  plan->layout = Layout(laid_out, plan->shape,
                        {.reads_in_place = request.reads_in_place,
                         .has_room = false,
                         .orders_messages = request.stages_are_launches});
  if (sums) plan->layout.begin_sums_at(request.segments[request.rank].first_value);
  const bool in_tiles = sums && format.levels != Levels::rice;  // those are added group by group
  if (in_tiles) plan->sum_tile_value_count = sum_tile(request, plan->shape);
  plan->layout.add_segments(request.segment_count, request.ranks, request.reads_in_place,
                            static_cast<size_t>(plan->sum_tile_value_count) * sizeof(float));
}

}  // namespace gq
