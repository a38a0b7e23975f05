// Collectives whose parts are slices that the caller cuts, one for each rank.
//
// Reduce-scatter: every rank sends its codes of each slice to its owner, which adds all of them.
//
//   steps      1, of n - 1 messages; with norms of blocks two more before it
//   values     (n - 1) / n of the call sent by each rank, where slices are equal
//   roundings  none after quantizing
//
// Allgather: every rank quantizes its own slice by its own norms, and sends both to all.
//
//   steps      1, of n - 1 messages, or 2 (n - 1) with norms of blocks
//   values     n - 1 times its own slice sent by each rank
//   roundings  none after quantizing
#include "include/gqsgd.h"
#include "src/schedule/scatter.h"

namespace gq {
namespace {

uint32_t reduction_depth(uint32_t) { return 0; }

// ---- Reduce-scatter, the first half of direct: nothing is left to do with others' results.

uint32_t sum_move_count(const Shape& shape, const StepPlace& place) {
  if (place.phase == kGather) return 0;
  return place.phase == kOwn ? add_move_count(shape) + 1 : scatter_move_count(shape, place);
}

Round sum_round(const Shape& shape, uint32_t rank, uint64_t round) {
  const StepPlace place = scatter_place(shape, round);
  const uint32_t owner = rank_after(rank, place.distance, shape.ranks);
  return step_round(shape, owner, place, sum_move_count(shape, place));
}

Move sum_move(const Shape& shape, uint32_t rank, uint64_t round, uint32_t index) {
  const StepPlace place = scatter_place(shape, round);
  if (place.phase != kOwn) return scatter_move(shape, rank, place, index);
  return index < add_move_count(shape) ? add_move(shape, rank, index)
                                       : of(Content::sums, dequantize_move(rank));
}

// ---- Allgather: chunk k of the own slice, then chunk k - 1 of the others.

uint64_t gather_round_count(const Shape& shape, uint32_t) {
  const uint64_t chunks = chunk_count_of(shard_value_count(shape, shape.ranks), shape);
  return chunks == 0 ? 0 : (chunks + 1) * shape.ranks;
}

/** Norms, where there are any, are sent beside the codes. */
uint32_t messages_of(const Shape& shape) { return shape.block_norms ? 2 : 1; }

Content content_at(const Shape& shape, uint32_t index) {
  return shape.block_norms && index == 0 ? Content::norms : Content::codes;
}

Round gather_round(const Shape& shape, uint32_t rank, uint64_t round) {
  const uint64_t step = round / shape.ranks;
  const uint32_t distance = static_cast<uint32_t>(round % shape.ranks);
  if (distance == 0) {
    const Part own = chunk_of(part_of(shape, shape.ranks, rank), step, shape);
    return {own.first_value, own.value_count, 1 + messages_of(shape) * shape.ranks};
  }
  if (step == 0) return Round();
  const uint32_t owner = rank_before(rank, distance, shape.ranks);
  const Part chunk = chunk_of(part_of(shape, shape.ranks, owner), step - 1, shape);
  return {chunk.first_value, chunk.value_count, messages_of(shape) + 1};
}

Move own_move(const Shape& shape, uint32_t rank, uint32_t index) {
  const uint32_t messages = messages_of(shape);
  if (index < messages)
    return index + 1 == messages ? quantize_move() : of(Content::norms, take_norms_move());
  const uint32_t sends = index - messages;
  if (sends == messages * (shape.ranks - 1)) return dequantize_move(rank);
  const uint32_t peer = rank_after(rank, 1 + sends / messages, shape.ranks);
  return of(content_at(shape, sends % messages), send_move(peer, rank));
}

Move gather_move(const Shape& shape, uint32_t rank, uint64_t round, uint32_t index) {
  const uint32_t distance = static_cast<uint32_t>(round % shape.ranks);
  if (distance == 0) return own_move(shape, rank, index);
  const uint32_t owner = rank_before(rank, distance, shape.ranks);
  if (index == messages_of(shape)) return dequantize_move(owner);
  return of(content_at(shape, index), receive_result_move(owner, owner));
}

}  // namespace

const Schedule kReduceScatter = {"reduce_scatter",
                                 GQSGD_SCHEDULE_AUTO,
                                 reduction_depth,
                                 scatter_round_count,
                                 sum_round,
                                 sum_move,
                                 true,
                                 true};

const Schedule kAllgather = {"allgather",
                             GQSGD_SCHEDULE_AUTO,
                             reduction_depth,
                             gather_round_count,
                             gather_round,
                             gather_move,
                             true,
                             true};

}  // namespace gq
