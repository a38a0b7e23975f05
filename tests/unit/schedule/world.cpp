// How each kind of move changes the world, and what it must find there.
#include "tests/unit/schedule/world.h"

#include <algorithm>

#include "src/schedule/nodes.h"

namespace gq {
namespace {

const char* kind_name(MoveKind kind) {
  switch (kind) {
    case MoveKind::norm:
      return "norm";
    case MoveKind::merge_norms:
      return "merge_norms";
    case MoveKind::quantize:
      return "quantize";
    case MoveKind::send:
      return "send";
    case MoveKind::receive_operand:
      return "receive_operand";
    case MoveKind::receive_result:
      return "receive_result";
    case MoveKind::reduce:
      return "reduce";
    case MoveKind::reduce_many:
      return "reduce_many";
    case MoveKind::add_all:
      return "add_all";
    case MoveKind::await_sum:
      return "await_sum";
    case MoveKind::dequantize:
      return "dequantize";
  }
  return "?";
}

std::string text_of(const Move& move) {
  static constexpr const char* kContents[] = {"codes", "sums", "norms"};
  return std::string(kind_name(move.kind)) + " of " + kContents[static_cast<size_t>(move.content)] +
         " peer " + std::to_string(move.peer) + " origin " + std::to_string(move.origin) +
         " values " + std::to_string(move.first_value) + " + " + std::to_string(move.value_count) +
         " hop " + std::to_string(move.hop) + " weights " + std::to_string(move.weight_a) + ", " +
         std::to_string(move.weight_b);
}

/** The rank whose memory holds value `value` of a message. */
uint32_t origin_at(const Move& move, uint64_t value) {
  return move.origin_value_count == 0 ? move.origin
                                      : static_cast<uint32_t>(value / move.origin_value_count);
}

bool same_range(const Move& a, const Move& b) {
  return a.first_value == b.first_value && a.value_count == b.value_count;
}

}  // namespace

World::World(const Schedule& schedule, const Shape& shape)
    : schedule_(schedule),
      shape_(shape),
      ranks_(shape.ranks),
      wires_(size_t{shape.ranks} * shape.ranks) {
  for (uint32_t rank = 0; rank < shape.ranks; ++rank) {
    ranks_[rank].cursor = MoveCursor(&schedule, shape, rank);
    ranks_[rank].cells.resize(cell_count(shape.value_count));
    ranks_[rank].operands.resize(shape.ranks);
    words_.push_back(Words{RankSet().set(rank), 0});
  }
}

uint64_t World::cell_count(uint64_t value_count) const {
  return (value_count + shape_.value_alignment - 1) / shape_.value_alignment;
}

bool World::advance(uint32_t rank) {
  Rank& self = ranks_[rank];
  if (!self.pending) self.pending = self.cursor.next(&self.move);
  if (!self.pending) return false;
  self.pending = check_range(rank, self.move) && !make(rank, self.move);
  return !self.pending;
}

bool World::check_range(uint32_t rank, const Move& move) {
  const uint64_t end = move.first_value + move.value_count;
  const bool talks = move.kind == MoveKind::send || move.kind == MoveKind::receive_operand ||
                     move.kind == MoveKind::receive_result || move.kind == MoveKind::reduce ||
                     move.kind == MoveKind::merge_norms;
  const bool in_one_piece = move.kind == MoveKind::add_all || move.kind == MoveKind::await_sum;
  if (move.value_count == 0 || end > shape_.value_count) {
    break_rule(Rule::range, rank, move, "is empty or leaves the call");
  } else if (move.value_count > shape_.chunk_value_count && !in_one_piece) {
    break_rule(Rule::range, rank, move, "is longer than a chunk");
  } else if (move.first_value % shape_.value_alignment != 0 ||
             (end % shape_.value_alignment != 0 && end != shape_.value_count)) {
    break_rule(Rule::range, rank, move, "is not aligned");
  } else if (talks && (move.peer >= shape_.ranks || move.peer == rank)) {
    break_rule(Rule::range, rank, move, "names itself or no rank as its peer");
  } else {
    return true;
  }
  return false;
}

bool World::make(uint32_t rank, const Move& move) {
  switch (move.kind) {
    case MoveKind::norm:
      take_norms(rank, move);
      return true;
    case MoveKind::merge_norms:
      merge_norms(rank, move);
      return true;
    case MoveKind::quantize:
      quantize(rank, move);
      return true;
    case MoveKind::send:
      send(rank, move);
      return true;
    case MoveKind::receive_operand:
    case MoveKind::receive_result:
      return receive(rank, move);
    case MoveKind::reduce:
      reduce(rank, move);
      return true;
    case MoveKind::reduce_many:
      reduce_many(rank, move);
      return true;
    case MoveKind::add_all:
      add_all(rank, move);
      return true;
    case MoveKind::await_sum:
      return await_sum(rank, move);
    case MoveKind::dequantize:
      dequantize(rank, move);
      return true;
  }
  return true;
}

void World::check_write(uint32_t rank, const Move& move, uint64_t cell) {
  const Cell& own = ranks_[rank].cells[cell];
  if (own.frozen || own.landed) break_rule(Rule::written_after_sent, rank, move, "writes them");
}

/** The words of a cell that `rank` may name with `origin`: its own, or a result it has received. */
int32_t World::words_at(uint32_t rank, uint32_t origin, uint64_t cell) const {
  const Cell& own = ranks_[rank].cells[cell];
  if (origin == rank) return own.landed ? kNoWords : own.own;
  return own.result_origin == origin ? own.result : kNoWords;
}

void World::quantize(uint32_t rank, const Move& move) {
  for (uint64_t i = 0; i < cell_count(move.value_count); ++i) {
    Cell& cell = ranks_[rank].cells[first_cell(move) + i];
    check_write(rank, move, first_cell(move) + i);
    cell.own = static_cast<int32_t>(rank);
    if (shape_.block_norms && cell.normed.count() != shape_.ranks) {
      break_rule(Rule::norms, rank, move, "comes before the global norms");
    }
    if (++cell.quantized > 1) break_rule(Rule::quantized, rank, move, "comes twice");
    use_random_words(0, rank, 0, first_cell(move) + i);
  }
}

void World::send(uint32_t rank, const Move& move) {
  Message message{move, {}, {}};
  const bool norms = move.content == Content::norms;
  if (!(norms ? pack_norms(rank, move, &message) : pack_words(rank, move, &message))) {
    return break_rule(Rule::unknown_words, rank, move, "has none to send");
  }
  ++ranks_[rank].sent.messages;
  (norms ? ranks_[rank].sent.norm_values : ranks_[rank].sent.values) += move.value_count;
  wire(rank, move.peer).push_back(std::move(message));
}

bool World::pack_words(uint32_t rank, const Move& move, Message* message) {
  for (uint64_t i = 0; i < cell_count(move.value_count); ++i) {
    const uint64_t cell = first_cell(move) + i;
    const uint32_t origin = origin_at(move, cell * shape_.value_alignment);
    const int32_t words = origin < shape_.ranks ? words_at(rank, origin, cell) : kNoWords;
    if (words == kNoWords) return false;
    if (origin == rank) ranks_[rank].cells[cell].frozen = true;
    message->words.push_back(words);
  }
  return true;
}

bool World::receive(uint32_t rank, const Move& move) {
  std::deque<Message>& queue = wire(move.peer, rank);
  if (queue.empty()) return false;
  Message message = std::move(queue.front());
  queue.pop_front();
  if (!same_range(message.move, move) || message.move.content != move.content ||
      message.move.origin != move.origin ||
      message.move.origin_value_count != move.origin_value_count) {
    break_rule(Rule::message, rank, move, "meets a " + text_of(message.move));
  } else if (move.kind == MoveKind::receive_operand) {
    keep_operand(rank, move, std::move(message));
  } else if (move.content == Content::norms) {
    keep_norms(rank, move, message);
  } else {
    keep_result(rank, move, message);
  }
  return true;
}

void World::keep_operand(uint32_t rank, const Move& move, Message message) {
  std::optional<Message>& slot = ranks_[rank].operands[move.peer];
  if (slot) break_rule(Rule::landing, rank, move, "comes before the one before it was reduced");
  slot = std::move(message);
}

void World::keep_result(uint32_t rank, const Move& move, const Message& message) {
  for (uint64_t i = 0; i < message.words.size(); ++i) {
    Cell& cell = ranks_[rank].cells[first_cell(move) + i];
    const uint32_t origin = origin_at(move, (first_cell(move) + i) * shape_.value_alignment);
    if (words_[message.words[i]].ranks.count() != shape_.ranks) {
      return break_rule(Rule::contribution, rank, move, "is no result: ranks are missing");
    }
    if (ranks_[origin].cells[first_cell(move) + i].own != message.words[i]) {
      break_rule(Rule::written_after_sent, rank, move, "finds other words at the origin");
    }
    cell.result = message.words[i];
    cell.result_origin = origin;
    cell.landed = true;
  }
}

/** The operand of `peer` for the range of `move`, unchanged since it was sent. */
const World::Message* World::operand(uint32_t rank, uint32_t peer, const Move& move) {
  const std::optional<Message>& slot = ranks_[rank].operands[peer];
  const bool norms = move.kind == MoveKind::merge_norms;
  if (!slot || !same_range(slot->move, move) || norms != (slot->move.content == Content::norms)) {
    break_rule(Rule::unknown_words, rank, move, "has no operand of rank " + std::to_string(peer));
    return nullptr;
  }
  for (uint64_t i = 0; i < slot->words.size(); ++i) {
    if (ranks_[peer].cells[first_cell(move) + i].own != slot->words[i]) {
      break_rule(Rule::written_after_sent, rank, move, "finds other words at the peer");
    }
  }
  return &*slot;
}

void World::reduce(uint32_t rank, const Move& move) {
  const Message* message = operand(rank, move.peer, move);
  if (message == nullptr) return;
  for (uint64_t i = 0; i < message->words.size(); ++i) {
    Cell& cell = ranks_[rank].cells[first_cell(move) + i];
    check_write(rank, move, first_cell(move) + i);
    if (cell.own == kNoWords) return break_rule(Rule::unknown_words, rank, move, "lacks own words");
    const Words a = words_[message->words[i]];
    const Words b = words_[cell.own];
    if ((a.ranks & b.ranks).any()) {
      return break_rule(Rule::contribution, rank, move, "merges a rank twice");
    }
    if (a.ranks.count() != move.weight_a || b.ranks.count() != move.weight_b) {
      return break_rule(Rule::weight, rank, move,
                        "merges " + std::to_string(a.ranks.count()) + " and " +
                            std::to_string(b.ranks.count()) + " ranks");
    }
    words_.push_back(Words{a.ranks | b.ranks, 1 + std::max(a.chain, b.chain)});
    cell.own = static_cast<int32_t>(words_.size() - 1);
    use_random_words(3, rank, move.hop, first_cell(move) + i);
  }
  ranks_[rank].operands[move.peer].reset();
}

void World::reduce_many(uint32_t rank, const Move& move) {
  std::vector<const Message*> messages;
  for (uint32_t k = 0; k < operand_count(shape_, rank, move); ++k) {
    const uint32_t peer = operand_rank(shape_, rank, move, k);
    if (peer == rank) continue;
    messages.push_back(operand(rank, peer, move));
    if (messages.back() == nullptr) return;
    check_addend(rank, move, peer, messages.back()->words);
  }
  for (uint64_t i = 0; i < cell_count(move.value_count); ++i) {
    Cell& cell = ranks_[rank].cells[first_cell(move) + i];
    check_write(rank, move, first_cell(move) + i);
    if (cell.own == kNoWords) return break_rule(Rule::unknown_words, rank, move, "lacks own words");
    Words sum = words_[cell.own];
    for (const Message* message : messages) {
      const Words& a = words_[message->words[i]];
      if ((a.ranks & sum.ranks).any()) {
        return break_rule(Rule::contribution, rank, move, "merges a rank twice");
      }
      sum = Words{sum.ranks | a.ranks, std::max(sum.chain, a.chain)};
    }
    words_.push_back(sum);
    cell.own = static_cast<int32_t>(words_.size() - 1);
    use_random_words(4, rank, move.hop, first_cell(move) + i);
  }
  for (uint32_t k = 0; k < operand_count(shape_, rank, move); ++k) {
    ranks_[rank].operands[operand_rank(shape_, rank, move, k)].reset();
  }
}

/** Sums of nodes count as many ranks as the nodes have, other operands one. */
void World::check_addend(uint32_t rank, const Move& move, uint32_t peer,
                         const std::vector<int32_t>& words) {
  const bool sums = move.addends == Addends::nodes;
  const size_t ranks = sums ? shape_.nodes->size_of(shape_.nodes->node_of(peer)) : 1;
  for (const int32_t index : words) {
    if (words_[index].ranks.count() == ranks) continue;
    return break_rule(Rule::weight, rank, move, "adds words that are not so many ranks'");
  }
}

void World::dequantize(uint32_t rank, const Move& move) {
  for (uint64_t i = 0; i < cell_count(move.value_count); ++i) {
    Cell& cell = ranks_[rank].cells[first_cell(move) + i];
    const int32_t words = words_at(rank, move.origin, first_cell(move) + i);
    if (words == kNoWords) return break_rule(Rule::unknown_words, rank, move, "has no such words");
    if (words_[words].ranks.count() != shape_.ranks) {
      return break_rule(Rule::contribution, rank, move, "is no result: ranks are missing");
    }
    if (cell.quantized == 0) break_rule(Rule::quantized, rank, move, "comes too early");
    if (++cell.dequantized > 1) break_rule(Rule::dequantized, rank, move, "comes twice");
    cell.frozen = true;
    cell.result = words;
    cell.result_origin = move.origin;
  }
}

void World::use_random_words(uint32_t draw, uint32_t rank, uint32_t hop, uint64_t cell) {
  // docs/FORMAT.md, section 2: c3 = rank | (hop mod 4096) << 20, here under the draw and the cell.
  const uint64_t c3 = rank | static_cast<uint64_t>(hop % 4096) << 20;
  random_words_.push_back(c3 | uint64_t{draw} << 32 | cell << 36);
}

void World::break_rule(Rule rule, uint32_t rank, const Move& move, const std::string& what) {
  violations_.add(rule, "rank " + std::to_string(rank) + ": " + text_of(move) + " " + what);
}

}  // namespace gq
