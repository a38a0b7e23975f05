// Trailers: written, compared, and what follows where they differ (docs/FORMAT.md, section 17).
#include "src/execute/message_checks.h"

#include <inttypes.h>

#include <algorithm>

namespace gq {
namespace {

/** Behind the words: what makes a message of another place or call differ. A mark has no words. */
uint32_t trailer_checksum(uint32_t words_checksum, uint64_t sequence, uint32_t number,
                          uint32_t mark) {
  const uint32_t behind[] = {static_cast<uint32_t>(sequence), number, mark};
  return crc32c(mark == 0 ? words_checksum : 0, behind, sizeof behind);
}

}  // namespace

void MessageChecks::open(HostTransport* host, ChecksumKind kind) {
  host_ = host;
  kind_ = kind;
  if (!on()) return;
  sent_.resize(host->size());
  received_.resize(host->size());
}

void MessageChecks::begin_call(uint64_t sequence, const char* operation) {
  sequence_ = sequence;
  operation_ = operation;
  found_ = false;
  failure_ = Status();
  std::fill(sent_.begin(), sent_.end(), 0);
  std::fill(received_.begin(), received_.end(), 0);
}

/** Of the trailer of message `number` to `receiver`. */
uint64_t MessageChecks::slot(uint64_t number, uint32_t receiver) const {
  return trailers_bytes_ + (number * host_->size() + receiver) * sizeof(Trailer);
}

Status MessageChecks::expect(Message message) {
  Trailer later;
  if (on()) message.trailer = &later;
  return host_->expect(message);
}

Status MessageChecks::send_checked(Message message, uint32_t words_checksum) {
  const uint32_t number = sent_[message.peer]++;
  Trailer trailer;
  if (found_) trailer.mark = damage_.found_by + 1;
  trailer.checksum = trailer_checksum(words_checksum, sequence_, number, trailer.mark);
  message.trailer = &trailer;
  message.trailer_bytes = slot(number, message.peer);
  return host_->send(message);
}

Status MessageChecks::receive_trailer(Message message, Trailer* trailer,
                                      const unsigned char** words) {
  message.trailer = trailer;
  message.trailer_bytes = slot(received_[message.peer], host_->rank());
  GQ_TRY(host_->receive(message, words));
  if (*words != nullptr) received_[message.peer] += 1;
  return Status();
}

Status MessageChecks::check(const Message& message, const MessageContent& content,
                            const Trailer& trailer, uint32_t words_checksum) {
  const uint32_t rank = host_->rank();
  const uint32_t number = received_[message.peer] - 1;
  const uint32_t expected = trailer_checksum(words_checksum, sequence_, number, trailer.mark);
  if (trailer.checksum != expected) {
    return take(
        {rank, message.peer, content.first_value},
        fail(GQSGD_INTEGRITY,
             "call %" PRIu64 ", %s: rank %u received message %u of rank %u, %zu bytes: %s of "
             "values %" PRIu64 " to %" PRIu64 ", in chunk %" PRIu64
             ", changed on their way or in memory: their checksum is 0x%08x and was 0x%08x when "
             "they were sent; hint: check the memory and the network adapters of both ranks",
             sequence_, operation_, rank, number, message.peer, message.size_bytes, content.words,
             content.first_value, content.first_value + content.value_count - 1,
             content.first_value / content.chunk_value_count, expected, trailer.checksum));
  }
  if (trailer.mark == 0) return Status();
  const uint32_t found_by = trailer.mark - 1;
  return take({found_by, Damage::kUnknown, content.first_value},
              fail(GQSGD_INTEGRITY,
                   "call %" PRIu64 ", %s: rank %u has no result: rank %u received a message that "
                   "was changed on its way (its error has the details), and what it sent from then "
                   "on, here rank %u's %s of values %" PRIu64 " to %" PRIu64 ", says nothing",
                   sequence_, operation_, rank, found_by, message.peer, content.words,
                   content.first_value, content.first_value + content.value_count - 1));
}

Enclosed MessageChecks::sealed(const unsigned char* values, size_t size_bytes) const {
  if (!on()) return {values, size_bytes};
  return {values, size_bytes, trailer_checksum(crc32c(0, values, size_bytes), sequence_, 0, 0)};
}

Status MessageChecks::check_enclosed(uint32_t sender, const Enclosed& values,
                                     uint64_t value_count) {
  if (!on()) return Status();
  received_[sender] += 1;
  Message message{};
  message.peer = sender;
  message.size_bytes = values.size_bytes;
  return check(message, {"inputs", 0, value_count, value_count},
               {values.checksum, 0}, crc32c(0, values.bytes, values.size_bytes));
}

Status MessageChecks::take_damaged_control(uint32_t sender, uint64_t sequence) {
  return take({host_->rank(), sender, Damage::kControlMessage},
              fail(GQSGD_INTEGRITY,
                   "call %" PRIu64 ", %s: rank %u received the control message of rank %u changed "
                   "on its way or in memory: its checksum does not fit its words; hint: check the "
                   "memory and the network adapters of both ranks",
                   sequence, operation_, host_->rank(), sender));
}

Status MessageChecks::take(Damage damage, Status failure) {
  if (!host_->has_messages_only()) {
    host_->abort_group(GQSGD_INTEGRITY,
                       damage.sender == Damage::kUnknown ? damage.found_by : damage.sender);
    return failure;
  }
  found_ = true;
  damage_ = damage;
  failure_ = failure;
  return Status();
}

}  // namespace gq
