// Control messages out, control messages in, one outcome. Control messages are looked at in rank
// order, so that sums of norms have one order, and nothing is kept per rank.
#include "src/call/agreement.h"

#include <inttypes.h>
#include <stdio.h>

#include <algorithm>

#include "src/call/control_fields.h"
#include "src/transport/culprit.h"

namespace gq {
namespace {

uint32_t low_half(uint64_t value) { return static_cast<uint32_t>(value); }
uint32_t high_half(uint64_t value) { return static_cast<uint32_t>(value >> 32); }
uint64_t both_halves(uint32_t low, uint32_t high) {
  return low | static_cast<uint64_t>(high) << 32;
}

// Of a control message about words that were changed.
constexpr uint32_t kFoundByWord = kControlIndex;  // + 1
constexpr uint32_t kSenderWord = kControlChunk;

/** The requested format, what AUTO sends in place of its codes, whether it may, and where values
 * and the step are. */
uint32_t fields_of(const Endpoint& endpoint, const Call& call) {
  const bool never = !endpoint.choice.may_be_uncompressed();
  // Where all calls are on streams NULL is one as well, and devices compare all steps.
  const bool device = call.stream != nullptr && !endpoint.has_streams_only();
  const bool step_on_device = device && call.step_at != nullptr;
  const auto is_sent_as = [&](SentAs sent_as) { return uint32_t{call.sent_as == sent_as}; };
  return (is_sent_as(SentAs::codes) ? fields_word(call.format) : call.asked_fields) |
         is_sent_as(SentAs::float32) << kControlAsFloat32Shift |
         is_sent_as(SentAs::bf16) << kControlAsBf16Shift |
         static_cast<uint32_t>(never) << kControlUncompressedNeverShift |
         static_cast<uint32_t>(device) << kControlDeviceShift |
         static_cast<uint32_t>(step_on_device) << kControlStepOnDeviceShift;
}

}  // namespace

ControlMessage Agreement::control_of(const Endpoint& endpoint, const Call& call,
                                     int32_t schedule_id, NormWords norm) {
  ControlMessage control;
  uint32_t* words = control.words;
  words[kControlMagicVersion] = kControlMagic | kWireVersion;
  words[kControlSequence] = low_half(endpoint.sequence);
  words[kControlOperation] =
      static_cast<uint32_t>(call.operation) | static_cast<uint32_t>(call.dtype) << 8 |
      static_cast<uint32_t>(call.op) << 16 | static_cast<uint32_t>(schedule_id) << 24;
  const uint64_t value_count = call.given_value_count();
  words[kControlCountLow] = low_half(value_count);
  words[kControlCountHigh] = high_half(value_count);
  if (schedule_id == GQSGD_SCHEDULE_HIERARCHICAL) {
    words[kControlCountHigh] |= endpoint.nodes.digest() << kControlNodesShift;
  }
  words[kControlFields] = fields_of(endpoint, call);
  words[kControlSeedLow] = low_half(call.format.seed);
  words[kControlSeedHigh] = high_half(call.format.seed);
  words[kControlStreamId] = endpoint.stream_id;
  words[kControlStep] = low_half(call.step);
  words[kControlIndex] = low_half(call.index) | endpoint.choice.digest() << kControlCostsShift;
  words[kControlTag] = endpoint.transport->tag();
  words[kControlChunk] = low_half(chunk_value_count_of(endpoint, call));
  words[kControlNormLow] = norm.low;
  words[kControlNormHigh] = norm.high;
  if (call.stream == nullptr && !endpoint.has_streams_only()) {
    words[kControlDigestLow] = low_half(endpoint.result.digest);
    words[kControlDigestHigh] = high_half(endpoint.result.digest);
  }
  seal(&control, endpoint.messages.kind());
  return control;
}

ControlMessage Agreement::refusal_of(const Endpoint& endpoint, const Call& call, gqsgd_status code,
                                     NonfiniteSite where) {
  ControlMessage control;
  control.words[kControlMagicVersion] = kControlMagic | kWireVersion;
  control.words[kControlStatus] =
      static_cast<uint32_t>(call.refused_with != GQSGD_OK ? call.refused_with : code);
  control.words[kControlSequence] = low_half(endpoint.sequence);
  control.words[kControlTag] = endpoint.transport->tag();
  control.words[kControlChunk] = low_half(std::min<uint64_t>(where.value_count, UINT32_MAX));
  control.words[kControlNormLow] = low_half(where.first_value);
  control.words[kControlNormHigh] = high_half(where.first_value);
  seal(&control, endpoint.messages.kind());
  return control;
}

ControlMessage Agreement::damage_of(const Endpoint& endpoint, const Damage& damage) {
  ControlMessage control;
  control.words[kControlMagicVersion] = kControlMagic | kWireVersion;
  control.words[kControlStatus] = GQSGD_INTEGRITY;
  control.words[kControlSequence] = low_half(endpoint.sequence);
  control.words[kControlTag] = endpoint.transport->tag();
  control.words[kFoundByWord] = damage.found_by + 1;
  control.words[kSenderWord] = damage.sender;
  control.words[kControlNormLow] = low_half(damage.first_value);
  control.words[kControlNormHigh] = high_half(damage.first_value);
  seal(&control, endpoint.messages.kind());
  return control;
}

Status Agreement::nonfinite(const Endpoint& endpoint, const char* operation, uint32_t rank,
                            NonfiniteSite where) {
  return fail(GQSGD_NONFINITE,
              "call %" PRIu64 ", %s: rank %u has %" PRIu64
              " values that are NaN or "
              "infinite, the first at index %" PRIu64 "; nonfinite=poison would return NaN instead",
              endpoint.sequence, operation, rank, where.value_count, where.first_value);
}

Status Agreement::collect(Endpoint& endpoint, bool* done) {
  *done = false;
  has_digests_ = endpoint.result.on;
  while (next_rank_ < endpoint.size()) {
    ControlMessage control;
    bool there = false;
    GQ_TRY(endpoint.host->receive_control(next_rank_, endpoint.sequence, &control, &there));
    if (!there) return Status();
    if (endpoint.messages.on() && !is_intact(control)) {
      if (!is_damaged_) damaged_rank_ = next_rank_;
      is_damaged_ = true;
      endpoint.digests[next_rank_] = endpoint.result.digest;
    } else {
      add(next_rank_, control);
      endpoint.digests[next_rank_] = digest_of(control);
    }
    ++next_rank_;
  }
  *done = true;
  return Status();
}

void Agreement::add(uint32_t rank, const ControlMessage& control) {
  if (!has_reference_) {
    has_reference_ = true;
    reference_ = control;
    reference_rank_ = rank;
  }
  if (control.words[kControlStatus] != GQSGD_OK) {
    if (!refuses_) {
      refused_ = control;
      refused_rank_ = rank;
    }
    refuses_ = true;
    return;
  }
  if (!differs_ && (has_spare_bits(control, has_digests_) || !same_request(reference_, control))) {
    differing_ = control;
    differing_rank_ = rank;
    differs_ = true;
  }
  norm_.merge({control.words[kControlNormLow], control.words[kControlNormHigh]});
}

Status Agreement::outcome(const Endpoint& endpoint, Status own) {
  if (refuses_) {
    const gqsgd_status code = static_cast<gqsgd_status>(refused_.words[kControlStatus]);
    // gqsgd_comm_refuse has no values to name.
    if (code == GQSGD_NONFINITE && refused_.words[kControlChunk] != 0) {
      return nonfinite(endpoint, operation_, refused_rank_,
                       {refused_.words[kControlNormLow] |
                            static_cast<uint64_t>(refused_.words[kControlNormHigh]) << 32,
                        refused_.words[kControlChunk]});
    }
    GQ_TRY(check_damage(endpoint, operation_, refused_rank_, refused_));
    if (!is_status(code)) {
      endpoint.transport->abort_group(GQSGD_PROTOCOL, refused_rank_);
      return fail(
          GQSGD_PROTOCOL,
          "call %" PRIu64
          ", %s: the control message of rank %u has the unknown status %d; its shared memory has "
          "been overwritten",
          endpoint.sequence, operation_, refused_rank_, code);
    }
    if (!own.ok()) return own;
    return fail(GQSGD_REMOTE_ERROR,
                "call %" PRIu64
                ", %s: rank %u refused its own call with %s (%s); rank %u "
                "did nothing, see the error of rank %u",
                endpoint.sequence, operation_, refused_rank_, gqsgd_status_name(code),
                gqsgd_status_string(code), endpoint.rank(), refused_rank_);
  }
  if (differs_) {
    const Status differs =
        describe_mismatch(endpoint.sequence, reference_rank_, reference_, differing_rank_,
                          differing_, has_digests_, endpoint.nodes);
    if (differs.code() == GQSGD_PROTOCOL) {
      const bool is_reference = has_spare_bits(reference_, has_digests_);
      const uint32_t culprit = is_reference ? reference_rank_ : differing_rank_;
      endpoint.transport->abort_group(GQSGD_PROTOCOL, culprit);
    }
    return differs;
  }
  return endpoint.result.on ? compare_digests(endpoint) : Status();
}

Status Agreement::conclude(Endpoint& endpoint, const Status& own, bool* done) {
  GQ_TRY(collect(endpoint, done));
  if (!*done) return Status();
  if (shared_failure_.ok()) {
    const Status found = outcome(endpoint, own);
    if (found.ok()) return take_damage(endpoint);
    const bool is_broken = found.code() == GQSGD_PROTOCOL || found.code() == GQSGD_INTEGRITY;
    if (is_broken && !diverged_) return found;  // the transport sends nothing any more
    shared_failure_ = found;
  }
  *done = false;
  bool flushed = false;
  GQ_TRY(endpoint.host->flushed(&flushed));
  return flushed ? shared_failure_ : Status();
}

/** All ranks compare the same numbers and say the same. */
Status Agreement::compare_digests(const Endpoint& endpoint) {
  const std::vector<uint64_t>& digests = endpoint.digests;
  const auto count_of = [&](uint64_t digest) {
    return std::count(digests.begin(), digests.end(), digest);
  };
  // What most ranks have, or of several such digests the one of the lowest rank.
  uint64_t usual = digests[0];
  if (count_of(usual) == static_cast<ptrdiff_t>(digests.size())) return Status();
  for (const uint64_t digest : digests) {
    if (count_of(digest) > count_of(usual)) usual = digest;
  }
  diverged_ = true;
  RankList others;
  uint64_t differing = usual;
  for (uint32_t rank = 0; rank < digests.size(); ++rank) {
    if (digests[rank] == usual) continue;
    if (others.count() == 0) differing = digests[rank];
    others.add(rank);
  }
  return fail(GQSGD_INTEGRITY,
              "call %" PRIu64
              ", %s: results of the call before, number %" PRIu64
              ", differ: rank%s %s decoded words with digest 0x%016" PRIx64
              ", the other %td of %zu ranks with 0x%016" PRIx64
              "; hint: memory, a network adapter or a build of a rank is at fault, and "
              "checksum=crc32c finds what is changed between ranks",
              endpoint.sequence, operation_, endpoint.result.sequence,
              others.count() == 1 ? "" : "s", others.text(), differing, count_of(usual),
              digests.size(), usual);
}

/** What the rank that sent it has found in the call before, or has received from another. */
Status Agreement::check_damage(const Endpoint& endpoint, const char* operation, uint32_t rank,
                               const ControlMessage& control) {
  const uint32_t* words = control.words;
  if (words[kControlStatus] != GQSGD_INTEGRITY || words[kFoundByWord] == 0) return Status();
  const uint64_t first_value = both_halves(words[kControlNormLow], words[kControlNormHigh]);
  const uint32_t found_by = words[kFoundByWord] - 1;
  endpoint.transport->abort_group(GQSGD_INTEGRITY, rank);
  if (words[kSenderWord] == Damage::kUnknown) {
    return fail(GQSGD_INTEGRITY,
                "call %" PRIu64
                ", %s: rank %u has no result of the call before, in which rank %u received a "
                "message that was changed on its way or in memory; see the error of rank %u",
                endpoint.sequence, operation, rank, found_by, found_by);
  }
  char what[64] = "its control message";
  if (first_value != Damage::kControlMessage) {
    snprintf(what, sizeof what, "words from value %" PRIu64 " on", first_value);
  }
  return fail(GQSGD_INTEGRITY,
              "call %" PRIu64
              ", %s: rank %u has no result of the call before: it received a message of rank %u, "
              "%s, that was changed on its way or in memory; see the error of rank %u",
              endpoint.sequence, operation, found_by, words[kSenderWord], what, found_by);
}

/** What follows where a control message was changed on its way, and the others agree. */
Status Agreement::take_damage(Endpoint& endpoint) const {
  if (!is_damaged_) return Status();
  return endpoint.messages.take_damaged_control(damaged_rank_, endpoint.sequence);
}

float Agreement::global_norm() const { return norm_.result(); }

Status Agreement::leaving_timed_out(const Endpoint& endpoint, int64_t waited_ms,
                                    uint32_t* culprit) const {
  const uint32_t peer = endpoint.host->unflushed_peer();
  const Culprit found(*endpoint.host, peer, kStoppedOrSlow);
  *culprit = found.rank();
  return fail(GQSGD_TIMEOUT,
              "call %" PRIu64 ", %s: rank %u waited %" PRId64
              " ms for rank %u to take its control message; %s (timeout_ms sets the limit)",
              endpoint.sequence, operation_, endpoint.rank(), waited_ms, peer, found.clause());
}

Status Agreement::timed_out(Endpoint& endpoint, int64_t waited_ms, uint32_t* culprit) const {
  if (!shared_failure_.ok()) return leaving_timed_out(endpoint, waited_ms, culprit);
  RankList missing;
  GQ_TRY(find_missing(endpoint, next_rank_, &missing, culprit));
  if (*culprit == endpoint.rank()) {
    return fail(GQSGD_TIMEOUT,
                "call %" PRIu64 ", %s: rank %u waited %" PRId64
                " ms for the other ranks, of which none answers it: its own network does not work "
                "(timeout_ms sets the limit)",
                endpoint.sequence, operation_, endpoint.rank(), waited_ms);
  }
  const bool one = missing.count() == 1;
  return fail(GQSGD_TIMEOUT,
              "call %" PRIu64 ", %s: rank %u waited %" PRId64
              " ms for rank%s %s to make this call; %s (timeout_ms sets the limit)",
              endpoint.sequence, operation_, endpoint.rank(), waited_ms, one ? "" : "s",
              missing.text(),
              one ? "it is late, stopped, or makes other calls"
                  : "they are late, stopped, or make other calls");
}

Status Agreement::find_missing(Endpoint& endpoint, uint32_t next_rank, RankList* missing,
                               uint32_t* first) {
  HostTransport& transport = *endpoint.host;
  *first = transport.culprit_behind(next_rank);
  if (*first == endpoint.rank()) return Status();
  for (uint32_t rank = next_rank; rank < endpoint.size(); ++rank) {
    ControlMessage control;
    bool there = false;
    GQ_TRY(transport.receive_control(rank, endpoint.sequence, &control, &there));
    if (there || transport.culprit_behind(rank) != rank) continue;
    if (missing->count() == 0) *first = rank;
    missing->add(rank);
  }
  if (missing->count() == 0) missing->add(*first);
  return Status();
}

}  // namespace gq
