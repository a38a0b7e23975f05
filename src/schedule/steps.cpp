// Rounds of schedules in steps.
#include "src/schedule/steps.h"

#include <algorithm>

namespace gq {
namespace {

uint64_t chunks_per_part(const Shape& shape) {
  return chunk_count_of(shard_value_count(shape, shape.ranks), shape);
}

/** n for an even phase, one for an odd phase; the first phase is even, the last one too. */
uint64_t rounds_per_step(const Shape& shape, uint32_t phase_count) {
  return phase_count / 2 * (uint64_t{shape.ranks} + 1) + shape.ranks;
}

/** Where a phase begins in its step. */
uint64_t first_round_of(const Shape& shape, uint64_t phase) {
  return phase / 2 * (uint64_t{shape.ranks} + 1) + phase % 2 * shape.ranks;
}

/** Rounds right after this one that are idle because their phases have handled all chunks of the
 *  longest part: those up to the first phase that has not. */
uint64_t ended_rounds_after(const Shape& shape, const StepPlace& place) {
  const uint64_t chunks = chunks_per_part(shape);
  if (place.chunk < chunks) return 0;  // a shorter part
  const uint64_t phase = (place.step - chunks) / shape.pipeline_depth + 1;
  return std::min(first_round_of(shape, phase) - place.within - 1, place.rounds_after);
}

}  // namespace

uint64_t step_round_count(const Shape& shape, uint32_t phase_count) {
  const uint64_t chunks = chunks_per_part(shape);
  return chunks == 0 ? 0
                     : (chunks + uint64_t{shape.pipeline_depth} * (phase_count - 1)) *
                           rounds_per_step(shape, phase_count);
}

StepPlace step_place(const Shape& shape, uint32_t phase_count, uint64_t round) {
  const uint64_t rounds = rounds_per_step(shape, phase_count);
  const uint64_t step = round / rounds;
  const uint32_t within = static_cast<uint32_t>(round % rounds);
  const uint32_t pair = within / (shape.ranks + 1);
  const uint32_t slot = within % (shape.ranks + 1);
  const bool own_alone = slot == shape.ranks;
  const uint32_t phase = 2 * pair + (own_alone ? 1 : 0);
  const uint64_t begin = uint64_t{shape.pipeline_depth} * phase;
  const uint64_t chunk = step < begin ? kNoChunk : step - begin;
  const uint32_t distance = slot + 1 >= shape.ranks ? 0 : slot + 1;
  return {phase, chunk, distance, step, within, rounds - 1 - within};
}

Round step_round(const Shape& shape, uint32_t owner, const StepPlace& place, uint32_t move_count) {
  if (place.chunk == kNoChunk) return {.idle_rounds_after = place.rounds_after};
  const Part chunk = chunk_of(part_of(shape, shape.ranks, owner), place.chunk, shape);
  const uint64_t idle = chunk.value_count == 0 ? ended_rounds_after(shape, place) : 0;
  return {chunk.first_value, chunk.value_count, move_count, false, idle};
}

}  // namespace gq
