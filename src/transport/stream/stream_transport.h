// Ranks that exchange words in device memory, in stream order: the transport of calls that are
// enqueued on a stream.
#ifndef GQ_TRANSPORT_STREAM_STREAM_TRANSPORT_H
#define GQ_TRANSPORT_STREAM_STREAM_TRANSPORT_H

#include <atomic>

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

/** Transfers by which every rank sends one block to all others: the block of rank r comes to
 *  all_bytes + r * size_bytes, so that they are a gather as well. */
struct SharedBlocks {
  size_t own_bytes;   ///< the place of the own block
  size_t all_bytes;   ///< of all of them, the own one included
  size_t size_bytes;  ///< of each; the last ones may have less to send
};

/** What a rank's end on streams is made with; all of it outlives that end. */
struct StreamConfig {
  const Device* device;
  int32_t ordinal;
  const std::atomic<int64_t>* timeout_ms;  ///< -1: for ever
  SharedCounter* wait_ns;                  ///< grows by what the host waits for peers
};

/** An allreduce that a transport has by itself. */
class StreamSums {
 public:
  virtual ~StreamSums() = default;

  /** The sum over all ranks takes the place of the words, which stand for `value_count` values. */
  virtual Status sum(Addend addend, void* words, uint64_t addend_count, uint64_t value_count,
                     StreamHandle stream) = 0;
};

/** The memory that words are exchanged in, as far as peers read it by themselves. As it is here
 *  none does: the memory is its owner's alone. */
class StreamMemory {
 public:
  virtual ~StreamMemory() = default;

  /** Makes `memory` at least `size_bytes` long; what was in it is lost where it grows. Nothing of
   *  this end may be using it. */
  virtual Status reserve(const Device& device, DeviceBuffer* memory, size_t size_bytes) {
    return memory->reserve(device, size_bytes);
  }
  /** True if peers may have that memory open for as long as they are there. */
  virtual bool is_lent() const { return false; }
  /** Memory of this end, which goes away, where the group is broken or memory is lent: what of it
   *  peers may still read or have open is taken over. */
  virtual void transfer_ownership(DeviceBuffer* /*memory*/) {}
  /** All memory of this end is about to be freed, and its streams are through: false if it must not
   *  be, because what is below may still use it. */
  virtual bool end_use() { return true; }
  /** The same, but streams of this end do not get through: what they use is never freed. */
  virtual void leak_in_use() {}
};

/** A word in pinned memory that the device reads: not 0 once the group is broken. */
class BrokenWord {
 public:
  Status open(const Device& device) {
    GQ_TRY(memory_.reserve(device, sizeof(uint32_t)));
    *memory_.as<uint32_t>() = 0;
    return Status();
  }
  const uint32_t* get() const { return memory_.as<const uint32_t>(); }
  /** From any thread, also in a signal handler. */
  void set() { std::atomic_ref<uint32_t>(*memory_.as<uint32_t>()).store(1); }
  /** The device may read it for ever: it is never freed. */
  void forget() { memory_.forget(); }

 private:
  PinnedBuffer memory_;
};

/** One rank's end of a group whose words are in memory of devices. Every rank enqueues the same
 *  operations in the same order. None waits for a device; a failure of one, at once or found later
 *  by check(), breaks the group. */
class StreamTransport : public Transport {
 public:
  const Device& device() const { return device_; }
  /** The device that the group's memory is on. */
  int32_t ordinal() const { return ordinal_; }
  const uint32_t* broken_word() const { return broken_.get(); }

  /** UNSUPPORTED if operations cannot be enqueued on `stream`. */
  virtual Status check_stream(StreamHandle /*stream*/) const { return Status(); }
  /** The `size_bytes` of every rank, in rank order. */
  virtual Status gather(const void* own, void* all, size_t size_bytes, StreamHandle stream) = 0;
  /** All transfers at once: between two ranks, the k-th sent is the k-th received. */
  virtual Status exchange(unsigned char* arena, const Transfer* transfers, size_t transfer_count,
                          StreamHandle stream) = 0;
  /** The same of transfers that share blocks, for transports that have a gather of their own. */
  virtual Status share(unsigned char* arena, const Transfer* transfers, size_t transfer_count,
                       const SharedBlocks& /*blocks*/, StreamHandle stream) {
    return exchange(arena, transfers, transfer_count, stream);
  }
  virtual StreamMemory& memory() = 0;

  /** True if the hosts of ranks wait for each other in every operation, so that control messages
   *  may as well be compared there: by the group's end on host memory. */
  virtual bool agrees_on_host() const { return false; }
  /** All ranks have agreed on a call that has words, and are about to fill their streams with it.
   */
  virtual Status begin_call() { return Status(); }
  /** Null where the transport does not add. */
  virtual StreamSums* sums() { return nullptr; }
  /** Null where kernels of ranks cannot wait for each other. */
  virtual FusedKernels* fused() { return nullptr; }

 protected:
  explicit StreamTransport(const Device& device) : device_(device) {}
  /** Once, before the transport is used. */
  void set_ordinal(int32_t ordinal) { ordinal_ = ordinal; }

  BrokenWord broken_;

 private:
  const Device& device_;
  int32_t ordinal_ = 0;
};

}  // namespace gq

#endif
