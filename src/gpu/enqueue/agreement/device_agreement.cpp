// What each exchange of control messages enqueues, and the outcome that the host reads of it.
#include "src/gpu/enqueue/agreement/device_agreement.h"

#include <string.h>

#include "src/call/agreement.h"
#include "src/execute/stage_arguments.h"
#include "src/gpu/device/time_range.h"
#include "src/gpu/enqueue/agreement/disagreement.h"

namespace gq {
namespace {

/** Where an allreduce has its norm, calls on segments have the hash of their lengths. */
constexpr uint32_t kHashWords = 3u << kAgreementNormWord;

}  // namespace

Status DeviceAgreement::exchange(const CallOnStream& call, bool takes_norm,
                                 const SegmentNormPlaces* norms) {
  const TimeRange range("gqsgd.headers");
  places_ = norms == nullptr ? in_scratch() : before(*norms);
  GQ_TRY(begin(call));
  if (takes_norm) GQ_TRY(take_norm(call));
  GQ_TRY(Status(device_.agreement->write_header(control_of(call, takes_norm))));
  return gather_with_norms(call);
}

Status DeviceAgreement::begin(const CallOnStream& call) {
  const StreamHandle stream = call.call.stream;
  GQ_TRY(group_.follow_last_call(stream, call.captured));
  return StepCounter::takes_on_device(call.call) ? counter_.enqueue(stream) : Status();
}

DeviceAgreement::Places DeviceAgreement::before(const SegmentNormPlaces& norms) const {
  static_assert(sizeof(ControlMessage) <= Layout::kBeforeNormsMax);
  const auto control_at = [&](size_t norms_bytes) {
    return reinterpret_cast<uint32_t*>(workspace_.arena() + norms_bytes - sizeof(ControlMessage));
  };
  return {control_at(norms.own_bytes), control_at(norms.all_bytes), norms.stride_bytes};
}

Status DeviceAgreement::begin_with_norms(const CallOnStream& call, const SegmentNormPlaces& norms) {
  places_ = before(norms);
  GQ_TRY(begin(call));
  WriteHeaderArgs args = control_of(call, false);
  args.cleared = reinterpret_cast<uint64_t*>(workspace_.arena() + norms.own_bytes);
  args.cleared_count = (norms.stride_bytes - sizeof(ControlMessage)) / sizeof(uint64_t);
  return Status(device_.agreement->write_header(args));
}

Status DeviceAgreement::gather_with_norms(const CallOnStream& call) {
  return group_.transport().gather(places_.own, places_.all, places_.stride_bytes,
                                   call.call.stream);
}

/** The norm is written directly into the control message that it travels in. */
Status DeviceAgreement::take_norm(const CallOnStream& call) {
  const Call& own = call.call;
  const StageArguments arguments(group_.endpoint(), own, call.plan(), workspace_.arena(), nullptr);
  const Range all{0, static_cast<size_t>(own.value_count)};
  NormArgs args = arguments.norm(all, own.send, places_.own + kAgreementNormWord);
  args.workspace = workspace_.norm_sums(call.plan());
  args.running = scratch_.running_norm();
  if (!norm_is_ready_) {
    GQ_TRY(device_.clear(args.running, 2 * sizeof *args.running, own.stream));
    norm_is_ready_ = true;
  }
  return Status(device_.stages->norm(args));
}

Status DeviceAgreement::gather(const CallOnStream& call, bool keep_norm) {
  places_ = in_scratch();
  GQ_TRY(Status(device_.agreement->write_header(control_of(call, keep_norm))));
  return gather_with_norms(call);
}

WriteHeaderArgs DeviceAgreement::control_of(const CallOnStream& call, bool keep_norm) const {
  WriteHeaderArgs args{};
  memcpy(args.words, call.control.words, sizeof args.words);
  args.words[kControlSequence] = static_cast<uint32_t>(group_.endpoint().sequence);
  if (call.speculative) args.words[kControlSequence] |= kControlSpeculative;
  if (call.captured) args.words[kControlSequence] |= kControlInGraph;
  args.step_at = call.call.step_at;
  args.step_word = kControlStep;
  args.index_word = kControlIndex;
  args.status_word = kControlStatus;
  args.keep_norm = keep_norm;
  args.header = places_.own;
  args.stream = call.call.stream;
  return args;
}

Status DeviceAgreement::compare(const Call& call, Disagreement* found,
                                const MergeRankNormsArgs& segments) {
  AgreeArgs args{};
  args.headers = places_.all;
  args.stride_words = places_.stride_bytes / sizeof(uint32_t);
  args.segments = segments;
  args.ranks = group_.endpoint().size();
  args.compared = kComparedWords | (call.segments != nullptr ? kHashWords : 0);
  args.status_word = kControlStatus;
  args.q = call.format.q;
  args.p = call.format.p;
  args.norm = scratch_.norm();
  args.gate = scratch_.gate();
  args.disagreement = found;
  args.stream = call.stream;
  return Status(device_.agreement->agree(args));
}

Status DeviceAgreement::read_controls(StreamHandle stream, const char* what) {
  const bool together = places_.stride_bytes == sizeof(ControlMessage);
  const uint32_t copies = together ? 1 : group_.endpoint().size();
  for (uint32_t rank = 0; rank < copies; ++rank) {
    const auto* const from =
        reinterpret_cast<const unsigned char*>(places_.all) + rank * places_.stride_bytes;
    GQ_TRY(device_.copy(scratch_.pinned_controls() + rank, from,
                        scratch_.controls_bytes() / copies, stream));
  }
  GQ_TRY(device_.record(controls_copied_, stream));
  return group_.wait_on_host(controls_copied_, what);
}

Status DeviceAgreement::read_outcome(const CallOnStream& call, Status own, Status* outcome) {
  const TimeRange range("gqsgd.await_headers");
  GQ_TRY(read_controls(call.call.stream, "control messages of the other ranks"));
  Endpoint& endpoint = group_.endpoint();
  const ControlMessage* const controls = scratch_.pinned_controls();
  Agreement agreement;
  agreement.begin(call.call);
  agreement.read(controls, endpoint.size());
  const ControlMessage& own_control = controls[endpoint.rank()];
  const bool by_device = own.ok() && own_control.words[kControlStatus] != GQSGD_OK;
  const Status refused = by_device ? index_too_large(endpoint, endpoint.sequence) : own;
  *outcome = agreement.outcome(endpoint, refused);
  return Status();
}

}  // namespace gq
