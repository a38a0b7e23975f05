// Ranks put what they know into an array of zeros, each at its own place, and add the arrays by an
// uncompressed allreduce. Its numbers are integers below 2^24, which float32 adds exactly: all
// ranks read the same and come to the same conclusion.
#include "src/call/continuation.h"

#include <inttypes.h>

#include <new>
#include <string>

#include "src/call/progress_loop.h"

namespace gq {
namespace {

enum Field : size_t {
  kOldRank,  // 0 for a newcomer, else the rank + 1
  kTag,      // 32-bit numbers are two of 16 bits
  kStreamId = kTag + 2,
  kStep = kStreamId + 2,  // 2^32 and more once all are used up: below 2^40
  kMeasures = kStep + 2,
  kNeverUncompressed,
  kCostsDigest,
  kCostsBytes,
  kFieldCount
};

class Table {
 public:
  explicit Table(size_t count) : values_(count) {}

  float* values() { return values_.data(); }
  size_t count() const { return values_.size(); }
  uint32_t at(size_t place) const { return static_cast<uint32_t>(values_[place]); }
  uint64_t long_at(size_t place) const { return uint64_t{at(place)} << 16 | at(place + 1); }
  uint32_t word_at(size_t place) const { return static_cast<uint32_t>(long_at(place)); }
  void set(size_t place, uint32_t number) { values_[place] = static_cast<float>(number); }
  void set_long(size_t place, uint64_t number) {
    set(place, static_cast<uint32_t>(number >> 16));
    set(place + 1, static_cast<uint32_t>(number & 0xffff));
  }

 private:
  std::vector<float> values_;
};

size_t place_of(uint32_t rank, Field field) { return rank * kFieldCount + field; }

std::string string_of(const CostConstants& costs) {
  std::string text(describe_costs_exactly(costs, nullptr, 0), '\0');
  describe_costs_exactly(costs, text.data(), text.size() + 1);
  return text;
}

Table table_of(const Continuation& own, const std::string& costs, uint32_t rank, uint32_t ranks) {
  Table table(ranks * size_t{kFieldCount});
  if (own.old_rank == kNewcomer) return table;
  table.set(place_of(rank, kOldRank), static_cast<uint32_t>(own.old_rank) + 1);
  table.set_long(place_of(rank, kTag), own.old_tag);
  table.set_long(place_of(rank, kStreamId), own.stream_id);
  table.set_long(place_of(rank, kStep), own.step);
  table.set(place_of(rank, kMeasures), own.choice.measures ? 1 : 0);
  table.set(place_of(rank, kNeverUncompressed), own.choice.may_be_uncompressed ? 0 : 1);
  if (!costs.empty()) table.set(place_of(rank, kCostsDigest), digest_of(*own.choice.costs));
  table.set(place_of(rank, kCostsBytes), static_cast<uint32_t>(costs.size()));
  return table;
}

Status add_tables(Endpoint& endpoint, Table* table) {
  Call call;
  call.format = uncompressed(Format());
  call.send = call.recv = table->values();
  call.value_count = table->count();
  call.op = GQSGD_SUM;
  call.schedule_id = GQSGD_SCHEDULE_DIRECT;
  const Status status = allreduce(endpoint, call, Status());
  endpoint.calls = 0;  // of the caller's
  endpoint.result.digest = 0;
  if (status.ok()) return status;
  return fail(status.code(), "the ranks of the new group agree on its state: %s",
              status.sentence());
}

int32_t old_rank_of(const Table& table, uint32_t rank) {
  return static_cast<int32_t>(table.at(place_of(rank, kOldRank))) - 1;
}

/** The first new rank that survives: there is one. */
uint32_t first_survivor(const Table& table, uint32_t ranks) {
  uint32_t rank = 0;
  while (rank + 1 < ranks && old_rank_of(table, rank) == kNewcomer) ++rank;
  return rank;
}

Status compare_survivors(const Table& table, uint32_t ranks) {
  const struct {
    Field field;
    bool is_word;
    const char* what;
    const char* hint;
  } rows[] = {
      {kTag, true, "the old group", "survivors are of one group, and others newcomers"},
      {kStreamId, true, "stream_id", "ranks of one group are made with one"},
      {kNeverUncompressed, false, "uncompressed=never", "ranks of one group are made alike"},
      {kMeasures, false, "costs=measure", "ranks of one group are made alike"},
      {kCostsDigest, false, "costs", "ranks of one group are made with the same ones"},
  };
  const uint32_t first = first_survivor(table, ranks);
  for (uint32_t rank = first + 1; rank < ranks; ++rank) {
    if (old_rank_of(table, rank) == kNewcomer) continue;
    for (const auto& row : rows) {
      const size_t a = place_of(first, row.field), b = place_of(rank, row.field);
      const uint32_t here = row.is_word ? table.word_at(a) : table.at(a);
      const uint32_t there = row.is_word ? table.word_at(b) : table.at(b);
      if (here == there) continue;
      return fail(GQSGD_MISMATCH,
                  "%s differs: rank %u of the new group has 0x%x and rank %u has 0x%x; hint: %s",
                  row.what, first, here, rank, there, row.hint);
    }
  }
  return Status();
}

uint64_t largest_step(const Table& table, uint32_t ranks) {
  uint64_t step = 0;
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    step = std::max(step, table.long_at(place_of(rank, kStep)));
  }
  return step;
}

/** A rank of the new group, as sentences say it. */
struct OldRankText {
  explicit OldRankText(int32_t old_rank) {
    old_rank == kNewcomer ? snprintf(text, sizeof text, "a newcomer (-1)")
                          : snprintf(text, sizeof text, "rank %" PRId32, old_rank);
  }
  char text[32];
};

// Of each rank: the first member that it has wrong, + 1, and that member's number + 2; then the
// costs of the first survivor, a byte in each value.
constexpr size_t kWrongFields = 2;

void find_wrong_member(const Continuation& own, const Table& table, uint32_t rank, uint32_t ranks,
                       Table* answers) {
  for (uint32_t member = 0; member < ranks; ++member) {
    if (own.members[member] == old_rank_of(table, member)) continue;
    answers->set(rank * kWrongFields, member + 1);
    answers->set(rank * kWrongFields + 1, static_cast<uint32_t>(own.members[member] + 2));
    return;
  }
}

Status report_wrong_member(const Table& table, const Table& answers, uint32_t ranks) {
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    const uint32_t wrong = answers.at(rank * kWrongFields);
    if (wrong == 0) continue;
    const int32_t given = static_cast<int32_t>(answers.at(rank * kWrongFields + 1)) - 2;
    return fail(GQSGD_MISMATCH,
                "members[%u] is %s on rank %u of the new group, but rank %u was %s of the old one; "
                "hint: the coordinator gives all ranks the same list",
                wrong - 1, OldRankText(given).text, rank, wrong - 1,
                OldRankText(old_rank_of(table, wrong - 1)).text);
  }
  return Status();
}

