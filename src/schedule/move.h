// A schedule is a sequence of moves per rank. This file defines a move, and the interface that
// yields a schedule's moves one after the other; it knows no transport and no arithmetic.
#ifndef GQ_SCHEDULE_MOVE_H
#define GQ_SCHEDULE_MOVE_H

#include <stdint.h>

namespace gq {

enum class MoveKind : uint8_t {
  norm,             ///< this rank's values of the range get norms, one per block
  merge_norms,      ///< the operand from `peer` is merged into this rank's norms
  quantize,         ///< this rank's values of the range become codes
  send,             ///< the range's words, as they lie at `origin`, go to `peer`
  receive_operand,  ///< words to be reduced here come from `peer`
  receive_result,   ///< final words come from `peer`; they were made by `origin`
  reduce,           ///< the operand from `peer` is reduced into this rank's words
  reduce_many,      ///< all ranks' operands, this rank's own included, become the result here
  add_all,          ///< the transport begins to add the words of all ranks, where each has its own
  await_sum,        ///< that sum lies in place of this rank's words
  dequantize,       ///< the final words made by `origin` become values; no later move writes them
};

/** What the words of a move are. */
enum class Content : uint8_t {
  codes,  ///< what quantize and reduce make
  sums,   ///< what reduce_many makes: wide sums, encoded again
  norms,  ///< norms of blocks, one rank's or merged
};

/** Whose words a reduce_many adds. */
enum class Addends : uint8_t {
  ranks,  ///< all ranks'
  node,   ///< those of the ranks of this node
  nodes,  ///< what the owners of the part on all nodes made of them, each counting all its ranks
};

/** One move on one range. Between two ranks, messages arrive in the order in which they are sent,
 *  and both ends make them in the same order with the same ranges. No words are written after they
 *  have been sent, except by receive_result of the same range. */
struct Move {
  MoveKind kind;
  Content content = Content::codes;
  uint32_t peer = 0;
  uint32_t origin = 0;  ///< rank in whose memory the words of the first value were made
  /** send, receive_result: not 0 if the range spans results of several owners; then the words of
   *  value v were made by rank v / origin_value_count. Other moves have one origin. */
  uint64_t origin_value_count = 0;
  uint64_t first_value = 0;
  uint64_t value_count = 0;          ///< at least 1
  uint32_t hop = 0;                  ///< reduce, reduce_many: number of the reduction
  uint32_t weight_a = 0;             ///< reduce: ranks merged in the operand from `peer`
  uint32_t weight_b = 0;             ///< reduce: ranks merged in this rank's words
  Addends addends = Addends::ranks;  ///< reduce_many
  uint32_t part = 0;                 ///< reduce_many of nodes: the part that these owners add
};

/** Consecutive values of a call. */
struct Part {
  uint64_t first_value;
  uint64_t value_count;
};

class Nodes;

/** The arguments of a schedule. chunk_value_count is a multiple of value_alignment. */
struct Shape {
  uint32_t ranks = 1;
  uint64_t value_count = 0;
  uint64_t value_alignment = 32;  ///< shards are rounded up to a multiple of this
  uint64_t chunk_value_count = 65536;
  bool block_norms = false;  ///< norms of blocks are exchanged before their values are quantized
  uint32_t pipeline_depth =
      1;  ///< schedules in steps (steps.h): from one phase of a chunk to the next
  /** Not null: the parts that ranks own are these, as callers cut them, and not equal shards. Each
   *  begins at a multiple of value_alignment. */
  const Part* slices = nullptr;
  uint64_t slice_value_count_max = 0;
  const Nodes* nodes = nullptr;  ///< who shares a node, in the hierarchical schedule; not flat
  /** What ranks of a node add up to is encoded as results are and travels as sums, also where a
   *  node has one rank. Else it is codes like those it was made of. */
  bool encodes_nodes_down = false;
};

/** Part j of `part_count` of a call (docs/FORMAT.md, section 10). May be empty. */
Part part_of(const Shape& shape, uint32_t part_count, uint32_t part);

/** Values of every part but the last ones, which may be shorter or empty. */
uint64_t shard_value_count(const Shape& shape, uint32_t part_count);

/** Parts that sums are made in: one for each rank, or nodes times parts of a node. */
uint32_t shard_count(const Shape& shape);

/** Operands of a reduce_many of `rank`, and the ranks that sent them, in the order in which they
 * are added; its own is one of them. */
uint32_t operand_count(const Shape& shape, uint32_t rank, const Move& move);
uint32_t operand_rank(const Shape& shape, uint32_t rank, const Move& move, uint32_t k);

/** One range of a rank's moves and how many moves each chunk of it takes. */
struct Round {
  uint64_t first_value = 0;
  uint64_t value_count = 0;        ///< 0: nothing to do
  uint32_t move_count = 0;         ///< moves for each chunk of the range
  bool in_one_piece = false;       ///< the moves are made once for the whole range, however long
  uint64_t idle_rounds_after = 0;  ///< rounds right after this one that have nothing to do
};

/** A named schedule: pure functions, no state, no I/O. Round r covers one range; for each chunk of
 *  it, moves 0 .. move_count - 1 are made in order. `move` leaves the range to the cursor. */
struct Schedule {
  const char* name;
  int32_t id;                                   ///< GQSGD_SCHEDULE_*
  uint32_t (*reduction_depth)(uint32_t ranks);  ///< longest chain of reductions in code form
  uint64_t (*round_count)(const Shape& shape, uint32_t rank);
  Round (*round)(const Shape& shape, uint32_t rank, uint64_t round);
  Move (*move)(const Shape& shape, uint32_t rank, uint64_t round, uint32_t index);
  bool weaves_norms = false;  ///< has the exchange of norms among its own moves
  bool adds_wide = false;     ///< owners add all operands wide and encode the sums (reduce_many)
  bool sends_sparse_entries = false;  ///< the moves are made only where sparse entries would take
                                      ///< more bytes
  bool adds_natively = false;         ///< sums are the transport's own (add_all)
};

/** Those of the collectives whose parts are slices (slices.cpp); no caller can select them. */
extern const Schedule kReduceScatter;
extern const Schedule kAllgather;

/** nullptr for an id that is not a built schedule (AUTO included). */
const Schedule* schedule_by_id(int32_t id);

/** Walks one rank's moves; a value of a few words, so that starting a call allocates nothing. The
 *  exchange of block norms comes before a schedule that does not weave it in. */
class MoveCursor {
 public:
  MoveCursor() = default;
  MoveCursor(const Schedule* schedule, const Shape& shape, uint32_t rank);

  /** The next move; false when there are none left. */
  bool next(Move* move);

 private:
  void begin(const Schedule* schedule);
  void enter_round();
  void take_one_origin(Move* move);

  const Schedule* schedule_ = nullptr;
  const Schedule* next_schedule_ = nullptr;
  Shape shape_;
  uint32_t rank_ = 0;
  uint64_t round_ = 0;
  uint64_t round_count_ = 0;
  Round left_;          // what is left of the round, from the chunk at hand on
  uint32_t index_ = 0;  // the next move of that chunk
  Move split_{};        // what is left of a move over several origins
};

}  // namespace gq

#endif
