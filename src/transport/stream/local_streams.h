// Ranks of one process on memory of its devices: words are copied from one rank's memory to
// another's, in the order of their streams.
#ifndef GQ_TRANSPORT_STREAM_LOCAL_STREAMS_H
#define GQ_TRANSPORT_STREAM_LOCAL_STREAMS_H

#include <memory>
#include <vector>

#include "src/transport/stream/local_fused.h"
#include "src/transport/stream/shared_memory_streams.h"

namespace gq {

/** What a rank shows its peers: written by its owner before a signal, read after it. All members go
 *  together, when the last rank has left: a peer may still be about to wait for an event. */
struct LocalMember {
  LocalMember() = default;
  ~LocalMember();
  LocalMember(const LocalMember&) = delete;
  LocalMember& operator=(const LocalMember&) = delete;

  const Device* device = nullptr;  ///< null while the rank has made no call on a stream
  int32_t ordinal = 0;
  const unsigned char* base = nullptr;  ///< of what is shown
  EventHandle ready = nullptr;          ///< behind what is shown
  /** For each peer, behind what was fetched from it. One for each, because it may be recorded again
   *  only when that peer has seen the last one. */
  std::vector<EventHandle> fetched;
  FusedMember fused;
  std::vector<DeviceBuffer> left;  ///< memory of a rank that is gone, and what is never freed of it
  bool leaked = false;
};

/** The end of the rank that is members[shared_memory.rank()]; members outlive it, and so does
 * `share`. */
Status open_local_streams(SharedMemoryTransport& shared_memory, const StreamConfig& member,
                          LocalMember* members, FusedShare* share,
                          std::unique_ptr<StreamTransport>* out);

/** Memory that streams still use, for which no wait is possible, is not freed. */
void forget_leaked(LocalMember* members, uint32_t ranks, FusedShare* share);

}  // namespace gq

#endif
