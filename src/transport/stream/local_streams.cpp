// A stream waits for the event behind a peer's words, copies them, and records one that the peer's
// stream waits for.
#include "src/transport/stream/local_streams.h"

#include <new>

namespace gq {
namespace {

class LocalStreams final : public SharedMemoryStreams {
 public:
  LocalStreams(SharedMemoryTransport& shared_memory, const StreamConfig& member,
               LocalMember* members, FusedShare* share)
      : SharedMemoryStreams(shared_memory, member),
        members_(members),
        own_(members[shared_memory.rank()]),
        fused_(shared_memory, *this, member, members, share) {}

  /** May throw std::bad_alloc. */
  Status attach() {
    GQ_TRY(open());
    reached_.resize(size());
    own_.fetched.resize(size());
    own_.left.reserve(kLeftMax);
    own_.device = &device();
    own_.ordinal = ordinal();
    return own_.ready != nullptr ? Status() : device().make_event(&own_.ready);
  }

  FusedKernels* fused() override {
    return device().fused != nullptr && size() <= kFusedRanksMax ? &fused_ : nullptr;
  }

 protected:
  void transfer_ownership(DeviceBuffer* memory) override {
    if (own_.left.size() < kLeftMax) own_.left.push_back(std::move(*memory));
  }
  void leak_in_use() override {
    SharedMemoryStreams::leak_in_use();
    own_.leaked = true;
  }

  Status show(const unsigned char* base, const Transfer*, size_t, StreamHandle stream) override {
    own_.base = base;
    return device().record(own_.ready, stream);
  }

  Status begin_fetching(uint32_t peer, size_t, StreamHandle stream) override {
    const LocalMember& member = members_[peer];
    bool direct = true;
    if (!reached_[peer] && member.ordinal != ordinal()) {
      GQ_TRY(device().reach(member.ordinal, &direct));
    }
    reached_[peer] = true;  // or copies take another way
    return device().wait(stream, member.ready);
  }

  Status fetch(const Transfer& transfer, unsigned char* to, StreamHandle stream) override {
    return device().copy(to, members_[transfer.peer].base + transfer.there_bytes,
                         transfer.size_bytes, stream);
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
    return device().wait(stream, members_[peer].fetched[rank()]);
  }

 private:
  static constexpr size_t kLeftMax = 8;

  LocalMember* const members_;
  LocalMember& own_;
  std::vector<bool> reached_;
  LocalFused fused_;
};

}  // namespace

LocalMember::~LocalMember() {
  if (device == nullptr) return;
  device->end_event(ready);
  for (EventHandle event : fetched) device->end_event(event);
}

Status open_local_streams(SharedMemoryTransport& shared_memory, const StreamConfig& member,
                          LocalMember* members, FusedShare* share,
                          std::unique_ptr<StreamTransport>* out) {
  try {
    auto made = std::make_unique<LocalStreams>(shared_memory, member, members, share);
    GQ_TRY(made->attach());
    *out = std::move(made);
    return Status();
  } catch (const std::bad_alloc&) {
    return fail(GQSGD_NO_MEMORY, "no memory for calls of rank %u on streams", shared_memory.rank());
  }
}

void forget_leaked(LocalMember* members, uint32_t ranks, FusedShare* share) {
  bool leaked = false;
  for (uint32_t rank = 0; rank < ranks; ++rank) leaked |= members[rank].leaked;
  if (!leaked) return;
  share->keep();
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    for (DeviceBuffer& memory : members[rank].left) memory.forget();
    members[rank].fused.buffers.forget();
    members[rank].fused.leave.forget();
  }
}

}  // namespace gq
