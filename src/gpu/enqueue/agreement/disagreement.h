// What devices compare of control messages, and sentences about what they have found.
#ifndef GQ_GPU_ENQUEUE_AGREEMENT_DISAGREEMENT_H
#define GQ_GPU_ENQUEUE_AGREEMENT_DISAGREEMENT_H

#include "kernels/agreement.h"
#include "src/execute/endpoint.h"
#include "src/transport/control_message.h"

namespace gq {

/** All words but the number of the call, status and norm. */
inline constexpr uint32_t kComparedWords = ((1u << kAgreementWords) - 1) &
                                           ~(1u << kControlStatus | 1u << kControlSequence) &
                                           ~(3u << kAgreementNormWord);

/** With the hash of a list's lengths, which stands where an allreduce has its norm. */
inline uint32_t compared_words(const Call& call) {
  return kComparedWords | (call.segments != nullptr ? 3u << kAgreementNormWord : 0);
}

/** OK, or the failure of a call that had returned: MISMATCH, REMOTE_ERROR, or INVALID_ARGUMENT of
 *  this rank's own index. */
Status describe_disagreement(const Endpoint& endpoint, const Disagreement& found);

/** INVALID_ARGUMENT: only the device knows the index, which is too large on this rank. */
Status index_too_large(const Endpoint& endpoint, uint64_t sequence);

}  // namespace gq

#endif
