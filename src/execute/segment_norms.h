// One norm for each segment of a call: taken, sent to all, merged by each rank for itself in rank
// order (docs/FORMAT.md, section 15). For formats without norms of blocks.
#ifndef GQ_EXECUTE_SEGMENT_NORMS_H
#define GQ_EXECUTE_SEGMENT_NORMS_H

#include "kernels/codec/global_norm.h"
#include "src/execute/endpoint.h"

namespace gq {

class SegmentNorms {
 public:
  void begin(Endpoint& endpoint, const Call& call, const Plan& plan, unsigned char* arena);

  /** Advances until it has to wait for a peer (*done false), or norms() are there. */
  Status advance(bool* done);

  /** The global norms, one for each segment, in the arena. */
  const float* norms() const;

  /** TIMEOUT: whose norms were awaited (*culprit). */
  Status timed_out(int64_t waited_ms, uint32_t* culprit) const;

  uint64_t steps_made() const { return steps_made_; }

 private:
  Status take();
  void merge();
  uint32_t awaited_rank() const;
  Message message_of(uint32_t peer, uint32_t origin) const;
  NormWords* own() const;

  Endpoint* endpoint_ = nullptr;
  const Call* call_ = nullptr;
  const Plan* plan_ = nullptr;
  unsigned char* arena_ = nullptr;
  bool sent_ = false;
  uint32_t received_ = 0;
  uint64_t steps_made_ = 0;
};

}  // namespace gq

#endif
