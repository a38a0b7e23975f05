// Messages of words between the ranks of a call, with checksums if the communicator has them: what
// was changed on its way is found where it arrives. One object for each rank.
#ifndef GQ_EXECUTE_MESSAGE_CHECKS_H
#define GQ_EXECUTE_MESSAGE_CHECKS_H

#include <stddef.h>
#include <stdint.h>

#include <algorithm>
#include <vector>

#include "kernels/checksum/crc32c.h"
#include "src/transport/host_transport.h"

namespace gq {

/** What a message has, for sentences. */
struct MessageContent {
  const char* words;  ///< "codes"
  uint64_t first_value;
  uint64_t value_count;
  uint64_t chunk_value_count;
};

/** A message that was changed: who sent it, who found it. */
struct Damage {
  static constexpr uint64_t kControlMessage = UINT64_MAX;
  static constexpr uint32_t kUnknown = UINT32_MAX;

  uint32_t found_by = 0;
  uint32_t sender = kUnknown;
  uint64_t first_value = 0;  ///< kControlMessage: it was no message of words
};

/** After a message that was changed, a rank whose transport notifies its peers fails. Any other one
 *  goes on to the end of the call, so that no rank waits in vain: it computes nothing any more, and
 *  all that it sends is a mark, which does the same to its receiver. */
class MessageChecks {
 public:
  /** May throw std::bad_alloc. */
  void open(HostTransport* host, ChecksumKind kind);
  ChecksumKind kind() const { return kind_; }
  bool on() const { return kind_ != ChecksumKind::off; }
  /** Whether layouts leave room for trailers. */
  bool wants_room() const { return on() && host_->has_messages_only(); }

  /** A new call, by the number of its first control message. */
  void begin_call(uint64_t sequence, const char* operation);
  /** On transports that read in place: trailers begin at `begin_bytes` in all arenas, and this
   *  rank's need as many as are returned. next(&peer) is true for each message of the call's moves,
   *  and false then. */
  template <typename Next>
  size_t place_trailers(size_t begin_bytes, Next next) {
    trailers_bytes_ = begin_bytes;
    for (uint32_t peer = 0; next(&peer);) sent_[peer] += 1;
    // One more for what comes before the moves: norms of segments, or sparse entries.
    const size_t most = size_t{1} + *std::max_element(sent_.begin(), sent_.end());
    std::fill(sent_.begin(), sent_.end(), 0);
    return most * sent_.size() * sizeof(Trailer);
  }

  Status expect(Message message);
  /** words_checksum() is that of the words to send. */
  template <typename Checksum>
  Status send(Message message, Checksum words_checksum) {
    if (!on()) return host_->send(message);
    return send_checked(message, found_ ? 0 : words_checksum());
  }
  /** words_checksum(words) is that of the words that came; *words is null while none have. */
  template <typename Checksum>
  Status receive(Message message, const MessageContent& content, const unsigned char** words,
                 Checksum words_checksum) {
    if (!on()) return host_->receive(message, words);
    Trailer trailer;
    GQ_TRY(receive_trailer(message, &trailer, words));
    if (*words == nullptr || found_) return Status();
    return check(message, content, trailer, trailer.mark == 0 ? words_checksum(*words) : 0);
  }
  /** The same of words that lie one behind the other. */
  Status send_words(const Message& message, const void* words) {
    return send(message, [&] { return crc32c(0, words, message.size_bytes); });
  }
  Status receive_words(const Message& message, const MessageContent& content,
                       const unsigned char** words) {
    return receive(message, content, words, [&](const unsigned char* there) {
      return crc32c(0, there, message.size_bytes);
    });
  }

  /** Values of this rank, which travel with its control message, and the checksum that they have
   *  there. */
  Enclosed sealed(const unsigned char* values, size_t size_bytes) const;
  /** What came with the control message of `sender`. */
  Status check_enclosed(uint32_t sender, const Enclosed& values, uint64_t value_count);

  /** The control message of `sender` was changed. */
  Status take_damaged_control(uint32_t sender, uint64_t sequence);

  /** True if words of this call were changed and this rank goes on to its end. */
  bool found() const { return found_; }
  const Damage& damage() const { return damage_; }
  /** How the call ends then. */
  const Status& failure() const { return failure_; }

 private:
  uint64_t slot(uint64_t number, uint32_t receiver) const;
  Status send_checked(Message message, uint32_t words_checksum);
  Status receive_trailer(Message message, Trailer* trailer, const unsigned char** words);
  Status check(const Message& message, const MessageContent& content, const Trailer& trailer,
               uint32_t words_checksum);
  Status take(Damage damage, Status failure);

  HostTransport* host_ = nullptr;
  ChecksumKind kind_ = ChecksumKind::off;
  uint64_t sequence_ = 0;
  const char* operation_ = "";
  size_t trailers_bytes_ = 0;
  std::vector<uint32_t> sent_;      // messages of this call, to each rank
  std::vector<uint32_t> received_;  // from each rank
  bool found_ = false;
  Damage damage_;
  Status failure_;
};

}  // namespace gq

#endif
