// What must hold in a world when all ranks have walked to their end.
#include <algorithm>

#include "tests/unit/schedule/world.h"

namespace gq {

void Violations::add(Rule rule, const std::string& text) {
  std::string& first = texts_[static_cast<size_t>(rule)];
  if (first.empty()) first = text;
}

std::string Violations::text() const {
  static constexpr std::array<const char*, kRuleCount> kNames = {
      "range",     "message",      "deadlock", "unknown words", "written after sent",
      "landing",   "contribution", "weight",   "random words",  "chain",
      "quantized", "dequantized",  "result",   "norms"};
  std::string lines;
  for (size_t rule = 0; rule < kRuleCount; ++rule) {
    if (!texts_[rule].empty()) lines += std::string(kNames[rule]) + ": " + texts_[rule] + "\n";
  }
  return lines;
}

void World::conclude() {
  conclude_messages();
  conclude_sums();
  conclude_values();
  conclude_random_words();
}

void World::conclude_messages() {
  for (uint32_t rank = 0; rank < shape_.ranks; ++rank) {
    if (ranks_[rank].pending) break_rule(Rule::deadlock, rank, ranks_[rank].move, "waits for ever");
  }
  for (uint32_t from = 0; from < shape_.ranks; ++from) {
    for (uint32_t to = 0; to < shape_.ranks; ++to) {
      if (!wire(from, to).empty()) {
        break_rule(Rule::message, from, wire(from, to).front().move, "is never received");
      }
      if (ranks_[from].operands[to]) {
        break_rule(Rule::contribution, from, ranks_[from].operands[to]->move, "is never reduced");
      }
    }
  }
}

void World::conclude_values() {
  uint32_t chain_max = 0;
  for (uint64_t cell = 0; cell < cell_count(shape_.value_count); ++cell) {
    for (uint32_t rank = 0; rank < shape_.ranks; ++rank) conclude_cell(rank, cell);
    const int32_t result = ranks_[0].cells[cell].result;
    if (result != kNoWords) chain_max = std::max(chain_max, words_[result].chain);
  }
  const uint32_t reduction_depth = schedule_.reduction_depth(shape_.ranks);
  if (shape_.value_count > 0 && chain_max != reduction_depth) {
    violations_.add(Rule::chain, "the longest has " + std::to_string(chain_max) +
                                     " reductions, combines says " +
                                     std::to_string(reduction_depth));
  }
}

void World::conclude_cell(uint32_t rank, uint64_t cell) {
  const Cell& own = ranks_[rank].cells[cell];
  const auto note = [&](Rule rule, const char* what) {
    violations_.add(rule, "rank " + std::to_string(rank) + ", cell " + std::to_string(cell) + what);
  };
  const bool normed = own.normed.count() == shape_.ranks;
  if (normed != shape_.block_norms) note(Rule::norms, " has wrong norms");
  if (own.quantized != 1) note(Rule::quantized, " is not quantized once");
  if (own.dequantized != 1) note(Rule::dequantized, " is not dequantized once");
  if (own.result != ranks_[0].cells[cell].result) note(Rule::result, " differs from rank 0");
  // A call in place decodes only now: the words must still be what they were.
  const bool changed = ranks_[own.result_origin].cells[cell].own != own.result;
  if (changed) note(Rule::written_after_sent, " has a result that was written later");
}

void World::conclude_random_words() {
  std::sort(random_words_.begin(), random_words_.end());
  const auto twin = std::adjacent_find(random_words_.begin(), random_words_.end());
  if (twin == random_words_.end()) return;
  violations_.add(Rule::random_words, "rank " + std::to_string(*twin & 0xfffff) + ", hop " +
                                          std::to_string(*twin >> 20 & 0xfff) + ", cell " +
                                          std::to_string(*twin >> 36) + " draws twice");
}

}  // namespace gq
