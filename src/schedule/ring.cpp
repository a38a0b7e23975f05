// Ring: every part travels once round the ring to be reduced and once more as a result.
//
//   steps      2 (n - 1), one message each
//   values     2 (n - 1) / n of the call sent by each rank
//   roundings  a chain of n - 1 reductions
//
// Part j starts at rank j + 1 and moves upwards, so that it is complete at rank j. While a rank
// reduces one chunk, the next one is on its way from the rank before.
#include "include/gqsgd.h"
#include "src/schedule/make.h"

namespace gq {
namespace {

uint32_t reduction_depth(uint32_t ranks) { return ranks - 1; }

/** n rounds up to the own part's result, n - 1 rounds for the others' results. */
uint64_t round_count(const Shape& shape, uint32_t) { return 2 * uint64_t{shape.ranks} - 1; }

uint32_t part_at(const Shape& shape, uint32_t rank, uint64_t round) {
  const uint64_t distance = round < shape.ranks ? round + 1 : round - shape.ranks + 1;
  return rank_before(rank, distance, shape.ranks);
}

void list_reduction(const Shape& shape, uint32_t rank, uint32_t hop, NthMove* list) {
  const uint32_t previous = rank_before(rank, 1, shape.ranks);
  list->add(quantize_move());
  if (hop > 0) {
    list->add(receive_operand_move(previous));
    list->add(reduce_move(previous, hop, hop, 1));
  }
  if (shape.ranks > 1) list->add(send_move(rank_after(rank, 1, shape.ranks), rank));
  if (hop == shape.ranks - 1) list->add(dequantize_move(rank));
}

void list_result(const Shape& shape, uint32_t rank, uint32_t origin, NthMove* list) {
  const uint32_t next = rank_after(rank, 1, shape.ranks);
  list->add(receive_result_move(rank_before(rank, 1, shape.ranks), origin));
  if (next != origin) list->add(send_move(next, origin));
  list->add(dequantize_move(origin));
}

void list_moves(const Shape& shape, uint32_t rank, uint64_t round, NthMove* list) {
  if (round < shape.ranks) {
    list_reduction(shape, rank, static_cast<uint32_t>(round), list);
  } else {
    list_result(shape, rank, part_at(shape, rank, round), list);
  }
}

Round round_at(const Shape& shape, uint32_t rank, uint64_t round) {
  NthMove list;
  list_moves(shape, rank, round, &list);
  const Part part = part_of(shape, shape.ranks, part_at(shape, rank, round));
  return {part.first_value, part.value_count, list.count()};
}

Move move_at(const Shape& shape, uint32_t rank, uint64_t round, uint32_t index) {
  NthMove list(index);
  list_moves(shape, rank, round, &list);
  return list.move();
}

}  // namespace

const Schedule kRing = {"ring", GQSGD_SCHEDULE_RING, reduction_depth, round_count, round_at,
                        move_at};

}  // namespace gq
