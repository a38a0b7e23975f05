// The header that every rank publishes before an operation: sixteen 32-bit words (docs/FORMAT.md,
// section 11). Transports carry it; src/execute fills and compares it.
#ifndef GQ_TRANSPORT_HEADER_H
#define GQ_TRANSPORT_HEADER_H

#include <stdint.h>

namespace gq {

inline constexpr uint32_t kWireVersion = 1;
inline constexpr uint32_t kHeaderMagic = 0x5147u << 16;

struct Header {
  uint32_t words[16] = {};
};
static_assert(sizeof(Header) == 64, "the header is 64 bytes on every wire");

enum HeaderWord : uint32_t {
  kHeaderMagicVersion = 0,
  kHeaderStatus = 1,
  kHeaderSequence = 2,
  kHeaderOperation = 3,
  kHeaderCountLow = 4,
  kHeaderCountHigh = 5,
  kHeaderFields = 6,
  kHeaderSeedLow = 7,
  kHeaderSeedHigh = 8,
  kHeaderStreamId = 9,
  kHeaderStep = 10,
  kHeaderIndex = 11,
  kHeaderTag = 12,
  kHeaderChunk = 13,
  kHeaderNormLow = 14,
  kHeaderNormHigh = 15,
};

// Beside the high bits of the count, which is at most 2^44; beside the quantizer's fields in
// kHeaderFields; beside the index in kHeaderIndex.
inline constexpr uint32_t kHeaderNodesShift = 16;
inline constexpr uint32_t kHeaderUncompressedShift = 25;
inline constexpr uint32_t kHeaderUncompressedNeverShift = 26;
inline constexpr uint32_t kHeaderDeviceShift = 27;
inline constexpr uint32_t kHeaderStepOnDeviceShift = 28;
inline constexpr uint32_t kHeaderCostsShift = 16;

// On streams, beside the number of the call: its rank continues whatever the others' headers have;
// and it does so because the call is part of a graph.
inline constexpr uint32_t kHeaderSpeculative = 1u << 31;
inline constexpr uint32_t kHeaderInGraph = 1u << 30;

}  // namespace gq

#endif
