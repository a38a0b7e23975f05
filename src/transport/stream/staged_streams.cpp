// Words are copied to the own arena, where peers read them from when the host has seen them arrive.
#include "src/transport/stream/staged_streams.h"

#include <algorithm>

namespace gq {
namespace {

/** Results go to every peer from the same place: those of the first one have it already. */
bool is_shown(const Transfer* transfers, size_t number) {
  const Transfer& wanted = transfers[number];
  const Transfer* first = nullptr;
  for (size_t k = 0; k < number; ++k) {
    const Transfer& shown = transfers[k];
    if (!shown.sends) continue;
    if (first == nullptr) first = &shown;
    if (shown.peer != first->peer) return false;
    if (shown.here_bytes == wanted.here_bytes && shown.size_bytes == wanted.size_bytes) {
      return true;
    }
  }
  return false;
}

}  // namespace

Status StagedStreams::attach() {
  GQ_TRY(open());
  return device().make_event(&passed_);
}

/** Words lie at the same place of the arena at the control blocks as of the device's. */
Status StagedStreams::show(const unsigned char* base, const Transfer* transfers,
                           size_t transfer_count, StreamHandle stream) {
  size_t end_bytes = 0;
  for (size_t k = 0; k < transfer_count; ++k) {
    const Transfer& transfer = transfers[k];
    if (transfer.sends) end_bytes = std::max(end_bytes, transfer.here_bytes + transfer.size_bytes);
  }
  if (end_bytes == 0) return Status();
  unsigned char* shown = nullptr;
  GQ_TRY(shared_memory().arena(end_bytes, &shown));
  for (size_t k = 0; k < transfer_count; ++k) {
    const Transfer& transfer = transfers[k];
    if (!transfer.sends || is_shown(transfers, k)) continue;
    GQ_TRY(device().copy(shown + transfer.here_bytes, base + transfer.here_bytes,
                         transfer.size_bytes, stream));
  }
  return wait_until_passed(stream);
}

/** All of it at once: a peer's arena may move when more of it comes into reach, and must not while
 *  it is copied from. */
Status StagedStreams::begin_fetching(uint32_t peer, size_t end_bytes, StreamHandle) {
  return shared_memory().words_of(peer, 0, end_bytes, &shown_there_);
}

Status StagedStreams::fetch(const Transfer& transfer, unsigned char* to, StreamHandle stream) {
  return device().copy(to, shown_there_ + transfer.there_bytes, transfer.size_bytes, stream);
}

Status StagedStreams::end_fetching(StreamHandle stream) {
  for (uint32_t peer = 0; peer < size(); ++peer) {
    if (fetches_from(peer)) return wait_until_passed(stream);
  }
  return Status();
}

Status StagedStreams::wait_until_passed(StreamHandle stream) {
  GQ_TRY(device().record(passed_, stream));
  return wait_for_device(passed_);
}

}  // namespace gq
