// Packed codes and control messages, both as messages of the table; nothing here waits but wait().
#include "src/transport/custom/custom.h"

#include <inttypes.h>
#include <string.h>

#include <new>

#include "src/support/kept.h"
#include "src/transport/custom/custom_transport.h"

namespace gq {

CustomTransport::CustomTransport(const gqsgd_transport& table) : calls_(table) {
  // The author of the table keeps groups apart: there is no tag.
  set_group_rank({static_cast<uint32_t>(table.rank), static_cast<uint32_t>(table.size)});
}

Status CustomTransport::open() {
  const int32_t* const ids = calls_.table().node_ids;
  bool opened = false;
  controls_.reset(new (std::nothrow) ControlMessage[size() + 2]);
  try {
    control_numbers_.resize(size());
    if (ids != nullptr) nodes_.assign(ids, ids + size());
    opened = calls_.open();
  } catch (const std::bad_alloc&) {
    return fail(GQSGD_NO_MEMORY, "no memory for rank %u of %u", rank(), size());
  }
  if (!controls_ || !opened) {
    return fail(GQSGD_NO_MEMORY, "no memory for rank %u of %u", rank(), size());
  }
  return Status();
}

CustomTransport::~CustomTransport() {
  // A transport that cannot let go of the buffers keeps them: what comes late must land somewhere.
  if (!adopted_ || calls_.close()) return;
  keep(arena_.release());
  keep(controls_.release());
}

Status CustomTransport::arena(size_t size_bytes, unsigned char** base) {
  GQ_TRY(calls_.intact());
  if (size_bytes > arena_.size_bytes()) GQ_TRY(arena_.allocate_cleared(rank(), size_bytes));
  *base = arena_.base();
  return Status();
}

Status CustomTransport::send_control(uint64_t sequence, const ControlMessage& message) {
  GQ_TRY(calls_.intact());
  calls_.begin_call(sequence);
  ControlMessage& own = own_control(sequence) = message;
  counters_.header_bytes_sent += sizeof own * (size() - 1);
  if (calls_.table().allgather != nullptr) {
    const Status begun = calls_.allgather(own, controls_.get(), &gather_);
    gathering_ = begun.ok();
    return begun;
  }
  for (uint32_t distance = 1; distance < size(); ++distance) {
    const uint32_t peer = (rank() + size() - distance) % size();
    GQ_TRY(calls_.receive(peer, &controls_[peer], sizeof own));
  }
  for (uint32_t distance = 1; distance < size(); ++distance) {
    GQ_TRY(calls_.send((rank() + distance) % size(), &own, sizeof own));
  }
  return Status();
}

Status CustomTransport::receive_control(uint32_t peer, uint64_t sequence, ControlMessage* message,
                                        bool* there) {
  if (peer == rank()) {
    *there = true;
    *message = own_control(sequence);
    return Status();
  }
  *there = control_numbers_[peer] == sequence;
  if (!*there) GQ_TRY(take_control(peer, there));
  if (!*there) return Status();
  *message = controls_[peer];
  const uint32_t number = message->words[kControlSequence];
  if (message->words[kControlMagicVersion] >> 16 == kControlMagic >> 16 &&
      number == static_cast<uint32_t>(sequence)) {
    return Status();
  }
  if (has_checksum(own_control(sequence)) && !is_intact(*message)) return Status();
  abort_group(GQSGD_PROTOCOL, peer);
  return fail(GQSGD_PROTOCOL,
              "call %" PRIu64
              ": rank %u got %zu bytes from rank %u that are not its control message of this "
              "call: the transport mixes messages up, or rank %u is another program",
              sequence, rank(), sizeof *message, peer, peer);
}

Status CustomTransport::take_control(uint32_t peer, bool* there) {
  GQ_TRY(calls_.intact());
  if (calls_.table().allgather != nullptr) {
    if (gathering_) GQ_TRY(calls_.test(&gather_, "allgather"));
    if (!gather_.done) return Status();
    gathering_ = false;
    for (uint64_t& number : control_numbers_) number = calls_.sequence();
    *there = true;
    return Status();
  }
  TableRequest* request = nullptr;
  GQ_TRY(calls_.oldest_receive(peer, sizeof(ControlMessage), &request));
  if (!request->done) return Status();
  calls_.end_receive(peer);
  control_numbers_[peer] = calls_.sequence();
  *there = true;
  return Status();
}

Status CustomTransport::take_staging(size_t size_bytes, unsigned char** staged) {
  try {
    *staged = calls_.staging().take(size_bytes);
  } catch (const std::bad_alloc&) {
    return fail(GQSGD_NO_MEMORY, "rank %u: no memory for a message of %zu bytes with its checksum",
                rank(), size_bytes);
  }
  return Status();
}

/** The same words may be on their way to another rank, with a trailer that must not change any
 *  more: messages are numbered for each receiver. Then they are copied. */
Status CustomTransport::send_with_trailer(const Message& message) {
  unsigned char* const words = arena_.base() + message.here_bytes;
  unsigned char* const behind = words + message.size_bytes;
  const bool leaving = message.has_room && calls_.is_sending(words);
  const bool stays = leaving && memcmp(behind, message.trailer, sizeof *message.trailer) == 0;
  if (message.has_room && (stays || !leaving)) {
    if (!stays) memcpy(behind, message.trailer, sizeof *message.trailer);
    return calls_.send(message.peer, words, Staging::staged_bytes(message.size_bytes));
  }
  // Those of sends that are done come back before new ones are made.
  if (calls_.staging().is_empty(message.size_bytes)) GQ_TRY(calls_.reap_sends());
  unsigned char* staged = nullptr;
  GQ_TRY(take_staging(message.size_bytes, &staged));
  Staging::pack(staged, words, message.size_bytes, *message.trailer);
  return calls_.send(message.peer, staged, Staging::staged_bytes(message.size_bytes), staged);
}

Status CustomTransport::send(const Message& message) {
  GQ_TRY(calls_.intact());
  calls_.begin_moving();
  if (message.trailer != nullptr) {
    GQ_TRY(send_with_trailer(message));
  } else {
    GQ_TRY(calls_.send(message.peer, arena_.base() + message.here_bytes, message.size_bytes));
  }
  counters_.count_sent(message.size_bytes, message.value_count);
  // Stages take longer than a wire's buffers last: what is under way is helped on between them.
  GQ_TRY(calls_.progress(0));
  return calls_.sends().size() < TableCalls::kSendsMax ? Status() : calls_.reap_sends();
}

Status CustomTransport::expect(const Message& message) {
  GQ_TRY(calls_.intact());
  calls_.begin_moving();
  unsigned char* const place = arena_.base() + message.here_bytes;
  if (message.trailer == nullptr) return calls_.receive(message.peer, place, message.size_bytes);
  if (message.has_room) {
    return calls_.receive(message.peer, place, Staging::staged_bytes(message.size_bytes));
  }
  unsigned char* staged = nullptr;
  GQ_TRY(take_staging(message.size_bytes, &staged));
  return calls_.receive(message.peer, place, Staging::staged_bytes(message.size_bytes), staged);
}

Status CustomTransport::receive(const Message& message, const unsigned char** words) {
  GQ_TRY(calls_.intact());
  *words = nullptr;
  TableRequest* request = nullptr;
  const bool has_trailer = message.trailer != nullptr;
  const size_t come_bytes =
      has_trailer ? Staging::staged_bytes(message.size_bytes) : message.size_bytes;
  GQ_TRY(calls_.oldest_receive(message.peer, come_bytes, &request));
  if (!request->done) return Status();
  *words = request->place;
  if (has_trailer && message.has_room) {
    memcpy(message.trailer, *words + message.size_bytes, sizeof *message.trailer);
  } else if (has_trailer) {
    Staging::unpack(request->staged, request->place, message.size_bytes, message.trailer);
    calls_.staging().give_back(request->staged, message.size_bytes);
  }
  calls_.end_receive(message.peer);
  return Status();
}

/** Counted as if it were sent once: what the transport makes of it is its own matter. */
Status CustomTransport::begin_sum(const Sum& sum) {
  GQ_TRY(calls_.intact());
  calls_.begin_moving();
  GQ_TRY(calls_.allreduce(sum.addend, arena_.base() + sum.here_bytes, sum.addend_count, &sum_));
  counters_.count_sent(sum.addend_count * addend_bytes(sum.addend), sum.value_count);
  return Status();
}

Status CustomTransport::end_sum(bool* done) {
  GQ_TRY(calls_.intact());
  GQ_TRY(calls_.test(&sum_, "allreduce"));
  *done = sum_.done;
  return Status();
}

Status CustomTransport::flushed(bool* done) {
  GQ_TRY(calls_.intact());
  GQ_TRY(calls_.reap_sends());
  *done = calls_.sends().empty();
  return Status();
}

Status CustomTransport::wait(uint32_t slice_us) {
  GQ_TRY(calls_.intact());
  return calls_.progress(slice_us);
}

/** Between calls no thread makes progress: the query has to. */
Status CustomTransport::check() {
  GQ_TRY(calls_.intact());
  return calls_.progress(0);
}

Status create_custom(const gqsgd_transport& table, std::unique_ptr<HostTransport>* out,
                     CustomTransport** made) {
  std::unique_ptr<CustomTransport> transport(new (std::nothrow) CustomTransport(table));
  if (!transport)
    return fail(GQSGD_NO_MEMORY, "no memory for rank %d", static_cast<int>(table.rank));
  GQ_TRY(transport->open());
  *made = transport.get();
  *out = std::move(transport);
  return Status();
}

void adopt_table(CustomTransport* transport) { transport->adopt(); }

}  // namespace gq
