// A world of ranks whose words are symbols: which ranks' codes are merged in them, and by how many
// reductions. It makes moves one at a time, remembers everything and says which rules were broken.
// No threads, no transport, no arithmetic on codes.
#ifndef GQ_TESTS_UNIT_SCHEDULE_WORLD_H
#define GQ_TESTS_UNIT_SCHEDULE_WORLD_H

#include <array>
#include <bitset>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "src/schedule/move.h"

namespace gq {

/** What a schedule must not do. The names are the words of the failure messages. */
enum class Rule {
  range,               ///< a move lies outside the call, is empty, unaligned or longer than a chunk
  message,             ///< both ends list different messages, or one is never received
  deadlock,            ///< every rank waits
  unknown_words,       ///< words are sent, reduced or decoded where they are not
  written_after_sent,  ///< peers read words where they lie, so they must stay
  landing,             ///< a second operand of one peer arrives before the first was reduced
  contribution,        ///< a rank's codes are missing or merged twice
  weight,              ///< weights are not the numbers of ranks merged
  random_words,        ///< two roundings would use the same random word
  chain,               ///< the longest chain of reductions is not what `combines` says
  quantized,           ///< a value is not quantized exactly once on each rank
  dequantized,         ///< a value is not dequantized exactly once on each rank
  result,              ///< ranks end with different results
  norms,               ///< norms are taken twice, or a value is quantized without global ones
};
inline constexpr size_t kRuleCount = 14;

/** The first case of each rule that was broken. */
class Violations {
 public:
  void add(Rule rule, const std::string& text);
  bool has(Rule rule) const { return !texts_[static_cast<size_t>(rule)].empty(); }
  /** One line for each broken rule. */
  std::string text() const;

 private:
  std::array<std::string, kRuleCount> texts_;
};

/** What a rank sent, counted as it happened. */
struct Traffic {
  uint64_t messages = 0;
  uint64_t values = 0;       ///< whose codes were sent
  uint64_t norm_values = 0;  ///< whose norms were sent
};

class World {
 public:
  static constexpr uint32_t kWorldRanksMax = 192;

  World(const Schedule& schedule, const Shape& shape);

  /** Makes the next move of a rank; false if it has to wait or there is none. A move that breaks a
   *  rule counts as made, so that later rules are seen as well. */
  bool advance(uint32_t rank);

  /** To be called when no rank can move: ended everywhere, or a deadlock; checks what is left. */
  void conclude();

  const Violations& violations() const { return violations_; }
  const Traffic& sent_by(uint32_t rank) const { return ranks_[rank].sent; }
  const Shape& shape() const { return shape_; }

 private:
  using RankSet = std::bitset<kWorldRanksMax>;

  /** A value that words can have; equal indices mean equal bits. */
  struct Words {
    RankSet ranks;
    uint32_t chain = 0;
  };
  static constexpr int32_t kNoWords = -1;

  /** One rank's view of value_alignment values: the unit in which ranges are cut. */
  struct Cell {
    int32_t own = kNoWords;     ///< index of the words in this rank's memory
    int32_t result = kNoWords;  ///< index of the result received
    uint32_t result_origin = 0;
    bool frozen = false;  ///< own words have been sent or decoded
    bool landed = false;  ///< a transport that copies has put the result over the own words
    uint8_t quantized = 0;
    uint8_t dequantized = 0;
    RankSet normed;             ///< ranks whose norms are merged in those of this rank's memory
    bool norms_frozen = false;  ///< they have been sent
  };

  struct Message {
    Move move;
    std::vector<int32_t> words;   ///< one index per cell
    std::vector<RankSet> normed;  ///< the same for norms
  };

  struct Rank {
    MoveCursor cursor;
    Move move{};
    bool pending = false;
    std::vector<Cell> cells;
    std::vector<std::optional<Message>> operands;  ///< by peer
    std::vector<Move> sums;                        ///< begun
    size_t sums_awaited = 0;
    Traffic sent;
  };

  bool make(uint32_t rank, const Move& move);
  void quantize(uint32_t rank, const Move& move);
  void send(uint32_t rank, const Move& move);
  bool receive(uint32_t rank, const Move& move);
  void keep_operand(uint32_t rank, const Move& move, Message message);
  void keep_result(uint32_t rank, const Move& move, const Message& message);
  void take_norms(uint32_t rank, const Move& move);
  void merge_norms(uint32_t rank, const Move& move);
  void keep_norms(uint32_t rank, const Move& move, const Message& message);
  bool pack_words(uint32_t rank, const Move& move, Message* message);
  bool pack_norms(uint32_t rank, const Move& move, Message* message);
  void reduce(uint32_t rank, const Move& move);
  void reduce_many(uint32_t rank, const Move& move);
  void check_addend(uint32_t rank, const Move& move, uint32_t peer,
                    const std::vector<int32_t>& words);
  void add_all(uint32_t rank, const Move& move);
  bool await_sum(uint32_t rank, const Move& move);
  int32_t sum_at(uint64_t cell);
  void conclude_sums();
  void dequantize(uint32_t rank, const Move& move);

  bool check_range(uint32_t rank, const Move& move);
  const Message* operand(uint32_t rank, uint32_t peer, const Move& move);
  int32_t words_at(uint32_t rank, uint32_t origin, uint64_t cell) const;
  void check_write(uint32_t rank, const Move& move, uint64_t cell);
  void use_random_words(uint32_t draw, uint32_t rank, uint32_t hop, uint64_t cell);

  void conclude_messages();
  void conclude_values();
  void conclude_cell(uint32_t rank, uint64_t cell);
  void conclude_random_words();
  void break_rule(Rule rule, uint32_t rank, const Move& move, const std::string& what);

  uint64_t first_cell(const Move& move) const { return move.first_value / shape_.value_alignment; }
  uint64_t cell_count(uint64_t value_count) const;
  std::deque<Message>& wire(uint32_t from, uint32_t to) { return wires_[from * shape_.ranks + to]; }

  const Schedule& schedule_;
  Shape shape_;
  std::vector<Rank> ranks_;
  std::vector<std::deque<Message>> wires_;
  std::vector<Words> words_;
  std::map<uint64_t, int32_t> sums_;  ///< made by the transport, by cell
  std::vector<uint64_t> random_words_;
  Violations violations_;
};

/** In which order ranks move. Every one is legal; a schedule must survive all. */
enum class Turns {
  one_move_each,  ///< round and round
  greedy_up,      ///< rank 0 as far as it can, then rank 1, ..
  greedy_down,    ///< the last rank first
  random,         ///< random ranks, random numbers of moves
  starve_one,     ///< one rank, chosen by the seed, only when no other rank can move
};

/** Walks all ranks as far as they get; what was broken on the way. */
const Violations& walk(World* world, Turns turns, uint32_t seed);

}  // namespace gq

#endif