Status take_choice(const Table& table, const Table& answers, uint32_t ranks, AutoChoice* choice) {
  const uint32_t from = first_survivor(table, ranks);
  AutoOptions options;
  options.measures = table.at(place_of(from, kMeasures)) != 0;
  options.may_be_uncompressed = table.at(place_of(from, kNeverUncompressed)) == 0;
  std::string text(table.at(place_of(from, kCostsBytes)), '\0');
  for (size_t k = 0; k < text.size(); ++k) {
    text[k] = static_cast<char>(answers.at(ranks * kWrongFields + k));
  }
  if (!text.empty()) {
    CostConstants constants = built_in_costs();
    GQ_TRY(parse_costs(text, &constants));
    options.costs = std::make_shared<const CostConstants>(constants);
  }
  choice->set(options);
  return Status();
}

/** May throw std::bad_alloc. */
Status agree(Endpoint& endpoint, const Continuation& own, uint64_t* step) {
  const uint32_t rank = endpoint.rank(), ranks = endpoint.size();
  const std::string costs = own.choice.costs ? string_of(*own.choice.costs) : std::string();
  Table table = table_of(own, costs, rank, ranks);
  GQ_TRY(add_tables(endpoint, &table));
  GQ_TRY(compare_survivors(table, ranks));
  const uint32_t from = first_survivor(table, ranks);
  Table answers(ranks * kWrongFields + table.at(place_of(from, kCostsBytes)));
  find_wrong_member(own, table, rank, ranks, &answers);
  for (size_t k = 0; rank == from && k < costs.size(); ++k) {
    answers.set(ranks * kWrongFields + k, static_cast<unsigned char>(costs[k]));
  }
  GQ_TRY(add_tables(endpoint, &answers));
  GQ_TRY(report_wrong_member(table, answers, ranks));
  endpoint.stream_id = table.word_at(place_of(from, kStreamId));
  *step = largest_step(table, ranks);
  return take_choice(table, answers, ranks, &endpoint.choice);
}

}  // namespace

Status continue_group(Endpoint& endpoint, const Continuation& own, uint64_t* step) {
  // Until they have agreed, ranks have no options of their own that control messages compare.
  endpoint.stream_id = 0;
  endpoint.choice.set(AutoOptions());
  try {
    return agree(endpoint, own, step);
  } catch (const std::bad_alloc&) {
    return fail(GQSGD_NO_MEMORY, "no memory for what %u ranks agree on", endpoint.size());
  }
}

}  // namespace gq
