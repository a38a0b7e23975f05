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

  /** The first exchange of a call, after the last call: its step, its norm if `takes_norm`, its
   *  control message. norms: null, or where norms of segments are that travel with it, though they
   *  are none of this call. */
  Status exchange(const CallOnStream& call, bool takes_norm, const SegmentNormPlaces* norms);
  /** The same in two parts, between which the caller takes the norms: they are 0 before. */
  Status begin_with_norms(const CallOnStream& call, const SegmentNormPlaces& norms);
  Status gather_with_norms(const CallOnStream& call);
  /** Gathers control messages with the number of the newest, of which a sparse call has two.
   *  `keep_norm`: the norm, or number of entries, is in the own message already. */
  Status gather(const CallOnStream& call, bool keep_norm);
  /** Opens the gate if all ranks agree, and merges their norms. Writes a difference to *found, for
   *  the host to read later. */
  Status compare(const Call& call, Disagreement* found, const MergeRankNormsArgs& segments = {});

  /** Brings the control messages of all ranks to pinned memory and waits for them; `what` is
   *  awaited. */
  Status read_controls(StreamHandle stream, const char* what);
  /** The agreed status of the control messages, or a failure to get them. `own` is this rank's
   *  refusal. */
  Status read_outcome(const CallOnStream& call, Status own, Status* outcome);

 private:
  Status begin(const CallOnStream& call);
  WriteHeaderArgs control_of(const CallOnStream& call, bool keep_norm) const;
  Status take_norm(const CallOnStream& call);

  StreamGroup& group_;
  const Scratch& scratch_;
  const StreamWorkspace& workspace_;
  const StepCounter& counter_;
  const Device& device_;
  /** Where the control messages of an exchange are: in the scratch, or each before norms of its
   *  rank. */
  struct Places {
    uint32_t* own;
    uint32_t* all;
    size_t stride_bytes;
  };
  Places in_scratch() const {
    return {scratch_.own_control(), scratch_.controls(), sizeof(ControlMessage)};
  }
  Places before(const SegmentNormPlaces& norms) const;

  Places places_ = {};
  EventHandle controls_copied_ = nullptr;  // to pinned memory
  bool norm_is_ready_ = false;             // its running words were cleared
};

}  // namespace gq

#endif
