// What each exchange of control messages enqueues, and the outcome that the host reads of it.
#include "src/gpu/enqueue/agreement/device_agreement.h"

#include <string.h>

#include "src/call/agreement.h"
#include "src/execute/stage_arguments.h"
#include "src/gpu/device/time_range.h"
#include "src/gpu/enqueue/agreement/disagreement.h"

namespace gq {

Status DeviceAgreement::begin(const CallOnStream& call, bool takes_norm, size_t norm_count) {
  const StreamHandle stream = call.call.stream;
  GQ_TRY(group_.follow_last_call(stream, call.captured));
  if (!scratch_is_clear_) {
    GQ_TRY(device_.clear(scratch_.first_words(), scratch_.first_words_bytes(), stream));
    scratch_is_clear_ = true;
  }
  if (StepCounter::takes_on_device(call.call)) GQ_TRY(counter_.enqueue(stream));
  if (takes_norm) GQ_TRY(take_norm(call));
  WriteHeaderArgs args = control_of(call, takes_norm);
  args.cleared = reinterpret_cast<uint64_t*>(scratch_.controls().own + kControlWordCount);
  args.cleared_count = norm_count;
  return Status(device_.agreement->write_header(args));
}

Status DeviceAgreement::gather(const CallOnStream& call) {
  const ControlPlaces controls = scratch_.controls();
  return group_.transport().gather(controls.own, controls.all, controls.stride_bytes,
                                   call.call.stream);
}

/** The norm is written directly into the control message that it travels in. */
Status DeviceAgreement::take_norm(const CallOnStream& call) {
  const Call& own = call.call;
  const StageArguments arguments(group_.endpoint(), own, call.plan(), workspace_.arena(), nullptr);
  const Range all{0, static_cast<size_t>(own.value_count)};
  NormArgs args = arguments.norm(all, own.send, scratch_.own_norm());
  args.workspace = workspace_.norm_sums(call.plan());
  args.running = scratch_.running_norm();
  return Status(device_.stages->norm(args));
}

Status DeviceAgreement::exchange_again(const CallOnStream& call) {
  GQ_TRY(Status(device_.agreement->write_header(control_of(call, true))));
  return gather(call);
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
  args.header = scratch_.controls().own;
  args.stream = call.call.stream;
  return args;
}

Status DeviceAgreement::compare(const Call& call, Disagreement* found,
                                const MergeRankNormsArgs& segments) {
  AgreeArgs args{};
  args.headers = scratch_.controls().all;
  args.stride_words = scratch_.controls().stride_bytes / sizeof(uint32_t);
  args.segments = segments;
  args.ranks = group_.endpoint().size();
  args.compared = compared_words(call);
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
  const ControlPlaces controls = scratch_.controls();
  GQ_TRY(device_.copy(controls.pinned, controls.all, controls.all_bytes(), stream));
  GQ_TRY(device_.record(controls_copied_, stream));
  return group_.wait_on_host(controls_copied_, what);
}

Status DeviceAgreement::read_outcome(const CallOnStream& call, Status own, Status* outcome) {
  const TimeRange range("gqsgd.await_headers");
  GQ_TRY(read_controls(call.call.stream, "control messages of the other ranks"));
  Endpoint& endpoint = group_.endpoint();
  Agreement agreement;
  agreement.begin(call.call);
  for (uint32_t rank = 0; rank < endpoint.size(); ++rank) {
    agreement.read(scratch_.controls().seen(rank));
  }
  const ControlMessage& own_control = scratch_.controls().seen(endpoint.rank());
  const bool by_device = own.ok() && own_control.words[kControlStatus] != GQSGD_OK;
  const Status refused = by_device ? index_too_large(endpoint, endpoint.sequence) : own;
  *outcome = agreement.outcome(endpoint, refused);
  return Status();
}

}  // namespace gq
