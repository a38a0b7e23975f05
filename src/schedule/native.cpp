// Native: the transport adds the codes of all ranks by itself, as integers that hold their sums.
//
//   steps      the transport's
//   values     the transport's
//   roundings  none: exact sums
//
// The whole call is one sum. Pieces could overlap with stages, but allreduces of MPI lose more by
// each of several that are under way than that is worth.
#include "include/gqsgd.h"
#include "src/schedule/make.h"

namespace gq {
namespace {

enum NativeRound : uint64_t { kEncode, kAdd, kDecode, kRoundCount };

/** Levels of exact sums have to hold a sum of several ranks. */
uint32_t reduction_depth(uint32_t ranks) { return ranks > 1 ? 1 : 0; }

uint64_t round_count(const Shape&, uint32_t) { return kRoundCount; }

Round round_at(const Shape& shape, uint32_t, uint64_t round) {
  const bool adds = round == kAdd;
  return {0, shape.value_count, adds ? 2u : 1u, adds};
}

Move move_at(const Shape&, uint32_t rank, uint64_t round, uint32_t index) {
  if (round == kEncode) return quantize_move();
  if (round == kDecode) return dequantize_move(rank);
  return index == 0 ? add_all_move() : await_sum_move();
}

}  // namespace

const Schedule kNative = {.name = "native",
                          .id = GQSGD_SCHEDULE_NATIVE,
                          .reduction_depth = reduction_depth,
                          .round_count = round_count,
                          .round = round_at,
                          .move = move_at,
                          .adds_natively = true};

}  // namespace gq
