// How ranks agree on a call on streams: headers by the device, an agreed status there, and on the
// host where it has to wait or reads it later.
#include <inttypes.h>
#include <string.h>

#include "kernels/codec/norm.h"
#include "src/call/agreement.h"
#include "src/call/header_fields.h"
#include "src/gpu/device/time_range.h"
#include "src/gpu/enqueue/scratch_layout.h"
#include "src/gpu/enqueue/stream_calls.h"
#include "src/support/kept_failure.h"

namespace gq {
namespace {

/** Where an allreduce has its norm, calls on segments have the hash of their lengths. */
constexpr uint32_t kHashWords = 3u << kAgreementNormWord;

}  // namespace

/** The norm is written directly into the header that it travels in. */
Status StreamCalls::publish(const Attempt& attempt, bool takes_norm) {
  const TimeRange range("gqsgd.headers");
  const StreamHandle stream = attempt.call.stream;
  GQ_TRY(attempt.captured ? device_.wait_in_graph(stream, done_) : device_.wait(stream, done_));
  if (takes_step_on_device(attempt.call)) GQ_TRY(take_step_on_device(stream));
  if (takes_norm) GQ_TRY(take_norm(attempt));
  GQ_TRY(write_header(attempt, takes_norm));
  return transport_.gather(scratch_.data() + kOwnHeaderBytes, scratch_.data() + kHeadersBytes,
                           sizeof(Header), stream);
}

/** With the number of the newest header, of which a sparse call has two. */
Status StreamCalls::write_header(const Attempt& attempt, bool keep_norm) {
  WriteHeaderArgs args{};
  memcpy(args.words, attempt.header.words, sizeof args.words);
  args.words[kHeaderSequence] = static_cast<uint32_t>(endpoint_.sequence);
  if (attempt.speculative) args.words[kHeaderSequence] |= kHeaderSpeculative;
  if (attempt.captured) args.words[kHeaderSequence] |= kHeaderInGraph;
  args.step_at = attempt.call.step_at;
  args.step_word = kHeaderStep;
  args.index_word = kHeaderIndex;
  args.status_word = kHeaderStatus;
  args.keep_norm = keep_norm;
  args.header = scratch_.as<uint32_t>(kOwnHeaderBytes);
  args.stream = attempt.call.stream;
  return Status(device_.agreement->write_header(args));
}

Status StreamCalls::take_step_on_device(StreamHandle stream) {
  TakeStepArgs args = step_args();
  args.stream = stream;
  return Status(device_.agreement->take_step(args));
}

TakeStepArgs StreamCalls::step_args() const {
  TakeStepArgs args{};
  args.counter = pinned_.as<uint64_t>(kCounterBytes);
  args.step = scratch_.as<uint32_t>(kStepBytes);
  return args;
}

Status StreamCalls::take_norm(const Attempt& attempt) {
  const Call& call = attempt.call;
  const Range all{0, static_cast<size_t>(call.value_count)};
  void* const out = scratch_.data() + kOwnHeaderBytes + kAgreementNormWord * sizeof(uint32_t);
  NormArgs args =
      arguments_of(call, attempt.known->execution_plan.plan()).norm(all, call.send, out);
  const size_t groups =
      static_cast<size_t>(norm_group_count(0, code_count(args.rotated, call.value_count)));
  args.workspace = norm_sums(groups);
  return Status(device_.stages->norm(args));
}

/** A difference is written to *found, which the host reads later. */
Status StreamCalls::agree_on_device(const Call& call, Disagreement* found) {
  AgreeArgs args{};
  args.headers = scratch_.as<uint32_t>(kHeadersBytes);
  args.ranks = endpoint_.size();
  args.compared = kComparedWords | (call.segments != nullptr ? kHashWords : 0);
  args.status_word = kHeaderStatus;
  args.q = call.format.q;
  args.p = call.format.p;
  args.norm = scratch_.as<float>(kNormBytes);
  args.gate = scratch_.as<uint32_t>(kGateBytes);
  args.disagreement = found;
  args.stream = call.stream;
  return Status(device_.agreement->agree(args));
}

/** The agreed status of the headers, or a failure to get them. */
Status StreamCalls::agree_on_host(const Attempt& attempt, Status own, Status* outcome) {
  const KeptFailure refusal(own);
  const TimeRange range("gqsgd.await_headers");
  const StreamHandle stream = attempt.call.stream;
  unsigned char* const headers = pinned_.data() + kPinnedHeadersBytes;
  GQ_TRY(device_.copy(headers, scratch_.data() + kHeadersBytes, endpoint_.size() * sizeof(Header),
                      stream));
  GQ_TRY(device_.record(there_, stream));
  GQ_TRY(wait_on_host(there_, "headers of the other ranks"));
  transport_.show_headers(reinterpret_cast<const Header*>(headers));
  Agreement agreement;
  agreement.begin(attempt.call);
  bool done = false;
  GQ_TRY(agreement.collect(endpoint_, &done));
  const Header& mine = reinterpret_cast<const Header*>(headers)[endpoint_.rank()];
  const bool here = refusal.ok() && mine.words[kHeaderStatus] != GQSGD_OK;
  const Status refused = here ? index_refused(endpoint_.sequence) : refusal.again();
  *outcome = agreement.outcome(endpoint_, refused);
  return Status();
}

/** By the device, which alone knows the index. */
Status StreamCalls::index_refused(uint64_t sequence) const {
  return fail(GQSGD_INVALID_ARGUMENT,
              "call %" PRIu64
              ": the index that rank %u has in memory of its device, behind the step, is above %u; "
              "no result was written",
              sequence, endpoint_.rank(), kIndexMax);
}

/** Ranks that made the call which was expected, or replay a graph, have continued without waiting:
 *  this rank answers their messages and ignores the contents. */
Status StreamCalls::stay_in_step(const Call& call) {
  CachedPlan* answered = nullptr;
  bool follows = false;
  for (uint32_t rank = 0; rank < endpoint_.size(); ++rank) {
    const Header& header = pinned_.as<Header>(kPinnedHeadersBytes)[rank];
    if ((header.words[kHeaderSequence] & kHeaderSpeculative) == 0) continue;
    CachedPlan* const theirs = plans_.find(Signature::of(header));
    if (theirs == nullptr || (answered != nullptr && answered != theirs)) {
      return fail(GQSGD_PROTOCOL,
                  "call %" PRIu64
                  ": rank %u went on with a call that rank %u cannot answer: ranks replay graphs "
                  "of different calls",
                  endpoint_.sequence, rank, endpoint_.rank());
    }
    answered = theirs;
    follows |= (header.words[kHeaderSequence] & kHeaderInGraph) == 0;
  }
  if (answered == nullptr) return Status();
  GQ_TRY(Enqueuer(endpoint_, transport_, call, *answered, places(*answered)).messages());
  GQ_TRY(device_.record(done_, call.stream));
  if (follows) plans_.follow(answered, nullptr);
  return Status();
}

Status StreamCalls::take_late_failure() {
  const Status late = late_failure();
  if (!late.ok()) pinned_.as<volatile Disagreement>(kLateBytes)->found = 0;
  return late;
}

Status StreamCalls::late_failure() const {
  return describe(pinned_.as<const Disagreement>(kLateBytes));
}

Status StreamCalls::describe(const Disagreement* late) const {
  if (static_cast<const volatile Disagreement*>(late)->found == 0) return Status();
  Header reference, differing;
  memcpy(reference.words, late->reference, sizeof reference.words);
  memcpy(differing.words, late->differing, sizeof differing.words);
  const uint32_t sequence =
      reference.words[kHeaderSequence] & ~(kHeaderSpeculative | kHeaderInGraph);
  const gqsgd_status refused = static_cast<gqsgd_status>(differing.words[kHeaderStatus]);
  if (refused == GQSGD_OK) {
    return describe_mismatch(sequence, 0, reference, late->rank, differing);
  }
  if (late->rank == endpoint_.rank()) return index_refused(sequence);
  return fail(GQSGD_REMOTE_ERROR,
              "call %u, which had returned: rank %u refused its own call with %s (%s); no result "
              "was written, see the error of rank %u",
              sequence, late->rank, gqsgd_status_name(refused), gqsgd_status_string(refused),
              late->rank);
}

}  // namespace gq
