// The places of headers, norm, gate and the copies that the host reads, beside the words of calls.
#ifndef GQ_GPU_ENQUEUE_SCRATCH_LAYOUT_H
#define GQ_GPU_ENQUEUE_SCRATCH_LAYOUT_H

#include "kernels/agreement.h"
#include "src/transport/header.h"

namespace gq {

static_assert(sizeof(Header) == kAgreementWords * sizeof(uint32_t));
static_assert(kHeaderNormLow == kAgreementNormWord);

// Scratch: places in memory of the device.
inline constexpr size_t kOwnHeaderBytes = 0;
inline constexpr size_t kNormBytes = 64;
inline constexpr size_t kGateBytes = 68;
inline constexpr size_t kStepBytes = 72;      // and the index behind it
inline constexpr size_t kSkippedBytes = 80;   // of sparse entries: zero codes since the last one
inline constexpr size_t kHeadersBytes = 128;  // of all ranks; sparse entries of all ranks behind
                                              // them

/** Sparse calls have the number of entries in place of a header's norm. */
inline constexpr size_t kOwnCountBytes = kOwnHeaderBytes + kAgreementNormWord * sizeof(uint32_t);
static_assert(kOwnCountBytes % sizeof(uint64_t) == 0);

/** What devices compare of headers: all words but the number of the call, status and norm. */
inline constexpr uint32_t kComparedWords =
    ((1u << kAgreementNormWord) - 1) & ~(1u << kHeaderStatus | 1u << kHeaderSequence);

// Pinned: places in memory of the host. A disagreement that a call's own host waits for is of no
// interest later.
inline constexpr size_t kLateBytes = 0;
inline constexpr size_t kSeenBytes = sizeof(Disagreement);
inline constexpr size_t kCounterBytes = 2 * sizeof(Disagreement);
inline constexpr size_t kPinnedNormBytes = kCounterBytes + sizeof(uint64_t);
inline constexpr size_t kPinnedHeadersBytes =
    kPinnedNormBytes + sizeof(uint64_t);  // as on the scratch memory
static_assert(kCounterBytes % sizeof(uint64_t) == 0);

}  // namespace gq

#endif
