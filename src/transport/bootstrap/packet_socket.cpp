// socket, bind, connect, accept, sendmsg and recvmsg, each with its own ways to fail.
#include "src/transport/bootstrap/packet_socket.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "src/transport/system_failure.h"

namespace gq {
namespace {

constexpr int kBacklog = 1024;
constexpr int kFlags = SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC;
constexpr size_t kControlBytes = CMSG_SPACE(kPacketDescriptorsMax * sizeof(int));

struct Address {
  sockaddr_un name;
  socklen_t size_bytes;
};

/** A first byte of 0 makes the name abstract: it disappears with the last socket. */
Address address_of(const UniqueId& id) {
  Address address{};
  address.name.sun_family = AF_UNIX;
  char* text = address.name.sun_path + 1;
  int used = snprintf(text, 16, "gqsgd-");
  for (const unsigned char byte : id.name) used += snprintf(text + used, 3, "%02x", byte);
  address.size_bytes =
      static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + static_cast<size_t>(used));
  return address;
}

bool is_own_user(int socket, uid_t* user) {
  ucred credentials{};
  socklen_t size_bytes = sizeof credentials;
  *user = static_cast<uid_t>(-1);
  if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &credentials, &size_bytes) != 0) return false;
  *user = credentials.uid;
  return credentials.uid == geteuid();
}

Status open_socket(ForkGuard* out) {
  ForkHold hold;
  const int opened = socket(AF_UNIX, kFlags, 0);
  if (opened < 0) return system_failure(errno, "a socket by which the group forms");
  out->attach(opened);
  return Status();
}

/** -1 with errno if there is none. */
int accept_guarded(int listener, ForkGuard* out) {
  ForkHold hold;
  const int accepted = accept4(listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
  if (accepted >= 0) out->attach(accepted);
  return accepted;
}

/** Takes over every descriptor of the packet, so that none leaks; false if some were lost. With the
 *  ForkHold under which they came. */
bool take_descriptors(msghdr* message, Packet* packet) {
  bool complete = (message->msg_flags & MSG_CTRUNC) == 0;
  for (cmsghdr* part = CMSG_FIRSTHDR(message); part != nullptr; part = CMSG_NXTHDR(message, part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) continue;
    const size_t count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; ++i) {
      int number = -1;
      memcpy(&number, CMSG_DATA(part) + i * sizeof number, sizeof number);
      if (packet->descriptor_count < packet->descriptor_capacity) {
        packet->descriptors[packet->descriptor_count++].attach(number);
      } else {
        complete = false;
        close(number);
      }
    }
  }
  return complete;
}

}  // namespace

Status listen_as(const UniqueId& id, ForkGuard* listener) {
  ForkGuard opened;
  GQ_TRY(open_socket(&opened));
  const Address address = address_of(id);
  const auto* name = reinterpret_cast<const sockaddr*>(&address.name);
  if (bind(opened.number(), name, address.size_bytes) != 0) {
    if (errno == EADDRINUSE) {
      return fail(GQSGD_DUPLICATE_RANK,
                  "rank 0 is taken: another process already waits for this "
                  "group; every process needs its own rank");
    }
    return system_failure(errno, "binding the socket by which the group forms");
  }
  if (listen(opened.number(), kBacklog) != 0) return system_failure(errno, "listening for ranks");
  *listener = std::move(opened);
  return Status();
}

Status connect_to(const UniqueId& id, ForkGuard* socket, Delivery* delivery) {
  *delivery = Delivery::not_yet;
  ForkGuard opened;
  GQ_TRY(open_socket(&opened));
  const Address address = address_of(id);
  const auto* name = reinterpret_cast<const sockaddr*>(&address.name);
  if (connect(opened.number(), name, address.size_bytes) != 0) {
    if (errno == EAGAIN || errno == EINTR) return Status();
    *delivery = Delivery::closed;
    if (errno == ECONNREFUSED) return Status();
    return system_failure(errno, "connecting to rank 0");
  }
  uid_t user;
  if (!is_own_user(opened.number(), &user)) {
    return fail(GQSGD_SYSTEM,
                "who waits for this group is user %u, not this user %u: the secret was "
                "not sent",
                user, geteuid());
  }
  *socket = std::move(opened);
  *delivery = Delivery::done;
  return Status();
}

