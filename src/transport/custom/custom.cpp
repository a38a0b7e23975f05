// Words and headers as messages; nothing here waits but wait().
#include "src/transport/custom/custom.h"

#include <inttypes.h>

#include <new>

#include "src/support/catch_all.h"
#include "src/transport/custom/custom_transport.h"

namespace gq {
namespace {

constexpr size_t kArenaAlignmentBytes = 4096;

// Sends that are done are looked for when so many have piled up.
constexpr size_t kSendsMax = 64;

}  // namespace

Status CustomTransport::open() {
  headers_.reset(new (std::nothrow) Header[size() + 2]);
  try {
    header_numbers_.resize(size());
    if (table_.node_ids != nullptr) nodes_.assign(table_.node_ids, table_.node_ids + size());
    sends_.reserve(2 * kSendsMax);
  } catch (const std::bad_alloc&) {
    return fail(GQSGD_NO_MEMORY, "no memory for rank %u of %u", rank(), size());
  }
  if (!headers_ || !receives_.resize(size())) {
    return fail(GQSGD_NO_MEMORY, "no memory for rank %u of %u", rank(), size());
  }
  return Status();
}

CustomTransport::~CustomTransport() {
  if (!adopted_) return;
  // A transport that cannot let go of the buffers keeps them: what comes late must land somewhere.
  int32_t code = 0;
  ThrownText unheard;
  if (!throws([&] { code = table_.close(table_.user); }, &unheard) && code == 0) return;
  (void)arena_.release();
  (void)headers_.release();
}

Status CustomTransport::arena(size_t size_bytes, unsigned char** base) {
  GQ_TRY(intact());
  if (size_bytes > arena_bytes_) {
    if (size_bytes > PTRDIFF_MAX - kArenaAlignmentBytes) {
      return fail(GQSGD_NO_MEMORY, "rank %u: no arena of %zu bytes", rank(), size_bytes);
    }
    const size_t grown_bytes =
        (size_bytes + kArenaAlignmentBytes - 1) / kArenaAlignmentBytes * kArenaAlignmentBytes;
    arena_.reset();
    arena_bytes_ = 0;
    arena_.reset(static_cast<unsigned char*>(aligned_alloc(kArenaAlignmentBytes, grown_bytes)));
    if (!arena_)
      return fail(GQSGD_NO_MEMORY, "rank %u: no arena of %zu bytes", rank(), grown_bytes);
    arena_bytes_ = grown_bytes;
  }
  *base = arena_.get();
  return Status();
}

Status CustomTransport::publish(uint64_t sequence, const Header& header) {
  GQ_TRY(intact());
  sequence_ = sequence;
  moving_ = false;
  Header& own = own_header(sequence) = header;
  counters_.header_bytes_sent += sizeof own * (size() - 1);
  if (table_.allgather != nullptr) return start_allgather(own);
  for (uint32_t distance = 1; distance < size(); ++distance) {
    const uint32_t peer = (rank() + size() - distance) % size();
    GQ_TRY(start_receive(peer, &headers_[peer], sizeof own));
  }
  for (uint32_t distance = 1; distance < size(); ++distance) {
    GQ_TRY(start_send((rank() + distance) % size(), &own, sizeof own));
  }
  return Status();
}

Status CustomTransport::peer_header(uint32_t peer, uint64_t sequence, Header* header, bool* there) {
  if (peer == rank()) {
    *there = true;
    *header = own_header(sequence);
    return Status();
  }
  *there = header_numbers_[peer] == sequence;
  if (!*there) GQ_TRY(take_header(peer, there));
  if (!*there) return Status();
  *header = headers_[peer];
  const uint32_t number = header->words[kHeaderSequence];
  if (header->words[kHeaderMagicVersion] >> 16 == kHeaderMagic >> 16 &&
      number == static_cast<uint32_t>(sequence)) {
    return Status();
  }
  abort_group(GQSGD_PROTOCOL, peer);
  return fail(GQSGD_PROTOCOL,
              "call %" PRIu64
              ": rank %u got %zu bytes from rank %u that are not its control message of this "
              "call: the transport mixes messages up, or rank %u is another program",
              sequence, rank(), sizeof *header, peer, peer);
}

Status CustomTransport::take_header(uint32_t peer, bool* there) {
  GQ_TRY(intact());
  if (table_.allgather != nullptr) {
    if (gathering_) GQ_TRY(test(&gather_, "allgather"));
    if (!gather_.done) return Status();
    gathering_ = false;
    for (uint64_t& number : header_numbers_) number = sequence_;
    *there = true;
    return Status();
  }
  TableRequest* request = nullptr;
  GQ_TRY(front_of(peer, sizeof(Header), &request));
  if (!request->done) return Status();
  receives_.pop(peer);
  header_numbers_[peer] = sequence_;
  *there = true;
  return Status();
}

Status CustomTransport::send(const Message& message) {
  GQ_TRY(intact());
  moving_ = true;
  GQ_TRY(start_send(message.peer, arena_.get() + message.here_bytes, message.size_bytes));
  counters_.count_sent(message.size_bytes, message.value_count);
  // Stages take longer than a wire's buffers last: what is under way is helped on between them.
  GQ_TRY(progress(0));
  return sends_.size() < kSendsMax ? Status() : reap_sends();
}

Status CustomTransport::expect(const Message& message) {
  GQ_TRY(intact());
  moving_ = true;
  return start_receive(message.peer, arena_.get() + message.here_bytes, message.size_bytes);
}

Status CustomTransport::receive(const Message& message, const unsigned char** words) {
  GQ_TRY(intact());
  *words = nullptr;
  TableRequest* request = nullptr;
  GQ_TRY(front_of(message.peer, message.size_bytes, &request));
  if (!request->done) return Status();
  *words = request->place;
  receives_.pop(message.peer);
  return Status();
}

/** Counted as if it were sent once: what the transport makes of it is its own matter. */
Status CustomTransport::begin_sum(const Sum& sum) {
  GQ_TRY(intact());
  moving_ = true;
  GQ_TRY(start_sum(sum));
  counters_.count_sent(sum.addend_count * addend_bytes(sum.addend), sum.value_count);
  return Status();
}

Status CustomTransport::end_sum(bool* done) {
  GQ_TRY(intact());
  GQ_TRY(test(&sum_, "allreduce"));
  *done = sum_.done;
  return Status();
}

Status CustomTransport::flushed(bool* done) {
  GQ_TRY(intact());
  GQ_TRY(reap_sends());
  *done = sends_.empty();
  return Status();
}

Status CustomTransport::wait(uint32_t slice_us) {
  GQ_TRY(intact());
  return progress(slice_us);
}

/** Between calls no thread makes progress: the query has to. */
Status CustomTransport::check() {
  GQ_TRY(intact());
  return progress(0);
}

Status create_custom(const gqsgd_transport& table, std::unique_ptr<Transport>* out) {
  std::unique_ptr<CustomTransport> transport(new (std::nothrow) CustomTransport(table));
  if (!transport)
    return fail(GQSGD_NO_MEMORY, "no memory for rank %d", static_cast<int>(table.rank));
  GQ_TRY(transport->open());
  *out = std::move(transport);
  return Status();
}

void adopt_table(Transport& transport) { static_cast<CustomTransport&>(transport).adopt(); }

}  // namespace gq
