// An allgather of 8 bytes for each segment, and the merge.
#include "src/execute/segment_norms.h"

#include <inttypes.h>

#include <algorithm>

#include "src/execute/split_stages.h"
#include "src/execute/stage_arguments.h"
#include "src/transport/culprit.h"

namespace gq {

void SegmentNorms::begin(Endpoint& endpoint, const Call& call, const Plan& plan,
                         unsigned char* arena) {
  *this = SegmentNorms();
  endpoint_ = &endpoint;
  call_ = &call;
  plan_ = &plan;
  arena_ = arena;
}

Status SegmentNorms::advance(bool* done) {
  *done = false;
  const bool has_segments = !call_->segments->parts.empty();
  const uint32_t rank = endpoint_->rank(), ranks = has_segments ? endpoint_->size() : 1;
  if (!sent_) {
    GQ_TRY(take());
    for (uint32_t distance = 1; distance < ranks; ++distance) {
      const uint32_t peer = (rank + ranks - distance) % ranks;
      GQ_TRY(endpoint_->messages.expect(message_of(peer, peer)));
    }
    for (uint32_t distance = 1; distance < ranks; ++distance) {
      GQ_TRY(endpoint_->messages.send_words(message_of((rank + distance) % ranks, rank), own()));
    }
    sent_ = true;
    steps_made_ += 1;
  }
  for (; received_ + 1 < ranks; ++received_, ++steps_made_) {
    const unsigned char* words = nullptr;
    const uint64_t count = std::max<uint64_t>(call_->value_count, 1);  // segments may all be empty
    GQ_TRY(endpoint_->messages.receive_words(message_of(awaited_rank(), awaited_rank()),
                                             {"norms of segments", 0, count, count}, &words));
    if (words == nullptr) return Status();
  }
  if (!endpoint_->messages.found()) merge();
  *done = true;
  return Status();
}

NormWords* SegmentNorms::own() const {
  return reinterpret_cast<NormWords*>(arena_ + plan_->layout.segment_norms_bytes());
}

const float* SegmentNorms::norms() const {
  return reinterpret_cast<const float*>(arena_ + plan_->layout.global_norms_bytes());
}

Status SegmentNorms::take() {
  const StageArguments arguments(*endpoint_, *call_, *plan_, arena_, norms());
  const GlobalNorm merged(call_->format.q, call_->format.p);
  for (size_t k = 0; k < call_->segments->parts.size(); ++k) {
    NormWords stage_out;
    GQ_TRY(run_stage(*endpoint_, arguments.segment_norm(k, &stage_out)));
    own()[k] = merged.to_wire(stage_out);
  }
  return Status();
}

void SegmentNorms::merge() {
  float* norms = reinterpret_cast<float*>(arena_ + plan_->layout.global_norms_bytes());
  for (size_t k = 0; k < call_->segments->parts.size(); ++k) {
    GlobalNorm merged(call_->format.q, call_->format.p);
    for (uint32_t rank = 0; rank < endpoint_->size(); ++rank) {
      const NormWords* words =
          rank == endpoint_->rank()
              ? own()
              : reinterpret_cast<const NormWords*>(endpoint_->host->view(message_of(rank, rank)));
      merged.merge(words[k]);
    }
    norms[k] = merged.result();
    if (!is_finite(norms[k])) endpoint_->nonfinite_blocks += 1;
  }
}

uint32_t SegmentNorms::awaited_rank() const {
  const uint32_t ranks = endpoint_->size();
  return (endpoint_->rank() + ranks - 1 - received_) % ranks;
}

Message SegmentNorms::message_of(uint32_t peer, uint32_t origin) const {
  const Layout& layout = plan_->layout;
  return Message{peer,
                 origin,
                 origin,
                 layout.segment_norms_bytes(),
                 call_->segments->parts.size() * sizeof(NormWords),
                 origin == endpoint_->rank() ? layout.segment_norms_bytes()
                                             : layout.segment_norms_landing_bytes(origin)};
}

Status SegmentNorms::timed_out(int64_t waited_ms, uint32_t* culprit) const {
  const Culprit found(*endpoint_->host, awaited_rank(), kStoppedOrSlow);
  *culprit = found.rank();
  return fail(GQSGD_TIMEOUT,
              "call %" PRIu64 ", %s: rank %u waited %" PRId64
              " ms for the norms of rank %u; %s (timeout_ms sets the limit)",
              endpoint_->sequence, operation_name(*call_), endpoint_->rank(), waited_ms,
              awaited_rank(), found.clause());
}

}  // namespace gq
