// The functions from which schedules are made: moves by kind, the n-th move of a round, chunks of a
// part. For the files of this folder; code that walks a schedule needs only move.h.
#ifndef GQ_SCHEDULE_MAKE_H
#define GQ_SCHEDULE_MAKE_H

#include <algorithm>
#include <bit>

#include "src/schedule/move.h"

namespace gq {

extern const Schedule kRing;
extern const Schedule kTree;
extern const Schedule kButterfly;
extern const Schedule kDirect;
extern const Schedule kHierarchical;
extern const Schedule kSparse;
extern const Schedule kNative;

inline uint64_t chunk_count_of(uint64_t value_count, const Shape& shape) {
  return value_count / shape.chunk_value_count + (value_count % shape.chunk_value_count != 0);
}

/** Chunk `chunk` of a part, where chunk * chunk_value_count may lie beyond its end: then empty. */
inline Part chunk_of(const Part& part, uint64_t chunk, const Shape& shape) {
  const uint64_t skipped = std::min(chunk * shape.chunk_value_count, part.value_count);
  return {part.first_value + skipped,
          std::min(part.value_count - skipped, shape.chunk_value_count)};
}

inline uint32_t ceil_log2(uint32_t ranks) {
  return static_cast<uint32_t>(std::bit_width(ranks - 1));
}

/** The rank `distance` (at most `ranks`) places before or after `rank`, round the ring. Without a
 *  division: short calls walk their moves in a good part of their time. */
inline uint32_t rank_after(uint32_t rank, uint64_t distance, uint32_t ranks) {
  const uint64_t place = rank + distance;
  return static_cast<uint32_t>(place < ranks ? place : place - ranks);
}
inline uint32_t rank_before(uint32_t rank, uint64_t distance, uint32_t ranks) {
  return rank_after(rank, ranks - distance, ranks);
}

inline Move take_norms_move() { return {.kind = MoveKind::norm}; }

inline Move merge_norms_move(uint32_t peer) {
  return {.kind = MoveKind::merge_norms, .peer = peer, .origin = peer};
}

inline Move quantize_move() { return {.kind = MoveKind::quantize}; }

inline Move send_move(uint32_t peer, uint32_t origin) {
  return {.kind = MoveKind::send, .peer = peer, .origin = origin};
}

inline Move receive_operand_move(uint32_t peer) {
  return {.kind = MoveKind::receive_operand, .peer = peer, .origin = peer};
}

inline Move receive_result_move(uint32_t peer, uint32_t origin) {
  return {.kind = MoveKind::receive_result, .peer = peer, .origin = origin};
}

inline Move reduce_move(uint32_t peer, uint32_t hop, uint32_t weight_a, uint32_t weight_b) {
  return {.kind = MoveKind::reduce,
          .peer = peer,
          .origin = peer,
          .hop = hop,
          .weight_a = weight_a,
          .weight_b = weight_b};
}

inline Move reduce_many_move() { return {.kind = MoveKind::reduce_many, .hop = 1}; }

/** Of a hierarchy: sums of nodes are encoded at hop 1, sums of those at hop 2. */
inline Move reduce_many_of(Addends addends, uint32_t part) {
  return {.kind = MoveKind::reduce_many,
          .hop = addends == Addends::node ? 1u : 2u,
          .addends = addends,
          .part = part};
}
inline Move add_all_move() { return {.kind = MoveKind::add_all}; }

inline Move await_sum_move() { return {.kind = MoveKind::await_sum}; }

inline Move dequantize_move(uint32_t origin) {
  return {.kind = MoveKind::dequantize, .origin = origin};
}

/** The same move on words of another content. */
inline Move of(Content content, Move move) {
  move.content = content;
  return move;
}

/** The same move on results that each part's owner made: the cursor finds the origins. */
inline Move of_owners(Move move, uint64_t shard) {
  move.origin_value_count = shard;
  return move;
}

/** A round is written as a sequence of moves; this keeps its length and one move. */
class NthMove {
 public:
  explicit NthMove(uint32_t index = 0) : index_(index) {}

  void add(const Move& move) {
    if (count_++ == index_) move_ = move;
  }
  uint32_t count() const { return count_; }
  const Move& move() const { return move_; }

 private:
  uint32_t index_;
  uint32_t count_ = 0;
  Move move_{};
};

}  // namespace gq

#endif
