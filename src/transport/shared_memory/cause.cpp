// The sentences of a broken group. Every rank names the same culprit; the culprit itself, if it
// comes back, learns that the others gave up on it.
#include "src/transport/shared_memory/cause.h"

namespace gq {
namespace {

constexpr uint64_t kRankMask = (1u << 24) - 1;

/** The same on all ranks: the culprit is the sender, which may have sent it well. */
Status explain_damage(const Cause& cause, const char* awaited) {
  return fail(GQSGD_INTEGRITY,
              "rank %u received a message of rank %u that was changed on its way or in memory; its "
              "error has the details%s",
              cause.reporter, cause.culprit, awaited);
}

Status explain_own(const Cause& cause, bool destroyed, const char* awaited) {
  const uint32_t self = cause.reporter;
  const uint32_t culprit = cause.culprit;
  switch (cause.status) {
    case GQSGD_ABORTED:
      return fail(GQSGD_ABORTED, "rank %u (this rank) was aborted%s", self, awaited);
    case GQSGD_TIMEOUT:
      return fail(GQSGD_TIMEOUT, "rank %u gave up: rank %u made no progress in the time allowed%s",
                  self, culprit, awaited);
    case GQSGD_PEER_LOST:
      return fail(GQSGD_PEER_LOST, "rank %u %s%s", culprit,
                  destroyed ? "destroyed its communicator" : "has died or gone away", awaited);
    case GQSGD_PROTOCOL:
      return fail(GQSGD_PROTOCOL, "rank %u wrote what no correct rank writes%s", culprit, awaited);
    case GQSGD_INTEGRITY:
      return explain_damage(cause, awaited);
    case GQSGD_REVOKED:
      return fail(GQSGD_REVOKED, "rank %u (this rank) has revoked the communicator", self);
    default:
      return fail(cause.status, "rank %u (this rank) broke off with %s: %s", self,
                  gqsgd_status_name(cause.status), gqsgd_status_string(cause.status));
  }
}

}  // namespace

uint64_t pack(const Cause& cause) {
  return static_cast<uint64_t>(cause.status & 0xff) | (cause.culprit & kRankMask) << 8 |
         (cause.reporter & kRankMask) << 32;
}

Cause unpack_cause(uint64_t word) {
  return {static_cast<gqsgd_status>(word & 0xff), static_cast<uint32_t>(word >> 8 & kRankMask),
          static_cast<uint32_t>(word >> 32 & kRankMask)};
}

bool is_cause(uint64_t word, uint32_t ranks) {
  const Cause cause = unpack_cause(word);
  return cause.status != GQSGD_OK && is_status(cause.status) && cause.culprit < ranks &&
         cause.reporter < ranks && word == pack(cause);
}

Status explain(const Cause& cause, uint32_t self, bool destroyed, const char* awaited) {
  if (cause.reporter == self) return explain_own(cause, destroyed, awaited);
  if (cause.status == GQSGD_INTEGRITY) return explain_damage(cause, awaited);
  if (cause.culprit == self) {
    return fail(GQSGD_REVOKED,
                "rank %u gave up on rank %u (this rank) with %s: it %s; calls of this group fail "
                "on all ranks, and the others may go on in another one",
                cause.reporter, self, gqsgd_status_name(cause.status),
                cause.status == GQSGD_PROTOCOL ? "wrote what no correct rank writes"
                                               : "was stopped or too slow");
  }
  switch (cause.status) {
    case GQSGD_ABORTED:
      return fail(GQSGD_ABORTED, "rank %u aborted%s", cause.culprit, awaited);
    case GQSGD_TIMEOUT:
      if (cause.reporter == cause.culprit) {
        return fail(GQSGD_TIMEOUT, "rank %u gave up: it waited in vain for all other ranks%s",
                    cause.reporter, awaited);
      }
      return fail(GQSGD_TIMEOUT, "rank %u gave up: rank %u made no progress in the time allowed%s",
                  cause.reporter, cause.culprit, awaited);
    case GQSGD_PEER_LOST:
      return fail(GQSGD_PEER_LOST, "rank %u %s, as rank %u saw%s", cause.culprit,
                  destroyed ? "destroyed its communicator" : "has died or gone away",
                  cause.reporter, awaited);
    case GQSGD_REVOKED:
      return fail(GQSGD_REVOKED,
                  "rank %u has revoked the communicator: no call is made with it any more%s",
                  cause.reporter, awaited);
    case GQSGD_PROTOCOL:
      return fail(GQSGD_PROTOCOL, "rank %u says that rank %u wrote what no correct rank writes%s",
                  cause.reporter, cause.culprit, awaited);
    default:
      return fail(GQSGD_REMOTE_ERROR, "rank %u broke off with %s: %s%s", cause.culprit,
                  gqsgd_status_name(cause.status), gqsgd_status_string(cause.status), awaited);
  }
}

}  // namespace gq
