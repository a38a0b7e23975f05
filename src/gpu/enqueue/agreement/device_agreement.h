// How devices agree on a call: each sends its control message on the stream and compares those of
// all ranks there. The host reads them where it has to wait for the outcome.
#ifndef GQ_GPU_ENQUEUE_AGREEMENT_DEVICE_AGREEMENT_H
#define GQ_GPU_ENQUEUE_AGREEMENT_DEVICE_AGREEMENT_H

#include "src/gpu/enqueue/call_on_stream.h"
#include "src/gpu/enqueue/memory/stream_workspace.h"
#include "src/gpu/enqueue/step_counter.h"

namespace gq {

class DeviceAgreement {
 public:
  DeviceAgreement(StreamGroup* group, const Scratch* scratch, const StreamWorkspace* workspace,
                  const StepCounter* counter)
      : group_(*group),
        scratch_(*scratch),
        workspace_(*workspace),
        counter_(*counter),
        device_(group->device()) {}
  ~DeviceAgreement() { device_.end_event(controls_copied_); }
  DeviceAgreement(const DeviceAgreement&) = delete;
  DeviceAgreement& operator=(const DeviceAgreement&) = delete;

  Status open() { return device_.make_event(&controls_copied_); }

  /** Before the first exchange of a call, after the last call: its step, its norm if `takes_norm`,
   *  its control message. Norms of `norm_count` segments, which the caller takes next, are 0. */
  Status begin(const CallOnStream& call, bool takes_norm, size_t norm_count);
  /** The exchange. */
  Status gather(const CallOnStream& call);
  /** The second exchange of a sparse call, whose number is the newest: the number of its entries is
   *  in the own control message already. */
  Status exchange_again(const CallOnStream& call);
  /** Opens the gate if all ranks agree, and merges their norms. Writes a difference to *found, for
   *  the host to read later. */
  Status compare(const Call& call, Disagreement* found, const MergeRankNormsArgs& segments);

  /** Brings the control messages of all ranks to pinned memory and waits for them; `what` is
   *  awaited. */
  Status read_controls(StreamHandle stream, const char* what);
  /** The agreed status of the control messages, or a failure to get them. `own` is this rank's
   *  refusal. */
  Status read_outcome(const CallOnStream& call, Status own, Status* outcome);

 private:
  WriteHeaderArgs control_of(const CallOnStream& call, bool keep_norm) const;
  Status take_norm(const CallOnStream& call);

  StreamGroup& group_;
  const Scratch& scratch_;
  const StreamWorkspace& workspace_;
  const StepCounter& counter_;
  const Device& device_;
  EventHandle controls_copied_ = nullptr;  // to pinned memory
  bool scratch_is_clear_ = false;
};

}  // namespace gq

#endif
