// The TCP connections of a rank to all others once the group has formed: notices in both
// directions, who is still there, and the place where a rank sleeps.
#ifndef GQ_TRANSPORT_NETWORK_CONTROL_CONNECTIONS_H
#define GQ_TRANSPORT_NETWORK_CONTROL_CONNECTIONS_H

#include <memory>
#include <vector>

#include "src/support/posix/fork.h"
#include "src/transport/network/bootstrap/network_bootstrap.h"
#include "src/transport/network/network_messages.h"

namespace gq {

class ControlConnections {
 public:
  enum class Presence {
    here,
    left,  ///< in good order
    dead   ///< its connection ended without a notice
  };

  ControlConnections() = default;
  /** Peers receive what was sent before. */
  ~ControlConnections();
  ControlConnections(const ControlConnections&) = delete;
  ControlConnections& operator=(const ControlConnections&) = delete;

  /** `engine` is a descriptor on which the owner of this object waits as well. May throw
   *  std::bad_alloc. */
  Status open(NetworkLinks links, int engine);

  /** Sends a notice to all peers that are there. From any thread, also in a signal handler; never
   *  waits. */
  void send_to_all(const Notice& notice) const;
  /** The same where it is not needed: not to peers that have not taken earlier ones. */
  void send_unless_full(const Notice& notice) const;
  /** Sends notices to one peer, all or none. False if it has not taken earlier ones and `force` is
   *  not set; then the socket has space for them all the same. */
  bool send_all(uint32_t peer, const std::vector<Notice>& notices, bool force) const;
  /** Where peers reach this rank: the end of a connection; one that another machine reaches, if
   *  there is one. */
  NetworkAddress own_address() const;
  /** From now on sleep() returns for connections alone: the group is broken. */
  void watch_peers_only(int engine);
  /** Ends sleep(), now and from then on. From any thread, also in a signal handler. */
  void keep_awake() const;

  /** Returns when a notice has come, a peer is gone, or the engine has news; at most about
   *  `timeout_ms` later. 0 looks alone. */
  Status sleep(int timeout_ms);
  /** The next notice of `peer`; false if there is none that has been read. */
  bool take(uint32_t peer, Notice* notice);
  Presence presence(uint32_t peer) const { return peers_[peer].presence; }
  void set_left(uint32_t peer) { peers_[peer].presence = Presence::left; }
  /** When its connection ended; 0 while it is there. */
  uint64_t gone_us(uint32_t peer) const { return peers_[peer].gone_us; }
  bool any_gone() const { return any_gone_; }
  /** True if that was the end of its process or of its communicator. A connection that ends by a
   *  timeout shows nothing, nor does a reset on a link that look_at_links() had found cut, or after
   *  `unheard_us` in which nothing came of its system (UnheardLimits). */
  bool is_gone_for_certain(uint32_t peer, uint64_t unheard_us) const {
    return peers_[peer].unheard_us < unheard_us;
  }
  /** Notes which peers are unreachable: to be called now and then by a rank that waits. */
  void look_at_links();
  /** True if the system of `peer` has acknowledged nothing of what was sent last, for the better
   * part of a second: no packets get there, or none come back. That of a stopped peer acknowledges.
   */
  bool is_unreachable(uint32_t peer) const;
  /** True if all of several peers are unreachable: so is this rank. */
  bool is_cut_off() const;

 private:
  static constexpr size_t kNoticesMax = 32;
  struct Peer {
    std::unique_ptr<TcpSocket> socket;
    Presence presence = Presence::here;
    uint64_t gone_us = 0;
    /** Of a connection that has ended: how long nothing had come when its end came. 0 if that came
     *  in order, after all that was sent before; for ever if it shows nothing. */
    uint64_t unheard_us = UINT64_MAX;
    bool was_unreachable = false;
    Notice notices[kNoticesMax];
    size_t received_bytes = 0;
    size_t taken_count = 0;
  };

  Status watch(int descriptor, uint32_t number);
  void receive(Peer* peer);
  void note_end(Peer* peer, int error);

  ForkGuard epoll_;
  ForkGuard awake_;  // an eventfd that stays readable once it is
  std::vector<Peer> peers_;
  bool any_gone_ = false;
};

}  // namespace gq

#endif
