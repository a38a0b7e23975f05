// The checksum of a control message.
#include "src/transport/control_message.h"

#include "kernels/checksum/crc32c.h"

namespace gq {
namespace {

uint32_t checksum_of(const ControlMessage& message) {
  return crc32c(0, message.words, kControlChecksum * sizeof message.words[0]);
}

}  // namespace

void seal(ControlMessage* message, ChecksumKind kind) {
  message->words[kControlChecksumKind] = static_cast<uint32_t>(kind);
  const bool has_checksum = kind == ChecksumKind::crc32c;
  message->words[kControlChecksum] = has_checksum ? checksum_of(*message) : 0;
}

bool is_intact(const ControlMessage& message) {
  const uint32_t checksum = message.words[kControlChecksum];
  return checksum == (has_checksum(message) ? checksum_of(message) : 0);
}

}  // namespace gq
