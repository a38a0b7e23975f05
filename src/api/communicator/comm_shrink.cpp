// gqsgd_comm_shrink and gqsgd_comm_revoke: the survivors of a group go on without a coordinator.
#include <new>

#include "include/gqsgd_elastic.h"
#include "src/api/call_scope.h"
#include "src/api/communicator/communicator.h"
#include "src/api/communicator/network_options.h"
#include "src/api/communicator/shrinking.h"
#include "src/api/communicator/successor.h"
#include "src/support/names.h"

namespace gq {
namespace {

/** Where the result of an interrupted call may be put. */
struct ResultBuffer {
  void* recv;
  size_t count;
  int32_t dtype;
};

struct ShrinkResult {
  gqsgd_comm* new_comm;
  int32_t* members;      // of as many places as the old group has ranks; may be null
  int32_t* interrupted;  // may be null
};

Status check_registers(const Communicator& communicator, const char* what_is_done) {
  GQ_TRY(check_can_be_followed(communicator, what_is_done));
  const Endpoint& endpoint = communicator.endpoint;
  if (endpoint.host->registers() != nullptr && endpoint.size() <= kSurvivorRanksMax) {
    return Status();
  }
  return fail(GQSGD_UNSUPPORTED,
              "rank %u's communicator is over \"%s\" and has %u ranks; groups of threads, "
              "processes and networks of at most %u ranks are %s; hint: gqsgd_comm_reconfigure",
              endpoint.rank(), communicator.transport_name.c_str(), endpoint.size(),
              kSurvivorRanksMax, what_is_done);
}

/** Ends calls of all ranks, and those in flight here; a group that is broken has its cause. */
void revoke(Communicator* communicator) {
  Endpoint& endpoint = communicator->endpoint;
  if (endpoint.failure.get().ok()) {
    endpoint.transport->abort_group(GQSGD_REVOKED, endpoint.rank());
    endpoint.failure.keep(fail(GQSGD_REVOKED, "rank %u (this rank) has revoked the communicator",
                               endpoint.rank()));
  }
  communicator->requests.drain();
}

Status revoke(gqsgd_comm comm, int32_t* dead, int32_t* dead_count) {
  ExclusiveAccess access;
  GQ_TRY(access.enter(comm));
  GQ_TRY(check_registers(*access, "revoked"));
  revoke(&*access);
  GroupRegisters& registers = *access->endpoint.host->registers();
  registers.look(0);
  int32_t count = 0;
  for (uint32_t rank = 0; rank < access->endpoint.size(); ++rank) {
    if (!registers.is_gone(rank, UnheardLimits())) continue;
    if (dead != nullptr) dead[count] = static_cast<int32_t>(rank);
    count += 1;
  }
  if (dead_count != nullptr) *dead_count = count;
  return Status();
}

/** The calls that this rank is to make again. */
int32_t interrupted_on(const Proposal& agreed, bool is_behind) {
  switch (agreed.fate) {
    case CallFate::repeat:
      return GQSGD_CALLS_REPEAT;
    case CallFate::hand_over:
      return is_behind ? GQSGD_CALLS_FINISHED : GQSGD_CALLS_REPEAT;
    case CallFate::repeat_finished:
      return is_behind ? GQSGD_CALLS_REPEAT : GQSGD_CALLS_REPEAT_FINISHED;
    case CallFate::differs:
      break;
  }
  return GQSGD_CALLS_DIFFER;
}

const char* name_of(int32_t dtype) {
  return name_in(names_of(kDtypeList), static_cast<size_t>(dtype));
}

/** Once nothing is in flight: the call that was interrupted is known then. */
Status check_buffer(const Endpoint& endpoint, const ResultBuffer& buffer) {
  if (buffer.recv == nullptr || endpoint.newest_result_bytes == 0) return Status();
  const int32_t dtype = endpoint.newest_dtype;
  const size_t count = endpoint.newest_result_bytes / dtype_size_bytes(dtype);
  if (buffer.count == count && buffer.dtype == dtype) return Status();
  return fail(GQSGD_INVALID_ARGUMENT,
              "rank %u: recv has %zu values of %s, and the call that was interrupted %zu of %s; "
              "hint: the output buffer of the first call that failed here, or NULL",
              endpoint.rank(), buffer.count, name_of(buffer.dtype), count, name_of(dtype));
}

Status shrink_entered(Communicator* old, const ResultBuffer& buffer, const CommOptions& options,
                      const ShrinkResult& result) {
  if (old->was_followed) {
    return fail(GQSGD_REVOKED,
                "rank %u's communicator has been shrunk before: the new group goes on with the "
                "communicator that it got",
                old->endpoint.rank());
  }
  revoke(old);
  GQ_TRY(check_buffer(old->endpoint, buffer));
  Shrinking shrinking(old, options, buffer.recv);
  GQ_TRY(shrinking.run());
  GQ_TRY(shrinking.take(result.new_comm));
  const Proposal& agreed = shrinking.decision();
  for (uint32_t rank = 0, member = 0; rank < old->endpoint.size(); ++rank) {
    if (result.members == nullptr || !agreed.members.has(rank)) continue;
    result.members[member++] = static_cast<int32_t>(rank);
  }
  if (result.interrupted != nullptr) {
    *result.interrupted = interrupted_on(agreed, shrinking.is_behind(agreed));
  }
  return Status();
}

Status shrink(gqsgd_comm comm, const ResultBuffer& buffer, const char* text,
              const ShrinkResult& result) {
  if (result.new_comm == nullptr) {
    return fail(GQSGD_INVALID_ARGUMENT, "gqsgd_comm_shrink: new_comm is NULL");
  }
  *result.new_comm = nullptr;
  ExclusiveAccess access;
  GQ_TRY(access.enter(comm));
  GQ_TRY(check_registers(*access, "shrunk"));
  CommOptions options;
  GQ_TRY(read_successor_options(*access, &options));
  GQ_TRY(add_options(text, &options));
  GQ_TRY(check_not_given(options));
  GQ_TRY(read_network_environment(&options));
  try {
    return shrink_entered(&*access, buffer, options, result);
  } catch (const std::bad_alloc&) {
    Shrinking::decline(&*access);
    return fail(GQSGD_NO_MEMORY, "no memory for the agreement of rank %u",
                access->endpoint.rank());
  }
}

}  // namespace
}  // namespace gq

gqsgd_status gqsgd_comm_revoke(gqsgd_comm comm, int32_t* dead, int32_t* dead_count) {
  return gq::in_call_scope([&] { return gq::revoke(comm, dead, dead_count); });
}

gqsgd_status gqsgd_comm_shrink(gqsgd_comm comm, void* recv, size_t count, gqsgd_dtype dtype,
                               const char* options, gqsgd_comm* new_comm, int32_t* members,
                               int32_t* interrupted) {
  const gq::ResultBuffer buffer{recv, count, static_cast<int32_t>(dtype)};
  const gq::ShrinkResult result{new_comm, members, interrupted};
  return gq::in_call_scope([&] { return gq::shrink(comm, buffer, options, result); });
}
