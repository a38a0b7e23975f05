// One rank's end of a group between machines: packed codes over UCX, notices over TCP. network_
// transport.cpp moves messages, network_failure.cpp has what ends a group.
#ifndef GQ_TRANSPORT_NETWORK_NETWORK_TRANSPORT_H
#define GQ_TRANSPORT_NETWORK_NETWORK_TRANSPORT_H

#include <atomic>
#include <memory>
#include <vector>

#include "src/transport/host_transport.h"
#include "src/transport/network/awaited_report.h"
#include "src/transport/network/control_connections.h"
#include "src/transport/network/control_packets.h"
#include "src/transport/network/message_pool.h"
#include "src/transport/network/network_registers.h"
#include "src/transport/page_memory.h"
#include "src/transport/shared_memory/cause.h"

namespace gq {

/** A group that has formed. */
struct NetworkGroup {
  uint32_t rank = 0;
  uint32_t size = 0;
  uint32_t tag = 0;
  std::vector<uint32_t> nodes;  ///< of each rank
  NetworkLinks links;
  std::unique_ptr<UcxEngine> engine;  ///< connected to all
};

/** Control messages and packed codes are messages of UCX, on a channel each. */
class NetworkTransport final : public HostTransport {
 public:
  ~NetworkTransport() override;
  /** May throw std::bad_alloc. */
  Status open(NetworkGroup group);

  uint32_t node_of(uint32_t rank) const override { return group_.nodes[rank]; }
  bool reads_in_place() const override { return false; }
  bool has_met_all() const override { return true; }

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
  uint32_t unflushed_peer() const override;

  Status wait(uint32_t slice_us) override;
  Status check() override;
  void abort_group(gqsgd_status cause, uint32_t culprit) override;
  uint32_t culprit_behind(uint32_t peer) const override;
  TransportCounters counters() const override { return counters_; }
  Enclosures* enclosures() override { return packets_.enclosures(); }
  GroupRegisters* registers() override { return &registers_; }

 private:
  struct Peer {
    MessageQueue receives;
    UcxRequest flush;
    bool is_flushed = true;             ///< everything sent to it has left this process
    uint64_t sent_bytes = 0;            ///< to it by the newest call
    uint64_t sent_before_bytes = 0;     ///< and by the call before that
    PendingMessage* control = nullptr;  ///< its control message, while it is awaited
    uint64_t newest_number = 0;         ///< the call of that
    uint64_t received_count = 0;        ///< messages of packed codes
    uint64_t awaited = 0;               ///< packed; what it waits for, by its newest notice
    uint64_t awaited_us = 0;            ///< when that came
    uint64_t failed_us = 0;             ///< when its connection of UCX failed
    uint64_t suspect_us = 0;            ///< when UCX was found to have lost a connection to it
    uint64_t news_us = 0;    ///< when a message of it was last complete, once any peer is gone
    bool is_by_tcp = false;  ///< UCX reaches it by TCP: its end is behind all that it has sent

    /** Whether the newest message to it was given to the socket when it was sent, where those
     *  before it have left UCX's buffer. */
    bool newest_leaves_at_once() const;
  };

  Status intact();
  Status start_send(uint32_t peer, uint32_t channel, const void* bytes, size_t size_bytes,
                    PendingMessage* message, uint32_t checksum = 0);
  Status start_receive(uint32_t peer, uint32_t channel, void* bytes, size_t least_bytes,
                       size_t most_bytes, PendingMessage* message);
  Status test(PendingMessage* message);
  Status failed(uint32_t peer, Status status);
  Status reap_sends();
  Status flush(uint32_t peer);
  bool is_unreachable(uint32_t peer) const;
  void finish_sends();

  void came();
  bool spun(uint64_t end_us);
  Status take_notices();
  Status take(uint32_t peer, const Notice& notice);
  Status is_lost(uint32_t peer, bool* is_lost);
  Status count_owed(uint32_t peer, size_t* owed_bytes);
  bool has_blocked(uint32_t peer) const;
  uint32_t awaited_by(uint32_t waiter, uint32_t own) const;
  bool has_come_here(uint32_t waiter) const;
  uint32_t silent_in_cycle(uint32_t first, uint32_t own) const;
  bool begin_cause(uint64_t word);

  NetworkGroup group_;
  uint64_t generation_ = fork_generation();
  ControlConnections connections_;
  NetworkRegisters registers_{&connections_};
  std::vector<Peer> peers_;
  MessagePool pool_;
  std::vector<PendingMessage*> sends_;  // under way
  PageMemory arena_;
  std::vector<PageMemory> retired_arenas_;  // that messages to a lost rank may still be read from
  uint64_t sequence_ = 0;              // of the newest call
  ControlPackets packets_;             // of that, of all ranks
  std::atomic<uint64_t> cause_{0};     // packed; what broke this group
  AwaitedReport awaited_;
  uint64_t spin_us_;
  uint64_t looked_us_ = 0;  // when notices were last looked for
  TransportCounters counters_;
};

}  // namespace gq

#endif
