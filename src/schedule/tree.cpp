// Tree: a binomial tree with root 0 reduces the whole call chunk by chunk and sends the results
// down the same way.
//
//   steps      2 ceil(log2 n)
//   values     the call once up and once to each child: ceil(log2 n) times the call at the root
//   roundings  a chain of ceil(log2 n) reductions
//
// The children of rank i are i + 1, i + 2, i + 4, .. below the lowest bit set in i; its parent is i
// with that bit cleared. After sending chunk c up, a rank takes a result down: were it that of
// chunk c, the pipeline would drain at every chunk; going all the way up first would leave one
// direction of every link idle. A rank at depth D (bits set) takes that of chunk c - 3 D, which has
// had time to come back. On the timelines of tests/unit/schedule 2 D stalls as soon as a message
// has a latency of a third of its length; a deeper pipeline makes short calls longer.
#include "include/gqsgd.h"
#include "src/schedule/make.h"

namespace gq {
namespace {

uint32_t reduction_depth(uint32_t ranks) { return ceil_log2(ranks); }

/** The number of children; child k is rank + 2^k, merged at hop k + 1. */
uint32_t child_count(uint32_t ranks, uint32_t rank) {
  const uint32_t within_ranks = ceil_log2(ranks - rank);
  if (rank == 0) return within_ranks;
  return std::min(within_ranks, static_cast<uint32_t>(std::countr_zero(rank)));
}

uint64_t pipeline_depth(uint32_t rank) { return 3 * static_cast<uint64_t>(std::popcount(rank)); }

/** Rounds alternate: chunk c up, chunk c - pipeline_depth down. */
uint64_t round_count(const Shape& shape, uint32_t rank) {
  return 2 * (chunk_count_of(shape.value_count, shape) + pipeline_depth(rank));
}

bool goes_up(uint64_t round) { return round % 2 == 0; }

void list_up(const Shape& shape, uint32_t rank, NthMove* list) {
  list->add(quantize_move());
  for (uint32_t k = 0; k < child_count(shape.ranks, rank); ++k) {
    const uint32_t merged = 1u << k;
    const uint32_t child = rank + merged;
    list->add(receive_operand_move(child));
    list->add(reduce_move(child, k + 1, std::min(merged, shape.ranks - child), merged));
  }
  if (rank != 0) list->add(send_move(rank & (rank - 1), rank));
}

void list_down(const Shape& shape, uint32_t rank, NthMove* list) {
  if (rank != 0) list->add(receive_result_move(rank & (rank - 1), 0));
  for (uint32_t k = child_count(shape.ranks, rank); k-- > 0;) {  // the deepest subtree first
    list->add(send_move(rank + (1u << k), 0));
  }
  list->add(dequantize_move(0));
}

void list_moves(const Shape& shape, uint32_t rank, uint64_t round, NthMove* list) {
  if (goes_up(round)) {
    list_up(shape, rank, list);
  } else {
    list_down(shape, rank, list);
  }
}

Round round_at(const Shape& shape, uint32_t rank, uint64_t round) {
  const uint64_t delay = goes_up(round) ? 0 : pipeline_depth(rank);
  if (round / 2 < delay) return {};
  NthMove list;
  list_moves(shape, rank, round, &list);
  const Part chunk = chunk_of({0, shape.value_count}, round / 2 - delay, shape);
  return {chunk.first_value, chunk.value_count, list.count()};
}

Move move_at(const Shape& shape, uint32_t rank, uint64_t round, uint32_t index) {
  NthMove list(index);
  list_moves(shape, rank, round, &list);
  return list.move();
}

}  // namespace

const Schedule kTree = {"tree", GQSGD_SCHEDULE_TREE, reduction_depth, round_count, round_at,
                        move_at};

}  // namespace gq
