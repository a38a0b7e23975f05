// A connection to one rank on its way into the group: both ends send the address of their engine.
#ifndef GQ_TRANSPORT_NETWORK_BOOTSTRAP_LINK_SETUP_H
#define GQ_TRANSPORT_NETWORK_BOOTSTRAP_LINK_SETUP_H

#include <vector>

#include "src/transport/network/network_messages.h"
#include "src/transport/network/tcp_socket.h"

namespace gq {

/** What a rank sends to all others: a header and the bytes. Empty bytes: it has failed. */
inline std::vector<unsigned char> engine_message(const std::vector<unsigned char>& address) {
  EngineAddress header;
  header.size_bytes = static_cast<uint32_t>(address.size());
  std::vector<unsigned char> bytes(sizeof header + address.size());
  memcpy(bytes.data(), &header, sizeof header);
  if (!address.empty()) memcpy(bytes.data() + sizeof header, address.data(), address.size());
  return bytes;
}

class LinkSetup {
 public:
  enum class State {
    under_way,
    done,
    failed,  ///< the other end has failed, and says no more here
    report,  ///< a report is there instead, which begins with header()
    wrong,   ///< it sent what no correct rank sends
    closed
  };

  /** Goes on without waiting; `own` is the same in all calls. */
  State advance(const TcpSocket& socket, const std::vector<unsigned char>& own) {
    if (!is_sent_) {
      const SocketTransfer sent = send_rest(socket, own.data(), own.size(), &sent_bytes_);
      if (sent == SocketTransfer::closed) return State::closed;
      is_sent_ = sent == SocketTransfer::done;
    }
    if (!is_received_) {
      const State received = receive(socket);
      if (received != State::done) return received;
      is_received_ = true;
    }
    return is_sent_ ? State::done : State::under_way;
  }
  bool is_writing() const { return !is_sent_; }
  std::vector<unsigned char>& theirs() { return theirs_; }
  const EngineAddress& header() const { return header_; }

 private:
  State receive(const TcpSocket& socket) {
    if (theirs_.empty()) {
      const SocketTransfer moved = receive_rest(socket, &header_, sizeof header_, &received_bytes_);
      if (moved != SocketTransfer::done) return state_of(moved);
      if (header_.magic == kNetworkMagic) return State::report;
      if (header_.magic != kEngineMagic || header_.size_bytes > kEngineAddressBytesMax) {
        return State::wrong;
      }
      if (header_.size_bytes == 0) return State::failed;
      theirs_.resize(header_.size_bytes);
    }
    return state_of(receive_rest(socket, theirs_.data(), theirs_.size(), &received_bytes_));
  }
  static State state_of(SocketTransfer moved) {
    if (moved == SocketTransfer::done) return State::done;
    return moved == SocketTransfer::not_yet ? State::under_way : State::closed;
  }

  bool is_sent_ = false;
  bool is_received_ = false;
  size_t sent_bytes_ = 0;
  size_t received_bytes_ = 0;
  EngineAddress header_;
  std::vector<unsigned char> theirs_;
};

}  // namespace gq

#endif
