// The four messages of a handshake, at either end.
#include "src/transport/network/bootstrap/handshake.h"

#include "src/transport/bootstrap/random_bytes.h"

namespace gq {
namespace {

constexpr char kConnects[] = "gqsgd network 1: rank that connects";
constexpr char kAccepts[] = "gqsgd network 1: rank that accepts";

}  // namespace

Status Handshake::connect(const GroupSecret& secret, const Hello& own) {
  secret_ = &secret;
  hello_ = own;
  memcpy(hello_.group, secret.name, sizeof hello_.group);
  step_ = Step::send_hello;
  return random_bytes(hello_.nonce, sizeof hello_.nonce);
}

Status Handshake::accept(const GroupSecret& secret) {
  secret_ = &secret;
  step_ = Step::receive_hello;
  return random_bytes(challenge_.nonce, sizeof challenge_.nonce);
}

/** Purposes keep a proof from being sent back to its maker; both random numbers, ranks, sizes and
 *  the name of the group are authenticated. */
Status Handshake::digest(const char* purpose, Digest* out) const {
  AuthenticatedBytes bytes(purpose);
  bytes.add(&hello_, sizeof hello_);
  bytes.add(&challenge_, sizeof challenge_);
  return secret_->hmac.digest(secret_->key, bytes, out);
}

SocketTransfer Handshake::transfer(const TcpSocket& socket) {
  switch (step_) {
    case Step::send_hello:
      return send_rest(socket, &hello_, sizeof hello_, &done_bytes_);
    case Step::receive_challenge:
      return receive_rest(socket, &challenge_, sizeof challenge_, &done_bytes_);
    case Step::send_proof:
      return send_rest(socket, &proof_, sizeof proof_, &done_bytes_);
    case Step::receive_welcome:
      return receive_rest(socket, &welcome_, sizeof welcome_, &done_bytes_);
    case Step::receive_hello:
      return receive_rest(socket, &hello_, sizeof hello_, &done_bytes_);
    case Step::send_challenge:
      return send_rest(socket, &challenge_, sizeof challenge_, &done_bytes_);
    case Step::receive_proof:
      return receive_rest(socket, &proof_, sizeof proof_, &done_bytes_);
    case Step::send_welcome:
      return send_rest(socket, &welcome_, sizeof welcome_, &done_bytes_);
    case Step::end:
      break;
  }
  return SocketTransfer::closed;
}

Status Handshake::advance(const TcpSocket& socket, State* state) {
  *state = State::under_way;
  while (*state == State::under_way) {
    const SocketTransfer moved = transfer(socket);
    if (moved == SocketTransfer::not_yet) return Status();
    if (moved == SocketTransfer::closed) *state = State::closed;
    if (moved == SocketTransfer::done) GQ_TRY(next(state));
  }
  return Status();
}

Status Handshake::next(State* state) {
  switch (step_) {
    case Step::send_hello:
      step_ = Step::receive_challenge;
      return Status();
    case Step::receive_challenge:
      if (challenge_.magic != kNetworkMagic) *state = State::refused;
      step_ = Step::send_proof;
      return digest(kConnects, &proof_.digest);
    case Step::send_proof:
      step_ = Step::receive_welcome;
      return Status();
    case Step::receive_welcome:
      return check_welcome(state);
    case Step::receive_hello:
      if (hello_.magic != kNetworkMagic) *state = State::refused;
      step_ = Step::send_challenge;
      return Status();
    case Step::send_challenge:
      step_ = Step::receive_proof;
      return Status();
    case Step::receive_proof:
      step_ = Step::send_welcome;
      return check_proof();
    case Step::send_welcome:
      *state = is_wrong_secret_ ? State::refused : State::done;
      step_ = Step::end;
      return Status();
    case Step::end:
      break;
  }
  return Status();
}

/** The refusal has no digest: who does not know the secret gets nothing that depends on it. */
Status Handshake::check_proof() {
  Digest expected;
  GQ_TRY(digest(kConnects, &expected));
  is_wrong_secret_ = !same_digest(expected, proof_.digest) ||
                     memcmp(hello_.group, secret_->name, sizeof hello_.group) != 0;
  welcome_ = Welcome();
  if (is_wrong_secret_) {
    welcome_.status = GQSGD_INVALID_ARGUMENT;
    return Status();
  }
  return digest(kAccepts, &welcome_.digest);
}

Status Handshake::check_welcome(State* state) {
  Digest expected;
  GQ_TRY(digest(kAccepts, &expected));
  step_ = Step::end;
  *state = State::refused;
  if (welcome_.magic != kNetworkMagic) return Status();
  is_wrong_secret_ = welcome_.status != GQSGD_OK || !same_digest(expected, welcome_.digest);
  if (!is_wrong_secret_) *state = State::done;
  return Status();
}

}  // namespace gq
