// Headers out, headers in, one outcome. Headers are looked at in rank order, so that sums of norms
// have one order, and nothing is kept per rank.
#include "src/call/agreement.h"

#include <inttypes.h>

#include "src/call/header_fields.h"

namespace gq {
namespace {

uint32_t low_half(uint64_t value) { return static_cast<uint32_t>(value); }
uint32_t high_half(uint64_t value) { return static_cast<uint32_t>(value >> 32); }

/** The requested format, AUTO's choice to send float32 words, whether it may choose, and
 *  where values and the step are. */
uint32_t fields_of(const Endpoint& endpoint, const Call& call) {
  const bool never = !endpoint.choice.may_be_uncompressed();
  // Where all calls are on streams NULL is one as well, and devices compare all steps.
  const bool device = call.stream != nullptr && endpoint.transport->on_streams() == nullptr;
  const bool step_on_device = device && call.step_at != nullptr;
  return (call.uncompressed ? call.asked_fields : fields_word(call.format)) |
         static_cast<uint32_t>(call.uncompressed) << kHeaderUncompressedShift |
         static_cast<uint32_t>(never) << kHeaderUncompressedNeverShift |
         static_cast<uint32_t>(device) << kHeaderDeviceShift |
         static_cast<uint32_t>(step_on_device) << kHeaderStepOnDeviceShift;
}

}  // namespace

Header Agreement::header_of(const Endpoint& endpoint, const Call& call, int32_t schedule_id,
                            NormWords norm) {
  Header header;
  uint32_t* words = header.words;
  words[kHeaderMagicVersion] = kHeaderMagic | kWireVersion;
  words[kHeaderSequence] = low_half(endpoint.sequence);
  words[kHeaderOperation] =
      static_cast<uint32_t>(call.operation) | static_cast<uint32_t>(call.dtype) << 8 |
      static_cast<uint32_t>(call.op) << 16 | static_cast<uint32_t>(schedule_id) << 24;
  words[kHeaderCountLow] = low_half(call.value_count);
  words[kHeaderCountHigh] = high_half(call.value_count);
  if (schedule_id == GQSGD_SCHEDULE_HIERARCHICAL) {
    words[kHeaderCountHigh] |= endpoint.nodes.digest() << kHeaderNodesShift;
  }
  words[kHeaderFields] = fields_of(endpoint, call);
  words[kHeaderSeedLow] = low_half(call.format.seed);
  words[kHeaderSeedHigh] = high_half(call.format.seed);
  words[kHeaderStreamId] = endpoint.stream_id;
  words[kHeaderStep] = low_half(call.step);
  words[kHeaderIndex] = low_half(call.index) | endpoint.choice.digest() << kHeaderCostsShift;
  words[kHeaderTag] = endpoint.transport->tag();
  words[kHeaderChunk] = low_half(chunk_value_count_of(endpoint, call));
  words[kHeaderNormLow] = norm.low;
  words[kHeaderNormHigh] = norm.high;
  return header;
}

Header Agreement::refusal_of(const Endpoint& endpoint, const Call& call, gqsgd_status code,
                             NonfiniteSite where) {
  Header header;
  header.words[kHeaderMagicVersion] = kHeaderMagic | kWireVersion;
  header.words[kHeaderStatus] =
      static_cast<uint32_t>(call.refused_with != GQSGD_OK ? call.refused_with : code);
  header.words[kHeaderSequence] = low_half(endpoint.sequence);
  header.words[kHeaderTag] = endpoint.transport->tag();
  header.words[kHeaderChunk] = low_half(where.value_count);
  header.words[kHeaderNormLow] = low_half(where.first_value);
  header.words[kHeaderNormHigh] = high_half(where.first_value);
  return header;
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
  while (next_rank_ < endpoint.size()) {
    Header header;
    bool there = false;
    GQ_TRY(endpoint.transport->peer_header(next_rank_, endpoint.sequence, &header, &there));
    if (!there) return Status();
    add(next_rank_, header);
    ++next_rank_;
  }
  *done = true;
  return Status();
}

void Agreement::add(uint32_t rank, const Header& header) {
  if (rank == 0) reference_ = header;
  if (header.words[kHeaderStatus] != GQSGD_OK) {
    if (!refuses_) {
      refused_ = header;
      refused_rank_ = rank;
    }
    refuses_ = true;
    return;
  }
  if (!differs_ && !same_request(reference_, header)) {
    differing_ = header;
    differing_rank_ = rank;
    differs_ = true;
  }
  norm_.merge({header.words[kHeaderNormLow], header.words[kHeaderNormHigh]});
}

Status Agreement::outcome(const Endpoint& endpoint, Status own) const {
  if (refuses_) {
    const gqsgd_status code = static_cast<gqsgd_status>(refused_.words[kHeaderStatus]);
    // gqsgd_comm_refuse has no values to name.
    if (code == GQSGD_NONFINITE && refused_.words[kHeaderChunk] != 0) {
      return nonfinite(endpoint, operation_, refused_rank_,
                       {refused_.words[kHeaderNormLow] |
                            static_cast<uint64_t>(refused_.words[kHeaderNormHigh]) << 32,
                        refused_.words[kHeaderChunk]});
    }
    if (!is_status(code)) {
      endpoint.transport->abort_group(GQSGD_PROTOCOL, refused_rank_);
      return fail(GQSGD_PROTOCOL,
                  "call %" PRIu64
                  ", %s: the header of rank %u has status %d, which is none; its shared memory has "
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
        describe_mismatch(endpoint.sequence, 0, reference_, differing_rank_, differing_);
    if (differs.code() == GQSGD_PROTOCOL) {
      const uint32_t culprit = has_spare_bits(reference_) ? 0 : differing_rank_;
      endpoint.transport->abort_group(GQSGD_PROTOCOL, culprit);
    }
    return differs;
  }
  return Status();
}

float Agreement::global_norm() const { return norm_.result(); }

Status Agreement::timed_out(Endpoint& endpoint, int64_t waited_ms, uint32_t* culprit) const {
  RankList missing;
  GQ_TRY(find_missing(endpoint, next_rank_, &missing, culprit));
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
  const Transport& transport = *endpoint.transport;
  *first = transport.culprit_behind(next_rank);
  for (uint32_t rank = next_rank; rank < endpoint.size(); ++rank) {
    Header header;
    bool there = false;
    GQ_TRY(endpoint.transport->peer_header(rank, endpoint.sequence, &header, &there));
    if (there || transport.culprit_behind(rank) != rank) continue;
    if (missing->count() == 0) *first = rank;
    missing->add(rank);
  }
  if (missing->count() == 0) missing->add(*first);
  return Status();
}

}  // namespace gq
