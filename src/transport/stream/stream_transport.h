// Ranks that exchange words in device memory, in stream order: the transport of calls that are
// enqueued on a stream.
#ifndef GQ_TRANSPORT_STREAM_STREAM_TRANSPORT_H
#define GQ_TRANSPORT_STREAM_STREAM_TRANSPORT_H

#include <atomic>
#include <vector>

#include "src/gpu/device/buffer.h"
#include "src/transport/stream/fused_kernels.h"
#include "src/transport/transport.h"

namespace gq {

/** Words that go to a peer or come from one; `here_bytes` is their place in the own arena, and
 *  `there_bytes` of a receive the one in the sender's. */
struct Transfer {
  uint32_t peer;
  bool sends;
  size_t here_bytes;
  size_t size_bytes;
  size_t there_bytes = 0;
  uint64_t value_count = 0;  ///< of what is sent, to be counted: 0 for norms
};

/** What a rank's end on streams is made with; all of it outlives that end. */
struct StreamConfig {
  const Device* device;
  int32_t ordinal;
  const std::atomic<int64_t>* timeout_ms;  ///< -1: for ever
  SharedCounter* wait_ns;                  ///< grows by what the host waits for peers
};

/** Every rank enqueues the same operations in the same order. None waits for a device; a failure of
 *  one, at once or found later by check(), breaks the group. */
class StreamTransport : public Transport {
 public:
  virtual const Device& device() const = 0;
  /** The device that the group's memory is on. */
  virtual int32_t ordinal() const = 0;

  /** The `size_bytes` of every rank, in rank order. */
  virtual Status gather(const void* own, void* all, size_t size_bytes, StreamHandle stream) = 0;
  /** All transfers at once: between two ranks, the k-th sent is the k-th received. */
  virtual Status exchange(unsigned char* arena, const Transfer* transfers, size_t transfer_count,
                          StreamHandle stream) = 0;
  /** True if the hosts of ranks wait for each other in every operation, so that headers may as well
   *  be compared there: by publish() and peer_header() of the endpoint's transport. */
  virtual bool agrees_on_host() const { return false; }
  /** True if sum() works. */
  virtual bool can_sum() const { return true; }
  /** The sum over all ranks takes the place of the words, which stand for `value_count` values. */
  virtual Status sum(Addend addend, void* words, uint64_t addend_count, uint64_t value_count,
                     StreamHandle stream) = 0;
  /** All ranks have agreed on a call that has words, and are about to fill their streams with it.
   */
  virtual Status begin_call() { return Status(); }
  /** Makes the memory that words are exchanged in at least `size_bytes` long; what was in it is
   * lost where it grows. Nothing of this end may be using it. */
  virtual Status reserve(DeviceBuffer* memory, size_t size_bytes) {
    return memory->reserve(device(), size_bytes);
  }
  /** True if peers may have that memory open for as long as they are there. */
  virtual bool lends_memory() const { return false; }

  /** Null where kernels of ranks cannot wait for each other. */
  virtual FusedKernels* fused() { return nullptr; }
  /** A word that the device reads: not 0 once the group is broken. */
  virtual const uint32_t* broken_word() const = 0;

  /** Memory of this end, which goes away, where the group is broken or memory is lent: what of it
   *  peers may still read or have open is taken over. */
  virtual void transfer_ownership(DeviceBuffer* /*memory*/) {}
  /** The same, but streams of this end do not get through: what they use is never freed. */
  virtual void leak_in_use() {}

  /** Headers that have come to the host, for peer_header(). */
  virtual void show_headers(const Header* headers) = 0;

  StreamTransport* on_streams() final { return this; }
  bool has_streams() const final { return true; }
  bool reads_in_place() const final { return false; }
  Status arena(size_t size_bytes, unsigned char** base) final;
  Status publish(uint64_t sequence, const Header& header) final;
  Status send(const Message& message) final;
  Status expect(const Message& message) final;
  Status receive(const Message& message, const unsigned char** words) final;
  const unsigned char* view(const Message&) const final { return nullptr; }
  Status flushed(bool* done) final;
};

}  // namespace gq

#endif
