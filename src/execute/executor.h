// Walks one rank's moves: a transport moves words, a stage reduces them, a failure stops it. Never
// waits.
#ifndef GQ_EXECUTE_EXECUTOR_H
#define GQ_EXECUTE_EXECUTOR_H

#include "src/execute/endpoint.h"
#include "src/plan/plan.h"

namespace gq {

class Executor {
 public:
  /** `norm` is the global norm of the call, if it is one block; the arena is the endpoint's own.
   *  `quantized`: the codes of all values lie there already. */
  void begin(Endpoint& endpoint, const Call& call, const Plan& plan, unsigned char* arena,
             float norm, bool quantized);

  /** Makes moves until one has to wait for a peer (*done false) or all are made. In place, values
   * are written only after every word has arrived, so that a failure before leaves them as they
   * were. */
  Status advance(bool* done);

  /** The move that has to wait, for a sentence. */
  const Move& current() const { return move_; }
  /** Counts moves made, to see whether anything happens. */
  uint64_t moves_made() const { return moves_made_; }

 private:
  Status make(const Move& move, bool* made);
  Status receive(const Move& move, bool* made);
  Status take_norms(const Move& move);
  Status merge_norms(const Move& move);
  Status quantize(const Move& move);
  Status reduce(const Move& move);
  Status reduce_many(const Move& move);
  Status dequantize(const Move& move);

  void count_poisoned(const Move& move);

  Message message_of(const Move& move) const;
  RandomSite site_of(const Move& move) const;
  unsigned char* own(Content content, const Move& move) const;
  uint32_t* own_words(const Move& move) const;
  uint16_t* own_norms(const Move& move) const;
  NormView norms_of(const Move& move) const;
  bool next_move();

  Endpoint* endpoint_ = nullptr;
  const Call* call_ = nullptr;
  const Plan* plan_ = nullptr;
  unsigned char* arena_ = nullptr;
  float norm_ = 0;
  bool quantized_ = false;
  MoveCursor cursor_;
  Move move_{};
  bool pending_ = false;     // move_ is still to be made
  bool committing_ = false;  // in place: the second walk, which only dequantizes
  uint64_t moves_made_ = 0;
};

}  // namespace gq

#endif
