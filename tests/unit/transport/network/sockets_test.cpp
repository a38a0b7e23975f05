// Addresses as sockets have them, and connections that are none.
#include <errno.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "src/transport/network/tcp_socket.h"
#include "tests/unit/transport/exchange.h"
#include "tests/unit/transport/network/formed_group.h"

namespace gq::test {
namespace {

/** A port of the loopback device that was free a moment ago. */
NetworkAddress free_address() {
  std::unique_ptr<TcpSocket> listener;
  NetworkAddress bound;
  EXPECT_EQ(text_of(listen_at(loopback(), &listener, &bound)), "OK");
  return bound;
}

/** A connection to `address` whose own end the system has put at the same port, as it does once in
 *  some thousand attempts where that is a port of the system's range. */
std::unique_ptr<TcpSocket> connected_to_itself(const NetworkAddress& address) {
  ForkHold hold;
  const int number = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const SocketName name = socket_name_of(address);
  EXPECT_EQ(bind(number, name.get(), name.size_bytes), 0);
  EXPECT_EQ(connect(number, name.get(), name.size_bytes), 0) << "nothing listens there";
  return std::make_unique<TcpSocket>(number);
}

TEST(NetworkSockets, ConnectionWithItself_IsRefused) {
  std::unique_ptr<TcpSocket> socket = connected_to_itself(free_address());
  EXPECT_EQ(connect_error(*socket), ECONNREFUSED);
}

TEST(NetworkSockets, ConnectionWithItself_LeavesThePortFree) {
  const NetworkAddress address = free_address();
  std::unique_ptr<TcpSocket> socket = connected_to_itself(address), listener;
  EXPECT_EQ(connect_error(*socket), ECONNREFUSED);
  socket.reset();
  NetworkAddress bound;
  EXPECT_EQ(text_of(listen_at(address, &listener, &bound)), "OK");
}

TEST(NetworkSockets, ConnectionWithAListener_HasNoError) {
  std::unique_ptr<TcpSocket> listener, socket;
  NetworkAddress bound;
  ASSERT_EQ(text_of(listen_at(loopback(), &listener, &bound)), "OK");
  int error = 0;
  ASSERT_EQ(text_of(begin_connect(bound, &socket, &error)), "OK");
  pollfd writable{socket->number(), POLLOUT, 0};
  EXPECT_EQ(poll(&writable, 1, 20000), 1);
  EXPECT_EQ(connect_error(*socket), 0);
}

/** A listener at all addresses, of IPv6 and of IPv4, has connections of IPv4 with addresses of
 *  IPv6. */
TEST(NetworkSockets, Ipv4AtAListenerOfIpv6_HasAnAddressOfIpv4) {
  NetworkAddress all;
  all.family = AF_INET6;
  std::unique_ptr<TcpSocket> listener, socket;
  NetworkAddress bound, from;
  if (!listen_at(all, &listener, &bound).ok()) GTEST_SKIP() << "no IPv6 here";
  NetworkAddress to = loopback();
  to.port = bound.port;
  const int number = connect_plainly(to);
  ASSERT_GE(number, 0);
  while (!socket) ASSERT_EQ(text_of(accept_connection(*listener, &socket, &from)), "OK");
  const NetworkAddress own = local_address(socket->number());
  EXPECT_EQ(own.family, AF_INET);
  EXPECT_TRUE(own.is_loopback()) << AddressText(own).text();
  EXPECT_TRUE(from.is_loopback()) << AddressText(from).text();
  EXPECT_EQ(own.port, bound.port);
  close(number);
}

}  // namespace
}  // namespace gq::test
