// Calls on memory of devices among ranks that share control blocks: hosts publish what they have
// enqueued on their streams, streams wait for each other's events. Derived classes copy words from
// one memory to another.
#ifndef GQ_TRANSPORT_STREAM_SHARED_MEMORY_STREAMS_H
#define GQ_TRANSPORT_STREAM_SHARED_MEMORY_STREAMS_H

#include <memory>
#include <vector>

#include "src/transport/shared_memory/shared_memory_transport.h"
#include "src/transport/stream/stream_transport.h"

namespace gq {

/** Receivers fetch. In every operation a rank first shows its words to those who will, then fetches
 *  the words of others, then releases its own when they have been fetched. No stream is made to
 *  wait for what has not been enqueued yet, so that streams cannot wait for each other in a cycle,
 *  whatever else they share; it is hosts that wait, with a deadline. */
class SharedMemoryStreams : public StreamTransport, protected StreamMemory {
 public:
  bool agrees_on_host() const final { return true; }
  StreamMemory& memory() final { return *this; }

  Status gather(const void* own, void* all, size_t size_bytes, StreamHandle stream) final;
  Status exchange(unsigned char* arena, const Transfer* transfers, size_t transfer_count,
                  StreamHandle stream) final;
  Status check() final { return shared_memory_.check(); }
  void abort_group(gqsgd_status cause, uint32_t culprit) final;
  TransportCounters counters() const final { return shared_memory_.counters(); }

  /** Barrier of the hosts of all ranks, to `what`. */
  Status wait_for_hosts(const char* what);
  /** Waits on the host for `event`, with the group's deadline. */
  Status wait_for_device(EventHandle event);

 protected:
  SharedMemoryStreams(SharedMemoryTransport& shared_memory, const StreamConfig& config)
      : StreamTransport(*config.device), shared_memory_(shared_memory), config_(config) {
    set_group_rank({shared_memory.rank(), shared_memory.size(), shared_memory.tag()});
    set_ordinal(config.ordinal);
  }

  /** May throw std::bad_alloc. */
  Status open();

  void leak_in_use() override { broken_.forget(); }

  /** Lets peers see the words at base + here_bytes of the transfers that send, once all that is on
   *  the stream now is done. */
  virtual Status show(const unsigned char* base, const Transfer* transfers, size_t transfer_count,
                      StreamHandle stream) = 0;
  /** Bytes up to `end_bytes` of what `peer` has shown are about to be fetched. */
  virtual Status begin_fetching(uint32_t peer, size_t end_bytes, StreamHandle stream) = 0;
  virtual Status fetch(const Transfer& transfer, unsigned char* to, StreamHandle stream) = 0;
  /** Everything has been: peers are notified, and release it behind this. */
  virtual Status end_fetching(StreamHandle stream) = 0;
  /** `peer` has fetched what was shown to it. */
  virtual Status let_go(uint32_t peer, StreamHandle stream) = 0;

  /** Whether the operation under way fetches from `peer`. */
  bool fetches_from(uint32_t peer) const { return (roles_[peer] & kGives) != 0; }
  SharedMemoryTransport& shared_memory() { return shared_memory_; }
  /** Waits for the next signal of `peer`, which is late to `what`. */
  Status await(uint32_t peer, const char* what);

 private:
  static constexpr uint8_t kGives = 1;  // the peer
  static constexpr uint8_t kTakes = 2;

  Status pass(unsigned char* base, const Transfer* transfers, size_t transfer_count,
              StreamHandle stream);
  Status fetch_all(unsigned char* base, const Transfer* transfers, size_t transfer_count,
                   StreamHandle stream);
  Status fetch_from(uint32_t peer, unsigned char* base, const Transfer* transfers,
                    size_t transfer_count, StreamHandle stream);
  Status signal_all(uint8_t role);

  SharedMemoryTransport& shared_memory_;
  const StreamConfig config_;
  std::vector<uint8_t> roles_;      // of each peer in the operation under way
  std::vector<Transfer> gathered_;  // what a gather is made of
};

}  // namespace gq

#endif
