// A stream waits for the event behind a peer's words, copies them, and records one that the peer's
// stream waits for in turn.
#include "src/transport/stream/local_streams.h"

#include <new>

namespace gq {
namespace {

class LocalStreams final : public BoardStreams {
 public:
  LocalStreams(BoardTransport& board, const StreamSeat& seat, LocalSeat* seats, FusedShare* share)
      : BoardStreams(board, seat),
        seats_(seats),
        own_(seats[board.rank()]),
        fused_(board, *this, seat, seats, share) {}

  /** May throw std::bad_alloc. */
  Status sit_down() {
    GQ_TRY(open());
    reached_.resize(size());
    own_.fetched.resize(size());
    own_.left.reserve(kLeftMax);
    own_.device = &device();
    own_.ordinal = ordinal();
    return own_.ready != nullptr ? Status() : device().make_event(&own_.ready);
  }

  void bequeath(DeviceBuffer* memory) override {
    if (own_.left.size() < kLeftMax) own_.left.push_back(std::move(*memory));
  }
  void leave_stuck() override {
    BoardStreams::leave_stuck();
    own_.stuck = true;
  }
  FusedKernels* fused() override {
    return device().fused != nullptr && size() <= kFusedRanksMax ? &fused_ : nullptr;
  }

 protected:
  Status show(const unsigned char* base, const Transfer*, size_t, StreamHandle stream) override {
    own_.base = base;
    return device().record(own_.ready, stream);
  }

  Status begin_fetching(uint32_t peer, size_t, StreamHandle stream) override {
    const LocalSeat& seat = seats_[peer];
    if (!reached_[peer] && seat.ordinal != ordinal()) GQ_TRY(device().reach(seat.ordinal));
    reached_[peer] = true;
    return device().wait(stream, seat.ready);
  }

  Status fetch(const Transfer& transfer, unsigned char* to, StreamHandle stream) override {
    return device().copy(to, seats_[transfer.peer].base + transfer.there_bytes, transfer.size_bytes,
                         stream);
  }

  Status end_fetching(StreamHandle stream) override {
    for (uint32_t peer = 0; peer < size(); ++peer) {
      if (!fetches_from(peer)) continue;
      EventHandle& fetched = own_.fetched[peer];
      if (fetched == nullptr) GQ_TRY(device().make_event(&fetched));
      GQ_TRY(device().record(fetched, stream));
    }
    return Status();
  }

  Status let_go(uint32_t peer, StreamHandle stream) override {
    return device().wait(stream, seats_[peer].fetched[rank()]);
  }

 private:
  static constexpr size_t kLeftMax = 8;

  LocalSeat* const seats_;
  LocalSeat& own_;
  std::vector<bool> reached_;
  LocalFused fused_;
};

}  // namespace

LocalSeat::~LocalSeat() {
  if (device == nullptr) return;
  device->end_event(ready);
  for (EventHandle event : fetched) device->end_event(event);
}

Status open_local_streams(BoardTransport& board, const StreamSeat& seat, LocalSeat* seats,
                          FusedShare* share, std::unique_ptr<StreamTransport>* out) {
  try {
    auto made = std::make_unique<LocalStreams>(board, seat, seats, share);
    GQ_TRY(made->sit_down());
    *out = std::move(made);
    return Status();
  } catch (const std::bad_alloc&) {
    return fail(GQSGD_NO_MEMORY, "no memory for calls of rank %u on streams", board.rank());
  }
}

void forget_stuck(LocalSeat* seats, uint32_t ranks, FusedShare* share) {
  bool stuck = false;
  for (uint32_t rank = 0; rank < ranks; ++rank) stuck |= seats[rank].stuck;
  if (!stuck) return;
  share->keep();
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    for (DeviceBuffer& memory : seats[rank].left) memory.forget();
    seats[rank].fused.room.forget();
    seats[rank].fused.leave.forget();
  }
}

}  // namespace gq
