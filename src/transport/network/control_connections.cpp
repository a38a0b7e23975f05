// epoll over the connections, and system calls that are safe in signal handlers.
#include "src/transport/network/control_connections.h"

#include <errno.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>

#include "src/support/clock.h"
#include "src/transport/system_failure.h"

namespace gq {
namespace {

constexpr uint32_t kEngine = UINT32_MAX;
constexpr uint32_t kAwake = UINT32_MAX - 1;
constexpr int kEventsMax = 64;
// Bytes that a peer has not taken, above which notices that are not needed are left out. Far below
// what a socket holds: a notice is never cut.
constexpr int kUntakenMax = 2048;
// Of the same bytes, without an answer. The first comes after 200 ms or more, the second after
// twice that: a burst of losses may cost one. Probes are what TCP sends where this machine itself
// has no route any more.
constexpr unsigned kRetransmissions = 2;

bool read_info(const TcpSocket& socket, tcp_info* info) {
  socklen_t size_bytes = sizeof *info;
  return getsockopt(socket.number(), IPPROTO_TCP, TCP_INFO, info, &size_bytes) == 0;
}

}  // namespace

Status ControlConnections::open(NetworkLinks links, int engine) {
  {
    ForkHold hold;
    const int epoll = epoll_create1(EPOLL_CLOEXEC);
    if (epoll < 0) return system_failure(errno, "epoll_create1 for connections to other ranks");
    epoll_.attach(epoll);
    const int awake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (awake < 0) return system_failure(errno, "eventfd for a rank that sleeps");
    awake_.attach(awake);
  }
  GQ_TRY(watch(awake_.number(), kAwake));
  if (engine >= 0) GQ_TRY(watch(engine, kEngine));
  peers_.resize(links.size());
  for (uint32_t peer = 0; peer < links.size(); ++peer) {
    peers_[peer].socket = std::move(links[peer]);
    if (peers_[peer].socket) GQ_TRY(watch(peers_[peer].socket->number(), peer));
  }
  return Status();
}

ControlConnections::~ControlConnections() {
  for (const Peer& peer : peers_) {
    if (peer.socket && peer.socket->number() >= 0) end_sending(*peer.socket);
  }
}

Status ControlConnections::watch(int descriptor, uint32_t number) {
  epoll_event event{};
  event.events = EPOLLIN | EPOLLRDHUP;
  event.data.u32 = number;
  if (epoll_ctl(epoll_.number(), EPOLL_CTL_ADD, descriptor, &event) == 0) return Status();
  return system_failure(errno, "epoll_ctl for connections to other ranks");
}

void ControlConnections::send_to_all(const Notice& notice) const {
  for (const Peer& peer : peers_) {
    if (!peer.socket) continue;
    // A peer that is gone is none to notify.
    (void)!send(peer.socket->number(), &notice, sizeof notice, MSG_NOSIGNAL | MSG_DONTWAIT);
  }
}

void ControlConnections::send_unless_full(const Notice& notice) const {
  for (const Peer& peer : peers_) {
    if (!peer.socket || peer.presence != Presence::here) continue;
    int untaken_bytes = 0;
    if (ioctl(peer.socket->number(), SIOCOUTQ, &untaken_bytes) != 0) continue;
    if (untaken_bytes > kUntakenMax) continue;
    (void)!send(peer.socket->number(), &notice, sizeof notice, MSG_NOSIGNAL | MSG_DONTWAIT);
  }
}

bool ControlConnections::send_all(uint32_t peer, const std::vector<Notice>& notices,
                                  bool force) const {
  const Peer& to = peers_[peer];
  if (!to.socket || to.gone_us != 0) return true;  // none to notify
  int untaken_bytes = 0;
  if (ioctl(to.socket->number(), SIOCOUTQ, &untaken_bytes) != 0) return true;
  if (untaken_bytes > kUntakenMax && !force) return false;
  (void)!send(to.socket->number(), notices.data(), notices.size() * sizeof(Notice),
              MSG_NOSIGNAL | MSG_DONTWAIT);
  return true;
}

NetworkAddress ControlConnections::own_address() const {
  NetworkAddress found;
  for (const Peer& peer : peers_) {
    if (!peer.socket) continue;
    const NetworkAddress address = local_address(peer.socket->number());
    if (address.family == 0) continue;
    if (found.family == 0 || found.is_loopback()) found = address;
  }
  found.port = 0;
  return found;
}

void ControlConnections::watch_peers_only(int engine) {
  epoll_ctl(epoll_.number(), EPOLL_CTL_DEL, awake_.number(), nullptr);
  if (engine >= 0) epoll_ctl(epoll_.number(), EPOLL_CTL_DEL, engine, nullptr);
}

bool ControlConnections::is_unreachable(uint32_t peer) const {
  if (!peers_[peer].socket || gone_us(peer) != 0) return false;
  tcp_info info{};
  if (!read_info(*peers_[peer].socket, &info)) return false;
  return info.tcpi_retransmits + info.tcpi_probes >= kRetransmissions;
}

void ControlConnections::look_at_links() {
  for (uint32_t peer = 0; peer < peers_.size(); ++peer) {
    if (is_unreachable(peer)) peers_[peer].was_unreachable = true;
  }
}

bool ControlConnections::is_cut_off() const {
  uint32_t unreachable = 0;
  for (uint32_t peer = 0; peer < peers_.size(); ++peer) {
    if (!peers_[peer].socket) continue;
    if (!is_unreachable(peer)) return false;
    unreachable += 1;
  }
  return unreachable > 1;
}

void ControlConnections::keep_awake() const {
  const uint64_t one = 1;
  (void)!write(awake_.number(), &one, sizeof one);
}

Status ControlConnections::sleep(int timeout_ms) {
  epoll_event events[kEventsMax];
  const int count = epoll_wait(epoll_.number(), events, kEventsMax, timeout_ms);
  if (count < 0 && errno != EINTR) return system_failure(errno, "waiting for other ranks");
  for (int k = 0; k < count; ++k) {
    const uint32_t number = events[k].data.u32;
    if (number < peers_.size()) receive(&peers_[number]);
  }
  return Status();
}

/** Until there is nothing more, or no space for it. */
void ControlConnections::receive(Peer* peer) {
  auto* const bytes = reinterpret_cast<char*>(peer->notices);
  while (peer->gone_us == 0 && peer->received_bytes < sizeof peer->notices) {
    const ssize_t count = recv(peer->socket->number(), bytes + peer->received_bytes,
                               sizeof peer->notices - peer->received_bytes, MSG_DONTWAIT);
    if (count > 0) {
      peer->received_bytes += static_cast<size_t>(count);
      continue;
    }
    const int error = count < 0 ? errno : 0;
    if (error == EAGAIN || error == EINTR) return;
    note_end(peer, error);
  }
}

/** A system resets a connection that its process has closed when more comes on it, although what
 *  was sent last may not have arrived: where the link was cut meanwhile it is too late for that.
 *  A connection that has been reset says no more of packets that it had lost. */
void ControlConnections::note_end(Peer* peer, int error) {
  tcp_info info{};
  if (error == 0) {
    peer->unheard_us = 0;
  } else if (error == ECONNRESET && !peer->was_unreachable && read_info(*peer->socket, &info)) {
    const uint64_t unheard_ms = std::min(info.tcpi_last_data_recv, info.tcpi_last_ack_recv);
    peer->unheard_us = unheard_ms * 1000;
  }
  epoll_ctl(epoll_.number(), EPOLL_CTL_DEL, peer->socket->number(), nullptr);
  peer->gone_us = monotonic_us();
  if (peer->presence == Presence::here) peer->presence = Presence::dead;
  any_gone_ = true;
}

bool ControlConnections::take(uint32_t number, Notice* notice) {
  Peer& peer = peers_[number];
  if ((peer.taken_count + 1) * sizeof(Notice) > peer.received_bytes) {
    const size_t taken_bytes = peer.taken_count * sizeof(Notice);
    auto* const bytes = reinterpret_cast<char*>(peer.notices);
    memmove(bytes, bytes + taken_bytes, peer.received_bytes - taken_bytes);
    peer.received_bytes -= taken_bytes;
    peer.taken_count = 0;
    return false;
  }
  *notice = peer.notices[peer.taken_count++];
  return true;
}

}  // namespace gq
