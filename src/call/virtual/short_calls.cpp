// What a short call is, its values on their way, and the call of all ranks that each one computes.
#include "src/call/virtual/short_calls.h"

#include <inttypes.h>
#include <string.h>

namespace gq {
namespace {

/** Each rank computes the parts of all: n times the work of one, in n times as many moves. */
constexpr uint32_t kShortCallRanksMax = 8;

uint64_t value_count_of(const Call& call) {
  if (call.segments == nullptr) return call.value_count;
  uint64_t value_count = 0;
  for (const Part& part : call.segments->parts) value_count += part.value_count;
  return value_count;
}

size_t size_bytes_of(const Call& call) {
  return static_cast<size_t>(value_count_of(call)) * dtype_size_bytes(call.dtype);
}

}  // namespace

bool ShortCalls::may_take(const Endpoint& endpoint, const Call& call) {
  const bool sums_all =
      call.operation == Operation::allreduce || call.operation == Operation::allreduce_many;
  if (!sums_all || endpoint.size() > kShortCallRanksMax) return false;
  const Enclosures* const enclosures = endpoint.host->enclosures();
  return enclosures != nullptr && value_count_of(call) > 0 &&
         size_bytes_of(call) <= enclosures->bytes_max();
}

bool ShortCalls::takes(const Endpoint& endpoint, const Call& call, const Plan& plan) {
  return plan.schedule_id == GQSGD_SCHEDULE_DIRECT && may_take(endpoint, call);
}

Status ShortCalls::open(const Endpoint& endpoint) {
  GQ_TRY(ranks_.open(endpoint.size()));
  places_.resize(endpoint.size());
  values_.resize(endpoint.host->enclosures()->bytes_max());
  for (uint32_t rank = 0; rank < ranks_.size(); ++rank) {
    Endpoint& one = ranks_[rank].endpoint;
    one.set_transport(std::move(one.host));
    one.stages = endpoint.stages;
    one.workers = endpoint.workers;
    one.chunk_value_count = endpoint.chunk_value_count;
  }
  return Status();
}

void ShortCalls::enclose(const Endpoint& endpoint, const Call& call) {
  const size_t size_bytes = size_bytes_of(call);
  const void* values = call.send;
  if (call.segments != nullptr) {
    for (Places& places : places_) places.of.resize(call.segments->parts.size());
    unsigned char* to = values_.data();
    for (size_t k = 0; k < call.segments->parts.size(); ++k) {
      const Part& part = call.segments->parts[k];
      const size_t part_bytes =
          static_cast<size_t>(part.value_count) * dtype_size_bytes(call.dtype);
      if (part_bytes > 0) memcpy(to, call.places->of[k].send, part_bytes);
      to += part_bytes;
    }
    values = values_.data();
  }
  endpoint.host->enclosures()->enclose(
      endpoint.messages.sealed(static_cast<const unsigned char*>(values), size_bytes),
      value_count_of(call));
}

/** Another rank's call: it has values here and no place for a result. */
Status ShortCalls::take_values(Endpoint& endpoint, const Call& call, uint32_t rank) {
  const Enclosed enclosed = endpoint.host->enclosures()->from(rank);
  GQ_TRY(endpoint.messages.check_enclosed(rank, enclosed, value_count_of(call)));
  if (enclosed.size_bytes != size_bytes_of(call)) {
    endpoint.transport->abort_group(GQSGD_PROTOCOL, rank);
    return fail(GQSGD_PROTOCOL,
                "call %" PRIu64
                ", %s: %zu bytes of values came with the control message of rank %u, and not %zu: "
                "it was changed on its way or in memory",
                endpoint.sequence, operation_name(call), enclosed.size_bytes, rank,
                size_bytes_of(call));
  }
  const unsigned char* values = enclosed.bytes;
  Call& theirs = ranks_[rank].call;
  if (call.segments == nullptr) {
    theirs.send = values;
    theirs.recv = nullptr;
    return Status();
  }
  Places& places = places_[rank];
  for (size_t k = 0; k < call.segments->parts.size(); ++k) {
    places.of[k] = {values, nullptr};
    values += static_cast<size_t>(call.segments->parts[k].value_count) *
              dtype_size_bytes(call.dtype);
  }
  theirs.places = &places;
  return Status();
}

Status ShortCalls::finish(Endpoint& endpoint, const Call& call, uint64_t* digest) {
  for (uint32_t rank = 0; rank < ranks_.size(); ++rank) {
    Endpoint& one = ranks_[rank].endpoint;
    one.stream_id = endpoint.stream_id;
    one.result = ResultDigest();
    ranks_[rank].call = call;
    if (rank != endpoint.rank()) GQ_TRY(take_values(endpoint, call, rank));
  }
  VirtualRank& own = ranks_[endpoint.rank()];
  own.endpoint.result.on = endpoint.result.on;
  const uint64_t poisoned = own.endpoint.nonfinite_blocks;
  GQ_TRY(ranks_.allreduce());
  own.operation.note_end(true);
  uint64_t workspace_bytes = 0;
  for (uint32_t rank = 0; rank < ranks_.size(); ++rank) {
    workspace_bytes += ranks_[rank].endpoint.workspace_bytes;
  }
  endpoint.workspace_bytes.raise_to(workspace_bytes);
  endpoint.nonfinite_blocks += own.endpoint.nonfinite_blocks - poisoned;
  *digest = own.endpoint.result.digest;
  return Status();
}

Status ShortCalls::write_kept_result(uint32_t rank, void* recv) {
  return gq::write_kept_result(ranks_[rank].endpoint, recv);
}

}  // namespace gq
