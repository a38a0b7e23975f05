// The functions of a caller's table, as a transport calls them: requests under way, failures as
// statuses that name call, rank and function, and the first of these, which stays.
#ifndef GQ_TRANSPORT_CUSTOM_TABLE_CALLS_H
#define GQ_TRANSPORT_CUSTOM_TABLE_CALLS_H

#include <stddef.h>
#include <stdint.h>

#include <atomic>
#include <vector>

#include "include/gqsgd_transport.h"
#include "src/transport/control_message.h"
#include "src/transport/custom/request_pool.h"
#include "src/transport/custom/staging.h"
#include "src/transport/transport.h"

namespace gq {

/** A failure of the table breaks the group. Members are called by one thread at a time, but for
 *  abort_group(). */
class TableCalls {
 public:
  /** Sends that are done are looked for when so many have piled up. */
  static constexpr size_t kSendsMax = 64;

  explicit TableCalls(const gqsgd_transport& table) : table_(table) {}
  /** Makes memory for requests; may throw std::bad_alloc, or return false. */
  bool open();
  /** False if the table keeps the buffers of its requests. */
  bool close();
  const gqsgd_transport& table() const { return table_; }

  Status intact() const;
  void abort_group(gqsgd_status cause, uint32_t culprit);

  /** For sentences: control messages of call `sequence` are exchanged, or words are moved. */
  void begin_call(uint64_t sequence) { sequence_ = sequence, moving_ = false; }
  void begin_moving() { moving_ = true; }
  uint64_t sequence() const { return sequence_; }

  /** `staged`: the bytes are words with a trailer in a buffer of staging(), which comes back. */
  Status send(uint32_t peer, const void* bytes, size_t size_bytes,
              unsigned char* staged = nullptr);
  /** True if a send of the bytes at `bytes`, not staged, may still read them. */
  bool is_sending(const void* bytes) const;
  /** Looks which sends are done. */
  Status reap_sends();
  /** Those that were not done when they were last looked at. */
  const std::vector<TableRequest>& sends() const { return sends_; }

  /** `staged`: words with a trailer come into this buffer of staging(), and the words belong to
   *  `place`. */
  Status receive(uint32_t peer, void* place, size_t size_bytes, unsigned char* staged = nullptr);
  /** The oldest receive of a peer, which has `size_bytes`, its trailer included; the table tests it
   *  at most once after it is done. */
  Status oldest_receive(uint32_t peer, size_t size_bytes, TableRequest** request);
  /** It is done, and was looked at. */
  void end_receive(uint32_t peer) { receives_.pop(peer); }
  Staging& staging() { return staging_; }

  Status allgather(const ControlMessage& own, ControlMessage* all, TableRequest* request);
  Status allreduce(Addend addend, void* addends, uint64_t addend_count, TableRequest* request);
  /** Whether `request` of the function `what` is done. */
  Status test(TableRequest* request, const char* what);
  Status progress(uint32_t timeout_us);

 private:
  uint32_t rank() const { return static_cast<uint32_t>(table_.rank); }
  template <typename Call>
  Status ask(const char* function, uint32_t peer, Call call);
  Status failed(const char* function, uint32_t peer, int32_t code);
  Status threw(const char* function, uint32_t peer, const char* text);
  Status backend(const char* function, uint32_t peer, const char* how);
  const char* phase() const {
    return moving_ ? "packed codes are moved" : "control messages are exchanged";
  }

  const gqsgd_transport table_;
  RequestQueues receives_;
  std::vector<TableRequest> sends_;
  Staging staging_;
  uint64_t sequence_ = 0;
  bool moving_ = false;
  std::atomic<uint64_t> cause_{0};  // packed
};

}  // namespace gq

#endif
