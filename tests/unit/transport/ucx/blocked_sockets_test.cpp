// Connections whose buffers are full end, others do not.
#include "src/transport/ucx/blocked_sockets.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>

namespace gq::test {
namespace {

/** Two ends of a TCP connection on the loopback device, which do not block. */
struct Connection {
  Connection() {
    sockaddr_in name{};
    name.sin_family = AF_INET;
    name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size_bytes = sizeof name;
    auto* const address = reinterpret_cast<sockaddr*>(&name);
    const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    EXPECT_EQ(bind(listener, address, size_bytes), 0);
    EXPECT_EQ(listen(listener, 1), 0);
    EXPECT_EQ(getsockname(listener, address, &size_bytes), 0);
    here = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    EXPECT_EQ(connect(here, address, size_bytes), 0);
    there = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
    EXPECT_GE(there, 0);
    close(listener);
  }
  ~Connection() {
    close(here);
    close(there);
  }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  /** 0, or the error of a short send. */
  int send_error() const {
    return send(here, "x", 1, MSG_DONTWAIT | MSG_NOSIGNAL) == 1 ? 0 : errno;
  }
  size_t fill() const {
    const std::string bytes(1 << 16, 'x');
    size_t sent_bytes = 0;
    for (;;) {
      const ssize_t sent = send(here, bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
      if (sent <= 0) return sent_bytes;
      sent_bytes += static_cast<size_t>(sent);
    }
  }
  /** What comes until the end of the other's sending direction. */
  size_t receive_all() const {
    std::string bytes(1 << 16, 'x');
    size_t received_bytes = 0;
    for (;;) {
      const ssize_t received = recv(there, bytes.data(), bytes.size(), 0);
      if (received <= 0) return received_bytes;
      received_bytes += static_cast<size_t>(received);
    }
  }

  int here = -1;
  int there = -1;
};

void watch(int epoll, int descriptor) {
  epoll_event event{};
  event.events = EPOLLIN;
  ASSERT_EQ(epoll_ctl(epoll, EPOLL_CTL_ADD, descriptor, &event), 0);
}

TEST(BlockedSockets, FullConnectionBelowTwoEpolls_EndsAfterItsBytes_OthersStay) {
  const int outer = epoll_create1(EPOLL_CLOEXEC);
  const int inner = epoll_create1(EPOLL_CLOEXEC);
  int pipes[2];
  ASSERT_EQ(pipe2(pipes, O_CLOEXEC | O_NONBLOCK), 0);
  const Connection full, free, unwatched;
  watch(outer, inner);
  watch(outer, pipes[0]);
  watch(inner, full.here);
  watch(inner, free.here);
  size_t sent_bytes = full.fill();
  unwatched.fill();
  sent_bytes += full.fill();  // the kernel may have moved bytes on since
  ASSERT_EQ(full.send_error(), EAGAIN);

  end_blocked_sockets(outer);

  EXPECT_EQ(full.send_error(), EPIPE);
  EXPECT_EQ(free.send_error(), 0);
  EXPECT_NE(unwatched.send_error(), EPIPE);
  EXPECT_EQ(full.receive_all(), sent_bytes);
  EXPECT_EQ(write(pipes[1], "x", 1), 1);
  for (const int descriptor : {outer, inner, pipes[0], pipes[1]}) close(descriptor);
}

TEST(BlockedSockets, NoEpollDescriptor_NothingHappens) {
  const Connection full;
  full.fill();
  end_blocked_sockets(-1);
  end_blocked_sockets(full.here);
  EXPECT_EQ(full.send_error(), EAGAIN);
}

}  // namespace
}  // namespace gq::test
