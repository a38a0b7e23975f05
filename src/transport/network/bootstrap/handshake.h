// How two ranks find out that both know the secret of their group: each sends a random number, and
// HMACs of both numbers prove the secret, which does not travel.
#ifndef GQ_TRANSPORT_NETWORK_BOOTSTRAP_HANDSHAKE_H
#define GQ_TRANSPORT_NETWORK_BOOTSTRAP_HANDSHAKE_H

#include "src/transport/network/network_messages.h"
#include "src/transport/network/tcp_socket.h"

namespace gq {

/** The group that a connection is for. */
struct GroupSecret {
  Hmac hmac;
  unsigned char name[16] = {};
  Digest key;
};

/** One end of the handshake on one connection. */
class Handshake {
 public:
  enum class State {
    under_way,
    done,     ///< both know the secret
    refused,  ///< one of them does not, or is no rank
    closed    ///< the other end is gone
  };

  /** A connection was made; `own` has purpose, ranks and size. */
  Status connect(const GroupSecret& secret, const Hello& own);
  /** A connection was accepted. */
  Status accept(const GroupSecret& secret);

  /** Goes on without waiting. Fails only for what is wrong on this machine. */
  Status advance(const TcpSocket& socket, State* state);
  /** Where the socket has to be writable, before advance() can go on. */
  bool is_writing() const {
    return step_ == Step::send_hello || step_ == Step::send_proof ||
           step_ == Step::send_challenge || step_ == Step::send_welcome;
  }

  /** Of the end that connects: the other end has answered, and the proof may be on its way. */
  bool has_challenge() const {
    return step_ == Step::send_proof || step_ == Step::receive_welcome || step_ == Step::end;
  }

  /** What the other end has sent, authentic once the handshake is done. */
  const Hello& hello() const { return hello_; }
  /** Of a refusal: true if the other end has another secret, and false if it is no rank at all. */
  bool is_wrong_secret() const { return is_wrong_secret_; }

 private:
  enum class Step {
    send_hello,
    receive_challenge,
    send_proof,
    receive_welcome,
    receive_hello,
    send_challenge,
    receive_proof,
    send_welcome,
    end
  };

  SocketTransfer transfer(const TcpSocket& socket);
  /** The message of the step at hand is through. */
  Status next(State* state);
  Status check_proof();
  Status check_welcome(State* state);
  Status digest(const char* purpose, Digest* out) const;

  const GroupSecret* secret_ = nullptr;
  Step step_ = Step::end;
  size_t done_bytes_ = 0;  // of the message at hand
  bool is_wrong_secret_ = false;
  Hello hello_;
  Challenge challenge_;
  Proof proof_;
  Welcome welcome_;
};

}  // namespace gq

#endif
