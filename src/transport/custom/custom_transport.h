// One rank's end of a group over a caller's table: its arena, control messages and words.
#ifndef GQ_TRANSPORT_CUSTOM_CUSTOM_TRANSPORT_H
#define GQ_TRANSPORT_CUSTOM_CUSTOM_TRANSPORT_H

#include <memory>
#include <vector>

#include "src/transport/custom/custom.h"
#include "src/transport/custom/table_calls.h"
#include "src/transport/page_memory.h"

namespace gq {

/** Messages between two ranks: the control message of a call, then its words in the order of the
 *  moves, then the next control message. So one channel is enough, and messages carry no type. */
class CustomTransport final : public HostTransport, private HostSums {
 public:
  explicit CustomTransport(const gqsgd_transport& table);
  ~CustomTransport() override;
  /** Makes the memory that a rank needs. */
  Status open();
  /** The destructor closes the table from then on. */
  void adopt() { adopted_ = true; }

  uint32_t node_of(uint32_t rank) const override { return nodes_.empty() ? 0 : nodes_[rank]; }
  bool reads_in_place() const override { return false; }
  bool callers_thread_only() const override { return true; }
  bool has_messages_only() const override { return true; }

  Status arena(size_t size_bytes, unsigned char** base) override;
  Status send_control(uint64_t sequence, const ControlMessage& message) override;
  Status receive_control(uint32_t peer, uint64_t sequence, ControlMessage* message,
                         bool* there) override;
  Status send(const Message& message) override;
  Status expect(const Message& message) override;
  Status receive(const Message& message, const unsigned char** words) override;
  const unsigned char* view(const Message& message) const override {
    return arena_.base() + message.here_bytes;
  }
  Status flushed(bool* done) override;
  uint32_t unflushed_peer() const override {
    return calls_.sends().empty() ? rank() : calls_.sends()[0].peer;
  }
  HostSums* sums() override { return calls_.table().allreduce != nullptr ? this : nullptr; }

  Status wait(uint32_t slice_us) override;
  Status check() override;
  void abort_group(gqsgd_status cause, uint32_t culprit) override {
    calls_.abort_group(cause, culprit);
  }
  TransportCounters counters() const override { return counters_; }

 private:
  Status begin_sum(const Sum& sum) override;
  Status end_sum(bool* done) override;
  /** A rank that sends its control message of call k has those of call k - 1 of all ranks, which
   *  therefore had the own one of call k - 2: its place is free. */
  ControlMessage& own_control(uint64_t sequence) { return controls_[size() + sequence % 2]; }
  Status take_control(uint32_t peer, bool* there);
  Status take_staging(size_t size_bytes, unsigned char** staged);
  Status send_with_trailer(const Message& message);

  TableCalls calls_;
  std::vector<uint32_t> nodes_;  // of all ranks; empty: the table has none
  bool adopted_ = false;
  PageMemory arena_;
  /** Of all ranks, where they are put; then two own ones. */
  std::unique_ptr<ControlMessage[]> controls_;
  std::vector<uint64_t> control_numbers_;  // the call of each that has come
  TableRequest gather_;                    // of control messages, where the table has an allgather
  bool gathering_ = false;
  TableRequest sum_;  // under way, where the table has an allreduce
  TransportCounters counters_;
};

}  // namespace gq

#endif
