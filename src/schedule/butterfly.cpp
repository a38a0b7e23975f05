// Butterfly: partners at distance P/2, P/4, .. 1 exchange halves of what they hold and reduce them;
// the same exchanges in reverse order bring the results back. P is the largest power of two <= n.
//
//   steps      2 ceil(log2 n)
//   values     2 (P - 1) / P of the call sent by each rank; a folded pair once the call each way
//   roundings  a chain of ceil(log2 n) reductions
//
// Ranks from P on have no partner: rank i >= P sends everything to rank i - P first and gets the
// result last. A block (i, k) is the parts whose number agrees with i in the top k of log2 P bits:
// what rank i holds after k exchanges, one range of the call.
#include "include/gqsgd.h"
#include "src/schedule/make.h"

namespace gq {
namespace {

uint32_t combines(uint32_t ranks) { return ceil_log2(ranks); }

uint32_t partner_ranks(const Shape& shape) { return std::bit_floor(shape.ranks); }

uint32_t exchange_count(const Shape& shape) {
  return static_cast<uint32_t>(std::bit_width(shape.ranks)) - 1;
}

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

/** Ranks merged at `rank` after that many exchanges: those below P that agree with it in the bits
 *  not yet exchanged, and the ranks folded into them. */
uint32_t weight_of(const Shape& shape, uint32_t rank, uint32_t exchanges) {
  const uint32_t distance = partner_ranks(shape) >> exchanges;
  const uint32_t folded = shape.ranks - partner_ranks(shape);
  const uint32_t lowest = rank % distance;
  const uint32_t folded_into = folded > lowest ? (folded - lowest - 1) / distance + 1 : 0;
  return (1u << exchanges) + folded_into;
}

enum class Phase {
  fold,            // a folded rank's codes come in, or go out
  halve_send,      // exchange k: codes of the partner's block
  halve_receive,   // exchange k: codes of the own block
  double_receive,  // exchange k: results of the partner's block
  double_send,     // results held so far, to the partner of exchange k - 1 or to the folded rank
  unfold,          // a folded rank's results
};

struct Place {
  Phase phase;
  uint32_t exchange;  ///< 1 .. log2 P
};

uint64_t round_count(const Shape& shape, uint32_t rank) {
  return rank >= partner_ranks(shape) ? 2 : 1 + 4 * uint64_t{exchange_count(shape)};
}

Place place_of(const Shape& shape, uint32_t rank, uint64_t round) {
  if (round == 0) return {Phase::fold, 0};
  if (rank >= partner_ranks(shape)) return {Phase::unfold, 0};
  const uint32_t exchanges = exchange_count(shape);
  const uint32_t half_rounds = static_cast<uint32_t>(round) - 1;
  const bool first_of_two = half_rounds % 2 == 0;
  const uint32_t pair = half_rounds / 2;
  if (pair < exchanges) {
    return {first_of_two ? Phase::halve_send : Phase::halve_receive, pair + 1};
  }
  return {first_of_two ? Phase::double_receive : Phase::double_send, 2 * exchanges - pair};
}

uint32_t partner_of(const Shape& shape, uint32_t rank, uint32_t exchange) {
  return rank ^ (partner_ranks(shape) >> exchange);
}

Part range_at(const Shape& shape, uint32_t rank, const Place& place) {
  switch (place.phase) {
    case Phase::fold:
    case Phase::unfold:
      break;
    case Phase::halve_send:
    case Phase::double_receive:
      return block_of(shape, partner_of(shape, rank, place.exchange), place.exchange);
    case Phase::halve_receive:
      return block_of(shape, rank, place.exchange);
    case Phase::double_send:
      return block_of(shape, rank, place.exchange - 1);
  }
  return {0, shape.value_count};
}

void list_fold(const Shape& shape, uint32_t rank, NthMove* list) {
  const uint32_t partners = partner_ranks(shape);
  if (rank >= partners) {
    list->add(quantize_move());
    list->add(send_move(rank - partners, rank));
  } else if (has_folded(shape, rank)) {
    list->add(quantize_move());
    list->add(receive_operand_move(rank + partners));
    list->add(reduce_move(rank + partners, 1, 1, 1));
  } else if (shape.ranks == 1) {
    list->add(quantize_move());
    list->add(dequantize_move(rank));
  }
}

void list_halving(const Shape& shape, uint32_t rank, const Place& place, NthMove* list) {
  const uint32_t partner = partner_of(shape, rank, place.exchange);
  if (place.exchange == 1 && !has_folded(shape, rank)) list->add(quantize_move());
  if (place.phase == Phase::halve_send) {
    list->add(send_move(partner, rank));
    return;
  }
  list->add(receive_operand_move(partner));
  list->add(reduce_move(partner, place.exchange + 1,
                        weight_of(shape, partner, place.exchange - 1),
                        weight_of(shape, rank, place.exchange - 1)));
  if (place.exchange == exchange_count(shape)) {  // the own part is complete: back it goes
    list->add(send_move(partner, rank));
    list->add(dequantize_move(rank));
  }
}

void list_results(const Shape& shape, uint32_t rank, const Place& place, NthMove* list) {
  const uint32_t partners = partner_ranks(shape);
  const uint64_t shard = shard_value_count(shape, partners);
  if (place.phase == Phase::double_send) {
    const bool last = place.exchange == 1;
    if (last && !has_folded(shape, rank)) return;
    const uint32_t next = last ? rank + partners : partner_of(shape, rank, place.exchange - 1);
    list->add(of_owners(send_move(next, 0), shard));
    return;
  }
  const uint32_t source = place.phase == Phase::unfold ? rank - partners
                                                       : partner_of(shape, rank, place.exchange);
  list->add(of_owners(receive_result_move(source, 0), shard));
  list->add(of_owners(dequantize_move(0), shard));
}

void list_moves(const Shape& shape, uint32_t rank, const Place& place, NthMove* list) {
  switch (place.phase) {
    case Phase::fold:
      return list_fold(shape, rank, list);
    case Phase::halve_send:
    case Phase::halve_receive:
      return list_halving(shape, rank, place, list);
    case Phase::double_receive:
    case Phase::double_send:
    case Phase::unfold:
      return list_results(shape, rank, place, list);
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

const Schedule kButterfly = {"butterfly", GQSGD_SCHEDULE_BUTTERFLY, combines, round_count, round_at,
                             move_at};

}  // namespace gq
