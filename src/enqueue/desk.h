// Where headers, norm, gate and what the host is told of them lie, beside the words of calls.
#ifndef GQ_ENQUEUE_DESK_H
#define GQ_ENQUEUE_DESK_H

#include "kernels/agreement.h"
#include "src/transport/header.h"

namespace gq {

static_assert(sizeof(Header) == kAgreementWords * sizeof(uint32_t));
static_assert(kHeaderNormLow == kAgreementNormWord);

// The desk: places in memory of the device.
inline constexpr size_t kOwnHeaderBytes = 0;
inline constexpr size_t kNormBytes = 64;
inline constexpr size_t kGateBytes = 68;
inline constexpr size_t kStepBytes = 72;  // and the index behind it
inline constexpr size_t kHeadersBytes = 128;

// The board: places in memory of the host. A disagreement that a call's own host waits for is of no
// interest later.
inline constexpr size_t kLateBytes = 0;
inline constexpr size_t kSeenBytes = sizeof(Disagreement);
inline constexpr size_t kCounterBytes = 2 * sizeof(Disagreement);
inline constexpr size_t kBoardHeadersBytes = kCounterBytes + sizeof(uint64_t);
static_assert(kCounterBytes % sizeof(uint64_t) == 0);

}  // namespace gq

#endif
