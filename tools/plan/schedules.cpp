// Walks over the moves of a rank, and what follows from two of them for calls that are longer.
#include "tools/plan/schedules.h"

#include <algorithm>
#include <numeric>
#include <string_view>

#include "src/plan/cost/cost_walk.h"
#include "src/support/names.h"

namespace gq {
namespace {

/** Parts that grow by a chunk each when a call does: those that sums are made in, and the n in
 *  which norms of blocks are exchanged. */
uint64_t growing_part_count(const Plan& plan) {
  const uint64_t parts = part_count(plan), ranks = plan.shape.ranks;
  return plan.shape.block_norms ? std::lcm(parts, ranks) : parts;
}

/** How often each of `part_count` parts of the call can lose as many chunks while its last part,
 *  which is the shorter one, has values left. */
uint64_t times_to_shorten(const Shape& shape, uint64_t part_count, uint64_t chunks) {
  const uint64_t shard = shard_value_count(shape, static_cast<uint32_t>(part_count));
  const uint64_t lacking = part_count * shard - shape.value_count;
  return shard > lacking ? (shard - lacking - 1) / (chunks * shape.chunk_value_count) : 0;
}

/** Whole chunks of all parts that a walk may leave out, in units of one for each growing part. */
uint64_t periods_left_out(const Plan& plan) {
  const uint64_t growing = growing_part_count(plan), parts = part_count(plan);
  const Shape& shape = plan.shape;
  if (growing > shape.value_count / shape.chunk_value_count) return 0;
  const uint64_t periods = times_to_shorten(shape, parts, growing / parts);
  if (!shape.block_norms) return periods;
  return std::min(periods, times_to_shorten(shape, shape.ranks, growing / shape.ranks));
}

}  // namespace

const Schedule* schedule_by_name(const char* name) {
  for (int32_t id = 0; id < static_cast<int32_t>(names_of(kScheduleList).count); ++id) {
    if (std::string_view(kScheduleList[id]) == name) return schedule_by_id(id);
  }
  return nullptr;
}

Totals totals_of(const Schedule& schedule, const Shape& shape, uint32_t rank, uint32_t block) {
  Totals totals;
  MoveCursor cursor(&schedule, shape, rank);
  for (Move move; cursor.next(&move);) {
    totals.largest_hop = std::max(totals.largest_hop, move.hop);
    switch (move.kind) {
      case MoveKind::send:
        ++totals.messages_sent;
        if (move.content == Content::norms) {
          totals.norms_sent += move.value_count / block + (move.value_count % block != 0);
        } else {
          totals.values_sent += move.value_count;
        }
        break;
      case MoveKind::reduce:
        totals.reductions += move.value_count;
        break;
      case MoveKind::reduce_many:
        totals.reductions += move.value_count * (operand_count(shape, rank, move) - 1);
        break;
      case MoveKind::norm:
      case MoveKind::merge_norms:
      case MoveKind::quantize:
      case MoveKind::receive_operand:
      case MoveKind::receive_result:
      case MoveKind::add_all:
      case MoveKind::await_sum:
      case MoveKind::dequantize:
        break;
    }
  }
  return totals;
}

/** A schedule makes the same moves for every whole chunk of a part. So calls that differ by a whole
 *  number of chunks in every part differ by as many times the same totals. */
Totals totals_of(const Plan& plan, uint32_t rank) {
  const uint32_t block = std::max(plan.coding.block, 1u);
  const uint64_t periods = periods_left_out(plan);
  if (periods < 2) return totals_of(*plan.schedule, plan.shape, rank, block);
  const uint64_t period = growing_part_count(plan) * plan.shape.chunk_value_count;
  Shape shape = plan.shape;
  shape.value_count -= periods * period;
  const Totals shorter = totals_of(*plan.schedule, shape, rank, block);
  shape.value_count += period;
  Totals totals = totals_of(*plan.schedule, shape, rank, block);
  for (uint64_t Totals::*total : {&Totals::messages_sent, &Totals::values_sent,
                                  &Totals::norms_sent, &Totals::reductions}) {
    totals.*total += (periods - 1) * (totals.*total - shorter.*total);
  }
  return totals;
}

}  // namespace gq
