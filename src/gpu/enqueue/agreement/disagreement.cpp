// The first rank that differs, or refuses, is the one that is named.
#include "src/gpu/enqueue/agreement/disagreement.h"

#include <inttypes.h>
#include <string.h>

#include "src/call/control_fields.h"

namespace gq {

Status describe_disagreement(const Endpoint& endpoint, const Disagreement& found) {
  if (static_cast<const volatile Disagreement&>(found).found == 0) return Status();
  ControlMessage reference, differing;
  memcpy(reference.words, found.reference, sizeof reference.words);
  memcpy(differing.words, found.differing, sizeof differing.words);
  const uint32_t sequence =
      reference.words[kControlSequence] & ~(kControlSpeculative | kControlInGraph);
  const gqsgd_status refused = static_cast<gqsgd_status>(differing.words[kControlStatus]);
  if (refused == GQSGD_OK) {
    return describe_mismatch(sequence, 0, reference, found.rank, differing, false, endpoint.nodes);
  }
  if (found.rank == endpoint.rank()) return index_too_large(endpoint, sequence);
  return fail(GQSGD_REMOTE_ERROR,
              "call %u, which had returned: rank %u refused its own call with %s (%s); no result "
              "was written, see the error of rank %u",
              sequence, found.rank, gqsgd_status_name(refused), gqsgd_status_string(refused),
              found.rank);
}

Status index_too_large(const Endpoint& endpoint, uint64_t sequence) {
  return fail(GQSGD_INVALID_ARGUMENT,
              "call %" PRIu64
              ": the index that rank %u has in memory of its device, behind the step, is above %u; "
              "no result was written",
              sequence, endpoint.rank(), kIndexMax);
}

}  // namespace gq
