// The orders in which a world's ranks move.
#include <algorithm>
#include <numeric>
#include <random>

#include "tests/unit/schedule/world.h"

namespace gq {
namespace {

/** Up to `moves_max` moves of one rank; whether there was any. */
bool advance(World* world, uint32_t rank, uint64_t moves_max) {
  uint64_t moves = 0;
  while (moves < moves_max && world->advance(rank)) ++moves;
  return moves > 0;
}

uint64_t burst(Turns turns, std::mt19937* random) {
  if (turns == Turns::one_move_each) return 1;
  if (turns == Turns::random) return 1 + (*random)() % 7;
  return UINT64_MAX;
}

}  // namespace

const Violations& walk(World* world, Turns turns, uint32_t seed) {
  std::mt19937 random(seed);
  const uint32_t rank_count = world->shape().ranks;
  std::vector<uint32_t> order(rank_count);
  std::iota(order.begin(), order.end(), 0u);
  if (turns == Turns::greedy_down) std::reverse(order.begin(), order.end());
  const uint32_t starved = turns == Turns::starve_one ? seed % rank_count : rank_count;

  for (bool moved = true; moved;) {
    moved = false;
    if (turns == Turns::random) std::shuffle(order.begin(), order.end(), random);
    for (uint32_t rank : order) {
      if (rank != starved) moved |= advance(world, rank, burst(turns, &random));
    }
    if (!moved && starved < rank_count) moved = advance(world, starved, 1);
  }
  world->conclude();
  return world->violations();
}

}  // namespace gq
