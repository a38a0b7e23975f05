// Ranks that share host memory alone, on memory of devices: words go through their arenas at the
// control blocks.
#ifndef GQ_TRANSPORT_STREAM_STAGED_STREAMS_H
#define GQ_TRANSPORT_STREAM_STAGED_STREAMS_H

#include "src/transport/stream/shared_memory_streams.h"

namespace gq {

/** Hosts wait for their own streams and then notify each other, so that no stream ever waits for
 *  another process, which may die. */
class StagedStreams : public SharedMemoryStreams {
 public:
  ~StagedStreams() override { device().end_event(passed_); }

 protected:
  StagedStreams(SharedMemoryTransport& shared_memory, const StreamConfig& config)
      : SharedMemoryStreams(shared_memory, config) {}

  /** May throw std::bad_alloc. */
  Status attach();

  Status show(const unsigned char* base, const Transfer* transfers, size_t transfer_count,
              StreamHandle stream) override;
  Status begin_fetching(uint32_t peer, size_t end_bytes, StreamHandle stream) override;
  Status fetch(const Transfer& transfer, unsigned char* to, StreamHandle stream) final;
  Status end_fetching(StreamHandle stream) final;
  Status let_go(uint32_t, StreamHandle) final { return Status(); }

  /** What the peer at hand has shown is fetched from there. */
  void set_shown(const unsigned char* shown_there) { shown_there_ = shown_there; }
  Status wait_until_passed(StreamHandle stream);

 private:
  EventHandle passed_ = nullptr;
  const unsigned char* shown_there_ = nullptr;
};

}  // namespace gq

#endif
