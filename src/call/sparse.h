// The sparse schedule: ranks send each other their codes that are not zero, with their places,
// where that takes fewer bytes than the moves of direct. Never waits.
#ifndef GQ_CALL_SPARSE_H
#define GQ_CALL_SPARSE_H

#include "src/execute/endpoint.h"
#include "src/execute/stage_arguments.h"
#include "src/plan/plan.h"
#include "src/transport/control_message.h"

namespace gq {

class SparseEntries {
 public:
  enum class Outcome { waiting, added, too_long };

  /** `norm` is the global norm; the arena is the endpoint's own. */
  void begin(Endpoint& endpoint, const Call& call, const Plan& plan, unsigned char* arena,
             float norm);

  /** Advances until it has to wait for a peer, until the entries are added, or until all ranks know
   *  that one has too many entries: then the codes of the whole call are ready for the moves.
   *  Values are written only after all entries have been sent and received: a call that fails has
   *  not written. */
  Status advance(Outcome* outcome);

  /** True if all entries have arrived and the own ones are still being sent. */
  bool flushing() const { return phase_ == Phase::flush; }

  /** TIMEOUT before that: what was awaited, from which rank (*culprit). */
  Status timed_out(int64_t waited_ms, uint32_t* culprit) const;

  /** Of the entries of all ranks; after Outcome::added. */
  uint64_t digest() const { return digest_; }

  /** Changes whenever something has happened. */
  uint64_t steps_made() const { return steps_made_; }

 private:
  enum class Phase { encode, count, receive, flush };

  Status encode();
  Status encode(Range chunk);
  Status send_count();
  Status read_counts(bool* all);
  Status end_without_count();
  Status check_control(uint32_t rank, const ControlMessage& control) const;
  Status expect_entries();
  Status send_entries();
  Status receive_entries(bool* all);
  Status add();
  Status check_entries(uint32_t rank) const;

  Range chunk_at(uint64_t first_value) const;
  StageArguments arguments() const;
  uint32_t awaited_rank() const;
  Message message_of(uint32_t peer, uint32_t origin) const;

  Endpoint* endpoint_ = nullptr;
  const Call* call_ = nullptr;
  const Plan* plan_ = nullptr;
  unsigned char* arena_ = nullptr;
  float norm_ = 0;
  Phase phase_ = Phase::encode;
  uint64_t skipped_ = 0;
  uint64_t entry_count_ = 0;  // of this rank's entries
  ControlMessage control_;    // the own second one
  uint32_t counts_read_ = 0;
  uint64_t longest_ = 0;
  bool lacks_count_ = false;  // of a rank whose second control message was changed
  uint32_t ranks_received_ = 0;
  uint64_t steps_made_ = 0;
  uint64_t digest_ = 0;
};

}  // namespace gq

#endif
