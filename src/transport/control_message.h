// The control message that every rank sends before an operation: twenty 32-bit words, which
// docs/FORMAT.md, section 11, calls the header. Transports carry it; src/call fills and compares
// it.
#ifndef GQ_TRANSPORT_CONTROL_MESSAGE_H
#define GQ_TRANSPORT_CONTROL_MESSAGE_H

#include <stdint.h>

namespace gq {

inline constexpr uint32_t kWireVersion = 2;
inline constexpr uint32_t kControlMagic = 0x5147u << 16;

inline constexpr uint32_t kControlWordCount = 20;

struct ControlMessage {
  uint32_t words[kControlWordCount] = {};
};
static_assert(sizeof(ControlMessage) == 80, "a control message is 80 bytes on every wire");

enum ControlWord : uint32_t {
  kControlMagicVersion = 0,
  kControlStatus = 1,
  kControlSequence = 2,
  kControlOperation = 3,
  kControlCountLow = 4,
  kControlCountHigh = 5,
  kControlFields = 6,
  kControlSeedLow = 7,
  kControlSeedHigh = 8,
  kControlStreamId = 9,
  kControlStep = 10,
  kControlIndex = 11,
  kControlTag = 12,
  kControlChunk = 13,
  kControlNormLow = 14,
  kControlNormHigh = 15,
  kControlDigestLow = 16,  ///< of the words that the newest call decoded; high half behind it
  kControlDigestHigh = 17,
  kControlChecksumKind = 18,  ///< ChecksumKind of the communicator
  kControlChecksum = 19,      ///< of all words before it; 0 without checksums
};

/** What messages of a communicator have behind their words. */
enum class ChecksumKind : uint32_t { off = 0, crc32c = 1 };

/** Of the results of the call before. */
inline uint64_t digest_of(const ControlMessage& message) {
  const uint64_t high = message.words[kControlDigestHigh];
  return high << 32 | message.words[kControlDigestLow];
}

/** Writes the last two words. */
void seal(ControlMessage* message, ChecksumKind kind);
inline bool has_checksum(const ControlMessage& message) {
  return message.words[kControlChecksumKind] != static_cast<uint32_t>(ChecksumKind::off);
}
/** False if a message of a rank with checksums was changed behind seal(). One of a rank without
 *  them passes: its difference is found when the ranks' messages are compared. */
bool is_intact(const ControlMessage& message);

// Beside the high bits of the count, which is at most 2^44; beside the quantizer's fields in
// kControlFields; beside the index in kControlIndex.
inline constexpr uint32_t kControlNodesShift = 16;
inline constexpr uint32_t kControlAsFloat32Shift = 25;
inline constexpr uint32_t kControlUncompressedNeverShift = 26;
inline constexpr uint32_t kControlDeviceShift = 27;
inline constexpr uint32_t kControlStepOnDeviceShift = 28;
inline constexpr uint32_t kControlAsBf16Shift = 30;  // bit 29 is the quantizer's
inline constexpr uint32_t kControlCostsShift = 16;

// On streams, beside the number of the call: its rank continues whatever the others' control
// messages have; and it does so because the call is part of a graph.
inline constexpr uint32_t kControlSpeculative = 1u << 31;
inline constexpr uint32_t kControlInGraph = 1u << 30;

}  // namespace gq

#endif
