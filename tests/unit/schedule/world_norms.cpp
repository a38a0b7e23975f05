// How moves of norms change the world: a rank's norms are known by the ranks that are merged in
// them.
#include "tests/unit/schedule/world.h"

namespace gq {

void World::take_norms(uint32_t rank, const Move& move) {
  for (uint64_t i = 0; i < cell_count(move.value_count); ++i) {
    Cell& cell = ranks_[rank].cells[first_cell(move) + i];
    if (cell.normed.any()) break_rule(Rule::norms, rank, move, "comes twice");
    cell.normed.set(rank);
  }
}

bool World::pack_norms(uint32_t rank, const Move& move, Message* message) {
  if (move.origin != rank || move.origin_value_count != 0) return false;
  for (uint64_t i = 0; i < cell_count(move.value_count); ++i) {
    Cell& cell = ranks_[rank].cells[first_cell(move) + i];
    if (cell.normed.none()) return false;
    cell.norms_frozen = true;
    message->normed.push_back(cell.normed);
  }
  return true;
}

void World::merge_norms(uint32_t rank, const Move& move) {
  const Message* message = operand(rank, move.peer, move);
  if (message == nullptr) return;
  for (uint64_t i = 0; i < message->normed.size(); ++i) {
    const uint64_t place = first_cell(move) + i;
    Cell& cell = ranks_[rank].cells[place];
    if (ranks_[move.peer].cells[place].normed != message->normed[i]) {
      break_rule(Rule::written_after_sent, rank, move, "finds other norms at the peer");
    }
    if (cell.norms_frozen) break_rule(Rule::written_after_sent, rank, move, "writes them");
    if (cell.normed.none()) return break_rule(Rule::unknown_words, rank, move, "lacks own norms");
    if ((cell.normed & message->normed[i]).any()) {
      return break_rule(Rule::contribution, rank, move, "merges a rank twice");
    }
    cell.normed |= message->normed[i];
  }
  ranks_[rank].operands[move.peer].reset();
}

/** Global norms take the place of the own ones: their owner has merged those, else it would not
 * have sent these. */
void World::keep_norms(uint32_t rank, const Move& move, const Message& message) {
  for (uint64_t i = 0; i < message.normed.size(); ++i) {
    Cell& cell = ranks_[rank].cells[first_cell(move) + i];
    if (message.normed[i].count() != shape_.ranks) {
      return break_rule(Rule::contribution, rank, move, "is not global: ranks are missing");
    }
    cell.normed = message.normed[i];
  }
}

}  // namespace gq
