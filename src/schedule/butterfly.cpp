// Butterfly: partners at distance P/2, P/4, .. 1 exchange halves of what they hold and reduce them;
// the same exchanges in reverse order bring the results back. P is the largest power of two <= n.
//
//   steps      2 ceil(log2 n)
//   values     2 (P - 1) / P of the call sent by each rank; a folded pair once the call each way
//   roundings  a chain of ceil(log2 n) reductions
//
// Ranks from P on have no partner: rank i >= P is folded into rank i - P, which reduces its codes
// before the first exchange and passes results on to it. A block (i, k) is the parts whose number
// agrees with i in the top k of log2 P bits: what rank i holds after k exchanges, one range of the
// call.
#include "include/gqsgd.h"
#include "src/schedule/make.h"

namespace gq {
namespace {

uint32_t reduction_depth(uint32_t ranks) { return ceil_log2(ranks); }

uint32_t partner_ranks(const Shape& shape) { return std::bit_floor(shape.ranks); }

uint32_t exchange_count(const Shape& shape) {
  return static_cast<uint32_t>(std::bit_width(shape.ranks)) - 1;
}

uint32_t partner_of(const Shape& shape, uint32_t rank, uint32_t exchange) {
  return rank ^ (partner_ranks(shape) >> exchange);
}

bool is_folded(const Shape& shape, uint32_t rank) { return rank >= partner_ranks(shape); }

/** True for a rank below P that stands in for another one as well. */
bool has_folded(const Shape& shape, uint32_t rank) {
  return rank < shape.ranks - partner_ranks(shape);
}

Part block_of(const Shape& shape, uint32_t rank, uint32_t exchanges) {
  const uint32_t parts = partner_ranks(shape) >> exchanges;
  const uint32_t first_part = rank / parts * parts;
  const Part first = part_of(shape, partner_ranks(shape), first_part);
  const Part last = part_of(shape, partner_ranks(shape), first_part + parts - 1);
  return {first.first_value, last.first_value + last.value_count - first.first_value};
}

/** Ranks merged at `rank` before an exchange: those below P that agree with it in the bits not yet
 *  exchanged, and the ranks folded into them. */
uint32_t weight_before(const Shape& shape, uint32_t rank, uint32_t exchange) {
  const uint32_t distance = partner_ranks(shape) >> (exchange - 1);
  const uint32_t folded = shape.ranks - partner_ranks(shape);
  const uint32_t lowest = rank % distance;
  const uint32_t folded_into = folded > lowest ? (folded - lowest - 1) / distance + 1 : 0;
  return (1u << (exchange - 1)) + folded_into;
}

enum class Phase {
  give,   // exchange: the partner's block of the own codes, to be reduced there
  keep,   // exchange: the own block, to be reduced here
  fetch,  // exchange, on the way back: results of the partner's block
  pass,   // exchange, on the way back: results of the own block
};

struct Place {
  Phase phase;
  uint32_t exchange;  ///< 1 .. log2 P
};

/** give, keep for exchange 1 .. log2 P; then fetch for log2 P .. 1, with a pass before each but the
 *  first, where keep has passed results on already. A folded rank has the first exchange alone. */
uint64_t round_count(const Shape& shape, uint32_t rank) {
  if (shape.ranks == 1) return 1;
  return is_folded(shape, rank) ? 4 : 4 * uint64_t{exchange_count(shape)} - 1;
}

Place place_of(const Shape& shape, uint32_t rank, uint64_t round_index) {
  const uint32_t round = static_cast<uint32_t>(round_index);
  if (is_folded(shape, rank)) {
    constexpr Phase kPhases[] = {Phase::give, Phase::keep, Phase::pass, Phase::fetch};
    return {kPhases[round], 1};
  }
  const uint32_t halving_rounds = 2 * exchange_count(shape);
  if (round < halving_rounds) {
    return {round % 2 == 0 ? Phase::give : Phase::keep, round / 2 + 1};
  }
  const uint32_t back = round - halving_rounds;
  return {back % 2 == 0 ? Phase::fetch : Phase::pass, exchange_count(shape) - (back + 1) / 2};
}

/** Both ranks of a folded pair cut the call alike. */
Part range_at(const Shape& shape, uint32_t rank, const Place& place) {
  if (shape.ranks == 1) return {0, shape.value_count};
  const uint32_t acting = is_folded(shape, rank) ? rank - partner_ranks(shape) : rank;
  const bool own = place.phase == Phase::keep || place.phase == Phase::pass;
  return block_of(shape, own ? acting : partner_of(shape, acting, place.exchange), place.exchange);
}

void list_folded(const Shape& shape, uint32_t rank, const Place& place, NthMove* list) {
  const uint32_t acting = rank - partner_ranks(shape);
  const uint64_t shard = shard_value_count(shape, partner_ranks(shape));
  if (place.phase == Phase::give || place.phase == Phase::keep) {
    list->add(quantize_move());
    list->add(send_move(acting, rank));
  } else {
    list->add(of_owners(receive_result_move(acting, 0), shard));
    list->add(of_owners(dequantize_move(0), shard));
  }
}

void list_codes(const Shape& shape, uint32_t rank, const Place& place, NthMove* list) {
  const uint32_t partner = partner_of(shape, rank, place.exchange);
  const uint32_t folded = rank + partner_ranks(shape);
  if (place.exchange == 1) {
    list->add(quantize_move());
    if (has_folded(shape, rank)) {
      list->add(receive_operand_move(folded));
      list->add(reduce_move(folded, 1, 1, 1));
    }
  }
  if (place.phase == Phase::give) {
    list->add(send_move(partner, rank));
    return;
  }
  list->add(receive_operand_move(partner));
  list->add(reduce_move(partner, place.exchange + 1, weight_before(shape, partner, place.exchange),
                        weight_before(shape, rank, place.exchange)));
  if (place.exchange == exchange_count(shape)) {  // the own part is complete: results travel back
    list->add(send_move(partner, rank));
    if (place.exchange == 1 && has_folded(shape, rank)) list->add(send_move(folded, rank));
    list->add(dequantize_move(rank));
  }
}

void list_results(const Shape& shape, uint32_t rank, const Place& place, NthMove* list) {
  const uint32_t partner = partner_of(shape, rank, place.exchange);
  const uint64_t shard = shard_value_count(shape, partner_ranks(shape));
  const bool fetches = place.phase == Phase::fetch;
  list->add(of_owners(fetches ? receive_result_move(partner, 0) : send_move(partner, 0), shard));
  if (place.exchange == 1 && has_folded(shape, rank)) {
    list->add(of_owners(send_move(rank + partner_ranks(shape), 0), shard));
  }
  if (fetches) list->add(of_owners(dequantize_move(0), shard));
}

void list_moves(const Shape& shape, uint32_t rank, const Place& place, NthMove* list) {
  if (shape.ranks == 1) {
    list->add(quantize_move());
    list->add(dequantize_move(0));
  } else if (is_folded(shape, rank)) {
    list_folded(shape, rank, place, list);
  } else if (place.phase == Phase::give || place.phase == Phase::keep) {
    list_codes(shape, rank, place, list);
  } else {
    list_results(shape, rank, place, list);
  }
}

Round round_at(const Shape& shape, uint32_t rank, uint64_t round) {
  const Place place = place_of(shape, rank, round);
  NthMove list;
  list_moves(shape, rank, place, &list);
  const Part range = range_at(shape, rank, place);
  return {range.first_value, range.value_count, list.count()};
}

Move move_at(const Shape& shape, uint32_t rank, uint64_t round, uint32_t index) {
  NthMove list(index);
  list_moves(shape, rank, place_of(shape, rank, round), &list);
  return list.move();
}

}  // namespace

const Schedule kButterfly = {
    "butterfly", GQSGD_SCHEDULE_BUTTERFLY, reduction_depth, round_count, round_at, move_at};

}  // namespace gq
