// Sparse entries on a stream (docs/FORMAT.md, section 14): the host reads the entry counts of all
// ranks from a second control message, which the device fills in, and enqueues the exchange of the
// entries where they are few.
#ifndef GQ_GPU_ENQUEUE_STREAM_SPARSE_ENTRIES_H
#define GQ_GPU_ENQUEUE_STREAM_SPARSE_ENTRIES_H

#include <vector>

#include "src/execute/stage_arguments.h"
#include "src/gpu/enqueue/agreement/device_agreement.h"

namespace gq {

class StreamSparseEntries {
 public:
  StreamSparseEntries(StreamGroup* group, const Scratch* scratch, const StreamWorkspace* workspace,
                      DeviceAgreement* agreement)
      : group_(*group), scratch_(*scratch), workspace_(*workspace), agreement_(*agreement) {}

  /** Nothing may fail for want of memory once ranks have agreed on a call of this plan. */
  Status reserve(const Plan& plan);

  /** Ranks have agreed on the call and have its norm. Encodes the whole call and waits for the
   *  counts of all ranks; *few if entries are to be sent, which are selected then. */
  Status encode(const CallOnStream& call, bool* few);
  /** Entries travel. */
  Status exchange(const CallOnStream& call);
  /** Values, if the gate is open by then. */
  Status add(const CallOnStream& call);

 private:
  Status count(const CallOnStream& call) const;
  Status gather_counts(const CallOnStream& call);
  Status read_counts(uint64_t* largest);
  Status check_count(uint32_t rank) const;
  Status select(const CallOnStream& call) const;
  StageArguments arguments_of(const CallOnStream& call) const {
    return {group_.endpoint(), call.call, call.plan(), workspace_.arena(), scratch_.norm()};
  }

  StreamGroup& group_;
  const Scratch& scratch_;
  const StreamWorkspace& workspace_;
  DeviceAgreement& agreement_;
  std::vector<Transfer> transfers_;
};

}  // namespace gq

#endif
