// One rank's end of a group over a caller's table: requests under way, headers, and the first
// failure. custom.cpp moves words, custom_requests.cpp calls the table.
#ifndef GQ_TRANSPORT_CUSTOM_CUSTOM_TRANSPORT_H
#define GQ_TRANSPORT_CUSTOM_CUSTOM_TRANSPORT_H

#include <stdlib.h>

#include <atomic>
#include <memory>
#include <vector>

#include "src/transport/custom/custom.h"
#include "src/transport/custom/request_pool.h"
#include "src/transport/shared_memory/cause.h"

namespace gq {

/** Messages between two ranks: the header of a call, then its words in the order of the moves, then
 *  the next header. So one channel is enough, and messages carry no type. */
class CustomTransport final : public Transport {
 public:
  explicit CustomTransport(const gqsgd_transport& table) : table_(table) {}
  ~CustomTransport() override;
  /** Makes the memory that a rank needs. */
  Status open();
  /** The destructor closes the table from then on. */
  void adopt() { adopted_ = true; }

  uint32_t rank() const override { return static_cast<uint32_t>(table_.rank); }
  uint32_t size() const override { return static_cast<uint32_t>(table_.size); }
  uint32_t node_of(uint32_t rank) const override { return nodes_.empty() ? 0 : nodes_[rank]; }
  uint32_t tag() const override { return 0; }  // the author of the table keeps groups apart
  bool reads_in_place() const override { return false; }
  bool callers_thread_only() const override { return true; }

  Status arena(size_t size_bytes, unsigned char** base) override;
  Status publish(uint64_t sequence, const Header& header) override;
  Status peer_header(uint32_t peer, uint64_t sequence, Header* header, bool* there) override;
  Status send(const Message& message) override;
  Status expect(const Message& message) override;
  Status receive(const Message& message, const unsigned char** words) override;
  const unsigned char* view(const Message& message) const override {
    return arena_.get() + message.here_bytes;
  }
  bool adds() const override { return table_.allreduce != nullptr; }
  Status begin_sum(const Sum& sum) override;
  Status end_sum(bool* done) override;
  Status flushed(bool* done) override;
  uint32_t unflushed_peer() const override { return sends_.empty() ? rank() : sends_[0].peer; }

  Status wait(uint32_t slice_us) override;
  Status check() override;
  void abort_group(gqsgd_status cause, uint32_t culprit) override;
  TransportCounters counters() const override { return counters_; }

 private:
  struct FreeDeleter {
    void operator()(unsigned char* memory) const { free(memory); }
  };

  Status intact() const;
  /** A rank that publishes call k has the headers of call k - 1 of all ranks, which therefore had
   * the own one of call k - 2: its place is free. */
  Header& own_header(uint64_t sequence) { return headers_[size() + sequence % 2]; }
  Status start_send(uint32_t peer, const void* bytes, size_t size_bytes);
  Status start_receive(uint32_t peer, void* bytes, size_t size_bytes);
  Status start_allgather(const Header& own);
  Status start_sum(const Sum& sum);
  Status progress(uint32_t timeout_us);
  Status test(TableRequest* request, const char* what);
  Status reap_sends();
  Status front_of(uint32_t peer, size_t size_bytes, TableRequest** request);
  Status take_header(uint32_t peer, bool* there);
  template <typename Call>
  Status ask(const char* function, uint32_t peer, Call call);
  Status failed(const char* function, uint32_t peer, int32_t code);
  Status threw(const char* function, uint32_t peer, const char* text);
  Status backend(const char* function, uint32_t peer, const char* how);
  const char* phase() const {
    return moving_ ? "packed codes are moved" : "control messages are exchanged";
  }

  gqsgd_transport table_;
  std::vector<uint32_t> nodes_;  // of all ranks; empty: the table has none
  bool adopted_ = false;
  std::unique_ptr<unsigned char, FreeDeleter> arena_;
  size_t arena_bytes_ = 0;
  RequestQueues receives_;
  std::vector<TableRequest> sends_;
  TableRequest gather_;  // of headers, where the table has an allgather
  bool gathering_ = false;
  TableRequest sum_;                      // under way, where the table has an allreduce
  uint64_t sequence_ = 0;                 // of the newest header
  bool moving_ = false;                   // words have been requested since
  std::unique_ptr<Header[]> headers_;     // of all ranks, where they are put; then two own ones
  std::vector<uint64_t> header_numbers_;  // the call of each that has come
  std::atomic<uint64_t> cause_{0};        // packed
  TransportCounters counters_;
};

}  // namespace gq

#endif
