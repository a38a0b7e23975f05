// The arena of calls on streams. Behind what a plan lays out there is workspace of the stages of
// sparse entries and, at the end, of norm stages.
#ifndef GQ_GPU_ENQUEUE_MEMORY_STREAM_WORKSPACE_H
#define GQ_GPU_ENQUEUE_MEMORY_STREAM_WORKSPACE_H

#include <vector>

#include "src/gpu/enqueue/stream_group.h"
#include "src/plan/plan.h"

namespace gq {

/** It never shrinks. Memory that a graph uses is never moved or freed. */
class StreamWorkspace {
 public:
  explicit StreamWorkspace(StreamGroup* group) : group_(*group) {}

  /** Long enough for calls of this plan. The host waits for earlier calls where it grows. A rank
   *  that refuses a call for want of memory still answers peers in the memory that it has. */
  Status reserve(const Plan& plan);

  unsigned char* arena() const { return arena_.data(); }
  void* norm_sums(const Plan& plan) const;
  void* sparse(const Plan& plan) const;

  /** A graph, which may be replayed at any time, uses the arena as it is now. */
  void use_in_graphs() { in_graphs_ = true; }
  bool is_in_graphs() const { return in_graphs_; }

  /** Peers may still read the arena. */
  void transfer_ownership() { group_.transport().memory().transfer_ownership(&arena_); }
  /** The device may still use all of it: it is never freed. */
  void forget();

 private:
  Status keep_arena();

  StreamGroup& group_;
  bool in_graphs_ = false;
  DeviceBuffer arena_;
  std::vector<DeviceBuffer> earlier_arenas_;  // that graphs use
};

}  // namespace gq

#endif