Status accept_client(int listener, ForkGuard* socket, Delivery* delivery) {
  *delivery = Delivery::not_yet;
  ForkGuard client;
  if (accept_guarded(listener, &client) < 0) {
    if (errno == EAGAIN || errno == EINTR || errno == ECONNABORTED) return Status();
    return system_failure(errno, "accepting a rank");
  }
  uid_t user;
  *delivery = is_own_user(client.number(), &user) ? Delivery::done : Delivery::closed;
  if (*delivery == Delivery::done) *socket = std::move(client);
  return Status();
}

int32_t peer_process(int socket) {
  ucred credentials{};
  socklen_t size_bytes = sizeof credentials;
  const int failed = getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &credentials, &size_bytes);
  return failed == 0 ? credentials.pid : 0;
}

Status send_packet(int socket, const void* bytes, size_t size_bytes, const int* descriptors,
                   size_t descriptor_count, Delivery* delivery) {
  iovec data{const_cast<void*>(bytes), size_bytes};
  alignas(cmsghdr) unsigned char control[kControlBytes];
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  if (descriptor_count > 0) {
    const size_t payload_bytes = descriptor_count * sizeof(int);
    memset(control, 0, sizeof control);
    message.msg_control = control;
    message.msg_controllen = CMSG_SPACE(payload_bytes);
    cmsghdr* part = CMSG_FIRSTHDR(&message);
    part->cmsg_level = SOL_SOCKET;
    part->cmsg_type = SCM_RIGHTS;
    part->cmsg_len = CMSG_LEN(payload_bytes);
    memcpy(CMSG_DATA(part), descriptors, payload_bytes);
  }
  *delivery = Delivery::done;
  if (sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT) >= 0) return Status();
  // Too many descriptors under way to readers that have not taken theirs: they will.
  *delivery = Delivery::not_yet;
  if (errno == EAGAIN || errno == EINTR || errno == ETOOMANYREFS) return Status();
  *delivery = Delivery::closed;
  if (errno == EPIPE || errno == ECONNRESET || errno == ENOTCONN) return Status();
  return system_failure(errno, "sending %zu bytes and %zu descriptors", size_bytes,
                        descriptor_count);
}

Status receive_packet(int socket, Packet* packet, Delivery* delivery) {
  iovec data{packet->bytes, packet->capacity_bytes};
  alignas(cmsghdr) unsigned char control[kControlBytes];
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = packet->descriptor_capacity > 0 ? control : nullptr;
  message.msg_controllen =
      packet->descriptor_capacity > 0 ? CMSG_SPACE(packet->descriptor_capacity * sizeof(int)) : 0;
  packet->descriptor_count = 0;
  for (size_t i = 0; i < packet->descriptor_capacity; ++i) packet->descriptors[i].reset();
  ForkHold hold;
  constexpr int kReceiveFlags = MSG_CMSG_CLOEXEC | MSG_DONTWAIT | MSG_TRUNC;
  ssize_t size_bytes = recvmsg(socket, &message, kReceiveFlags);
  // The other end closed before it had read all: what it had sent comes behind this error.
  if (size_bytes < 0 && errno == ECONNRESET) size_bytes = recvmsg(socket, &message, kReceiveFlags);
  *delivery = Delivery::not_yet;
  if (size_bytes < 0 && (errno == EAGAIN || errno == EINTR)) return Status();
  *delivery = Delivery::closed;
  if (size_bytes < 0 && errno != ECONNRESET) return system_failure(errno, "receiving a packet");
  if (size_bytes <= 0) return Status();
  *delivery = Delivery::done;
  packet->size_bytes = static_cast<size_t>(size_bytes);
  if (take_descriptors(&message, packet)) return Status();
  return system_failure(EMFILE, "receiving descriptors of other ranks");
}

}  // namespace gq
