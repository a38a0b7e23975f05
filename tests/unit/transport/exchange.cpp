// The operation, driven like the library drives its own: poll, and wait only when nothing moved.
#include "tests/unit/transport/exchange.h"

#include <string.h>

#include "src/support/clock.h"

namespace gq::test {
namespace {

constexpr uint32_t kSliceUs = 5000;

uint32_t word_of(uint32_t sender, uint32_t receiver, uint64_t sequence, size_t index) {
  return (sender * 2654435761u) ^ (receiver * 40503u) ^ static_cast<uint32_t>(sequence * 97) ^
         static_cast<uint32_t>(index);
}

Message message_between(uint32_t peer, uint32_t sender, uint32_t receiver, size_t message_bytes) {
  return Message{peer, sender, sender, receiver * message_bytes, message_bytes, 0};
}

Status give_up(HostTransport& transport, uint32_t culprit) {
  transport.abort_group(GQSGD_TIMEOUT, transport.culprit_behind(culprit));
  return transport.check();
}

Status compare(HostTransport& transport, uint32_t peer, uint64_t sequence, size_t message_bytes,
               const unsigned char* bytes) {
  for (size_t index = 0; index < message_bytes / sizeof(uint32_t); ++index) {
    uint32_t word;
    memcpy(&word, bytes + index * sizeof word, sizeof word);
    const uint32_t expected = word_of(peer, transport.rank(), sequence, index);
    if (word == expected) continue;
    return fail(GQSGD_INTERNAL, "word %zu from rank %u in operation %llu is %#x, not %#x", index,
                peer, static_cast<unsigned long long>(sequence), word, expected);
  }
  return Status();
}

}  // namespace

std::string text_of(Status status) {
  if (status.ok()) return "OK";
  return std::string(gqsgd_status_name(status.code())) + ": " + status.sentence();
}

ControlMessage control_of(uint32_t rank, uint64_t sequence) {
  ControlMessage message;
  for (uint32_t word = 0; word < kControlWordCount; ++word) {
    message.words[word] = word_of(rank, 0, sequence, word);
  }
  return message;
}

Status agree(HostTransport& transport, uint64_t sequence, int64_t timeout_ms) {
  const uint64_t deadline_us = deadline_after_ms(timeout_ms);
  GQ_TRY(transport.send_control(sequence, control_of(transport.rank(), sequence)));
  for (uint32_t peer = 0; peer < transport.size();) {
    ControlMessage message;
    bool there = false;
    GQ_TRY(transport.receive_control(peer, sequence, &message, &there));
    if (there) {
      const ControlMessage expected = control_of(peer, sequence);
      if (memcmp(&message, &expected, sizeof message) != 0) {
        return fail(GQSGD_INTERNAL, "control message %llu of rank %u is not the one it sent",
                    static_cast<unsigned long long>(sequence), peer);
      }
      ++peer;
      continue;
    }
    GQ_TRY(transport.wait(kSliceUs));
    if (monotonic_us() > deadline_us) return give_up(transport, peer);
  }
  return Status();
}

Status receive_blocking(HostTransport& transport, const Message& message,
                        const unsigned char** words, int64_t timeout_ms) {
  const uint64_t deadline_us = deadline_after_ms(timeout_ms);
  for (;;) {
    GQ_TRY(transport.receive(message, words));
    if (*words != nullptr) return Status();
    GQ_TRY(transport.wait(kSliceUs));
    if (monotonic_us() > deadline_us) return give_up(transport, message.peer);
  }
}

Status exchange(HostTransport& transport, uint64_t sequence, size_t message_bytes,
                int64_t timeout_ms) {
  GQ_TRY(agree(transport, sequence, timeout_ms));
  const uint32_t self = transport.rank();
  unsigned char* arena = nullptr;
  GQ_TRY(transport.arena(transport.size() * message_bytes, &arena));
  for (uint32_t peer = 0; peer < transport.size(); ++peer) {
    if (peer == self) continue;
    const Message message = message_between(peer, self, peer, message_bytes);
    for (size_t index = 0; index < message_bytes / sizeof(uint32_t); ++index) {
      const uint32_t word = word_of(self, peer, sequence, index);
      memcpy(arena + message.offset_bytes + index * sizeof word, &word, sizeof word);
    }
    GQ_TRY(transport.send(message));
  }
  for (uint32_t peer = 0; peer < transport.size(); ++peer) {
    if (peer == self) continue;
    const Message message = message_between(peer, peer, self, message_bytes);
    const unsigned char* words = nullptr;
    GQ_TRY(receive_blocking(transport, message, &words, timeout_ms));
    GQ_TRY(compare(transport, peer, sequence, message_bytes, words));
  }
  bool done = false;
  GQ_TRY(transport.flushed(&done));
  return done ? Status() : fail(GQSGD_INTERNAL, "rank %u has not flushed", self);
}

}  // namespace gq::test
