// Connections that have been accepted and have not yet proved that they belong to the group: few,
// small, and for a short time, whatever connects.
#ifndef GQ_TRANSPORT_NETWORK_BOOTSTRAP_PENDING_CONNECTIONS_H
#define GQ_TRANSPORT_NETWORK_BOOTSTRAP_PENDING_CONNECTIONS_H

#include <poll.h>

#include "src/transport/network/bootstrap/handshake.h"

namespace gq {

/** A connection whose other end knows the secret. */
struct ProvedConnection {
  std::unique_ptr<TcpSocket> socket;
  NetworkAddress from;
  Hello hello;
};

class PendingConnections {
 public:
  explicit PendingConnections(const GroupSecret& secret) : secret_(secret) {}
  ~PendingConnections();

  /** Allocates what is needed. */
  Status open();
  /** Accepts some, and lets each pending one go on. To be called again while *proved is not null
   *  afterwards. */
  Status advance(const TcpSocket& listener, ProvedConnection* proved);

  /** Descriptors to poll, at most kMax. */
  uint32_t fill(pollfd* polls) const;
  /** When the first one's time is up; kNever without any. */
  uint64_t deadline_us() const;

  /** When more are there, the oldest is dropped: silent ones cannot keep ranks out. */
  static constexpr uint32_t kMax = 256;

 private:
  struct Pending {
    std::unique_ptr<TcpSocket> socket;
    NetworkAddress from;
    Handshake handshake;
    uint64_t drop_us = 0;
  };

  Status accept_some(const TcpSocket& listener);
  void drop(uint32_t index);
  void note_refused(const Pending& pending, const char* why);

  const GroupSecret& secret_;
  std::unique_ptr<std::unique_ptr<Pending>[]> pending_;  // oldest first
  uint32_t count_ = 0;
  uint64_t refused_count_ = 0;
};

}  // namespace gq

#endif
