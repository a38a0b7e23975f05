// The other end of a network group's bootstrap, played by the fuzzer: what both ends know.
#ifndef GQ_TESTS_FUZZ_NETWORK_PEER_H
#define GQ_TESTS_FUZZ_NETWORK_PEER_H

#include <sys/socket.h>

#include <atomic>
#include <thread>
#include <vector>

#include "src/support/clock.h"
#include "src/transport/network/bootstrap/host_identity.h"
#include "src/transport/network/bootstrap/network_bootstrap.h"
#include "tests/fuzz/fuzz_input.h"

namespace gq::test {

inline constexpr int64_t kNetworkTimeoutMs = 20;

inline NetworkAddress loopback() {
  NetworkAddress address;
  address.family = AF_INET;
  address.bytes[0] = 127;
  address.bytes[3] = 1;
  return address;
}

/** The secret of all runs, opened once. */
inline const GroupSecret& network_secret() {
  static const GroupSecret secret = [] {
    GroupSecret made;
    require(Hmac::open(&made.hmac).ok(), "no libcrypto");
    made.key.bytes[0] = 42;
    return made;
  }();
  return secret;
}

inline const NetworkMember& own_member() {
  static const NetworkMember member = [] {
    NetworkMember made;
    require(identify_host(network_secret().hmac, "", &made).ok(), "no identity of this host");
    return made;
  }();
  return member;
}

/** Goes through the handshake; false if that ends otherwise, or the other end is over. */
inline bool shake_hands(Handshake* handshake, const TcpSocket& socket,
                        const std::atomic<bool>& is_over) {
  Handshake::State state = Handshake::State::under_way;
  while (!is_over && state == Handshake::State::under_way) {
    if (!handshake->advance(socket, &state).ok()) return false;
    std::this_thread::yield();
  }
  return state == Handshake::State::done;
}

/** Messages one behind the other, each changed as the input says; the last may be cut. */
class MessageStream {
 public:
  explicit MessageStream(FuzzInput* input) : input_(input) {}

  template <typename Message>
  void add(Message message) {
    input_->edit(&message, sizeof message);
    const auto* const bytes = reinterpret_cast<const unsigned char*>(&message);
    bytes_.insert(bytes_.end(), bytes, bytes + sizeof message);
  }
  void add_bytes(size_t size_bytes) {
    bytes_.resize(bytes_.size() + size_bytes);
    input_->fill(bytes_.data() + bytes_.size() - size_bytes, size_bytes);
  }
  void send_to(const TcpSocket& socket) {
    if (input_->byte() % 16 == 15) bytes_.resize(input_->take<uint16_t>() % (bytes_.size() + 1));
    // It fits into the buffers of a new connection.
    (void)!::send(socket.number(), bytes_.data(), bytes_.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  }

 private:
  FuzzInput* input_;
  std::vector<unsigned char> bytes_;
};

}  // namespace gq::test

#endif
