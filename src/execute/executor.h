// Walks one rank's moves: a transport moves words, a stage reduces them, a failure stops it. Never
// waits.
#ifndef GQ_EXECUTE_EXECUTOR_H
#define GQ_EXECUTE_EXECUTOR_H

#include "src/execute/endpoint.h"
#include "src/execute/look_ahead.h"
#include "src/execute/pieces.h"
#include "src/execute/stage_arguments.h"
#include "src/plan/plan.h"

namespace gq {

class Executor {
 public:
  /** `norms` are the global norms where there are none of blocks: one for each segment of the call,
   *  or one. The arena is the endpoint's own. `quantized`: the codes of all values lie there
   *  already. */
  void begin(Endpoint& endpoint, const Call& call, const Plan& plan, unsigned char* arena,
             const float* norms, bool quantized);

  /** Makes moves until one has to wait for a peer (*done false) or all are made. In place, values
   * are written only after every word has arrived and left: a call that fails has not written. */
  Status advance(bool* done);

  /** Only dequantizes what is in the arenas once all moves are made: it uses no transport, so it
   *  cannot fail. */
  Status write_result();

  /** True if all moves are made and words are still leaving. */
  bool flushing() const { return flushing_; }
  /** The move that has to wait, for a sentence. */
  const Move& current() const { return move_; }
  /** The sum of the digests of what was dequantized. */
  uint64_t digest() const { return digest_; }
  /** Counts moves made, to see whether anything happens. */
  uint64_t moves_made() const { return moves_made_; }

 private:
  Status make(const Move& move, bool* made);
  Status send(const Move& move);
  Status receive(const Move& move, bool* made);
  Status add_all(const Move& move);
  Status merge_norms(const Move& move);
  void count_merged(const Move& move);

  using Stage = Status (Executor::*)(const Move& move, const Piece& piece);
  /** The stage that makes a move of this kind; null if none does. */
  Stage stage_of(MoveKind kind) const;
  /** One stage call for each segment that the move touches, or for each run of its groups. */
  Status on_pieces(const Move& move, Stage stage);
  Status on_groups(const Move& move);
  Status take_norms(const Move& move, const Piece& piece);
  Status quantize(const Move& move, const Piece& piece);
  Status reduce(const Move& move, const Piece& piece);
  Status reduce_many(const Move& move, const Piece& piece);
  Status add_values(const Move& move, const Piece& piece);
  Status dequantize(const Move& move, const Piece& piece);

  bool is_nontemporal(uint32_t bits, const Piece& piece) const;
  /** Puts the places of the operands of a piece into the endpoint's array. */
  void find_operands(const Move& move, const Piece& piece);
  void count_poisoned(const Move& move, const Piece& piece);

  /** Of the words of a message, which begin at `words`. */
  uint32_t checksum_of(const Message& message, const Move& move, const unsigned char* words) const;
  const unsigned char* operand(const Move& move, uint32_t peer) const;
  const unsigned char* result(const Move& move) const;
  bool next_move();

  Endpoint* endpoint_ = nullptr;
  const Call* call_ = nullptr;
  const Plan* plan_ = nullptr;
  unsigned char* arena_ = nullptr;
  StageArguments arguments_;
  bool quantized_ = false;
  MoveCursor cursor_;
  LookAhead look_ahead_;
  Move move_{};
  bool pending_ = false;  // move_ is still to be made
  bool flushing_ = false;
  uint64_t moves_made_ = 0;
  uint64_t digest_ = 0;
};

}  // namespace gq

#endif
