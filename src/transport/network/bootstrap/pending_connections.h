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

/** Why connections were refused, as a failure of the group says it. */
class RefusedConnections {
 public:
  /** `why` is what follows "it ", and stays: never what came over the connection. */
  void add(const NetworkAddress& from, const char* why);
  /** A sentence to put behind another one, with a space before it; empty if none was refused. Valid
   *  until the next add(). */
  const char* sentence() const { return sentence_; }

 private:
  uint64_t count_ = 0;
  char sentence_[224] = "";
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

  RefusedConnections& refused() { return refused_; }

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
  void end(const Pending& pending, Handshake::State state);

  const GroupSecret& secret_;
  std::unique_ptr<std::unique_ptr<Pending>[]> pending_;  // oldest first
  uint32_t count_ = 0;
  uint64_t ended_count_ = 0;  // without a proof
  RefusedConnections refused_;
};

}  // namespace gq

#endif
