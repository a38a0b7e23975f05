// How sums that the transport makes by itself change the world: it adds when all ranks have begun.
#include "tests/unit/schedule/world.h"

namespace gq {

/** The own words belong to the transport from now on. */
void World::add_all(uint32_t rank, const Move& move) {
  for (uint64_t i = 0; i < cell_count(move.value_count); ++i) {
    Cell& cell = ranks_[rank].cells[first_cell(move) + i];
    check_write(rank, move, first_cell(move) + i);
    if (cell.own != static_cast<int32_t>(rank)) {
      break_rule(Rule::contribution, rank, move, "has not its own codes there");
    }
    cell.frozen = true;
  }
  Rank& self = ranks_[rank];
  if (self.sums.size() != self.sums_awaited) {
    break_rule(Rule::landing, rank, move, "comes before the sum before it was awaited");
  }
  self.sums.push_back(move);
}

/** False while a rank has not begun this sum. */
bool World::await_sum(uint32_t rank, const Move& move) {
  Rank& self = ranks_[rank];
  const size_t number = self.sums_awaited;
  if (number == self.sums.size()) {
    break_rule(Rule::message, rank, move, "awaits a sum that was not begun");
    return true;
  }
  for (const Rank& other : ranks_) {
    if (other.sums.size() <= number) return false;
    const Move& theirs = other.sums[number];
    if (theirs.first_value != move.first_value || theirs.value_count != move.value_count) {
      break_rule(Rule::message, rank, move, "finds other ranges at other ranks");
    }
  }
  ++self.sums_awaited;
  for (uint64_t i = 0; i < cell_count(move.value_count); ++i) {
    Cell& cell = self.cells[first_cell(move) + i];
    cell.own = sum_at(first_cell(move) + i);
    cell.frozen = false;
  }
  return true;
}

/** The sum of all ranks in one cell: the same words for every rank that asks. */
int32_t World::sum_at(uint64_t cell) {
  const auto [found, is_new] = sums_.try_emplace(cell, static_cast<int32_t>(words_.size()));
  if (!is_new) return found->second;
  Words sum;
  for (uint32_t rank = 0; rank < shape_.ranks; ++rank) sum.ranks.set(rank);
  sum.chain = shape_.ranks > 1 ? 1 : 0;
  words_.push_back(sum);
  return found->second;
}

void World::conclude_sums() {
  for (uint32_t rank = 0; rank < shape_.ranks; ++rank) {
    const Rank& self = ranks_[rank];
    if (self.sums_awaited == self.sums.size()) continue;
    break_rule(Rule::message, rank, self.sums.back(), "is never awaited");
  }
}

}  // namespace gq
