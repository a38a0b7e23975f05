// What an allreduce by one kernel of each rank (kernels/fused.h) needs of a transport: that kernels
// of all ranks run at the same time, and know each other's memory.
#ifndef GQ_TRANSPORT_STREAM_FUSED_KERNELS_H
#define GQ_TRANSPORT_STREAM_FUSED_KERNELS_H

#include "src/gpu/device/device.h"

namespace gq {

class FusedKernels {
 public:
  virtual ~FusedKernels() = default;

  /** Memory for calls to come, so that they need no more. */
  virtual Status reserve() = 0;
  /** Before this rank's control message of call `sequence`: memory is there, and what is on
   * `stream` now comes before the kernels of all ranks. */
  virtual Status prepare(uint64_t sequence, StreamHandle stream) = 0;
  /** After all control messages have come: how many blocks the kernel of each rank may have, the
   * same on all ranks; 0 if they could not all run at once, or do not reach each other. */
  virtual Status block_count(uint32_t* count) = 0;
  /** Fills in what ranks know of each other and enqueues this rank's kernel, behind its segments,
   *  if they are many, and the step that is taken for it if `step` is not null; what `stream` gets
   *  from now on comes behind it. Waits on the host until all ranks have got so far. */
  virtual Status launch(uint64_t sequence, FusedArgs* args, TakeStepArgs* step,
                        StreamHandle stream) = 0;
  /** Whether graphs may have kernels of this group, which its calls have had. */
  virtual Status check_graphs() = 0;
  /** The kernel becomes part of the graph that `stream` is captured for; waits for no rank. */
  virtual Status capture(FusedArgs* args, StreamHandle stream) = 0;
  /** What made kernels leave after their call had returned; the group is broken by then. */
  virtual Status late_failure() = 0;
  /** The same where it was their deadline; from any thread. */
  virtual Status too_late() = 0;
};

}  // namespace gq

#endif
