// A joiner looks for rank 0, proves that it knows the secret, receives the table of all ranks,
// connects to them, reports and waits for the end of the bootstrap.
#include "src/transport/network/bootstrap/network_joiner.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <algorithm>

#include "src/support/clock.h"
#include "src/support/log.h"
#include "src/transport/network/bootstrap/network_root.h"
#include "src/transport/refusal.h"
#include "src/transport/system_failure.h"

namespace gq {
namespace {

constexpr timespec kRetryPause{0, 20000000};
constexpr int kPollMs = 1000;
// Who has listened before this process knew of it and refuses for so long is gone.
constexpr uint64_t kGiveUpUs = 2000000;
// If rank 0 has several addresses, one that answers nothing for so long is left for the next. The
// time doubles, up to kPatienceMaxUs, when as many have been left as there are.
constexpr uint64_t kPatienceUs = 1000000;
constexpr uint64_t kPatienceMaxUs = 8 * kPatienceUs;
// A warning in the log after so long.
constexpr uint64_t kWarnUs = 5000000;
// After its timeout a joiner asks rank 0 which ranks are missing; and a rank 0 whose time is up at
// the same moment waits for reports. Both answer within this time.
constexpr int64_t kLastWordMs = 1000;

/** Until the descriptor is ready, at most until `deadline` or `until_us`. */
Status wait_for(const TcpSocket& socket, short events, const Deadline& deadline,
                uint64_t until_us = kNever) {
  pollfd watched{socket.number(), events, 0};
  if (poll(&watched, 1, deadline.poll_ms(kPollMs, until_us)) >= 0 || errno == EINTR) {
    return Status();
  }
  return system_failure(errno, "waiting for rank 0");
}

/** Unless there are no others: then the failure says so. */
void leave_out_unknown_families(std::vector<NetworkAddress>* addresses) {
  std::vector<NetworkAddress> known;
  for (const NetworkAddress& address : *addresses) {
    if (has_sockets_of(address.family)) known.push_back(address);
  }
  if (!known.empty()) *addresses = std::move(known);
}

}  // namespace

Status NetworkJoiner::root_is_gone() const {
  return fail(GQSGD_PEER_LOST,
              "rank %u: rank 0 at %s died, or closed its connection, while the group formed",
              token_->rank, AddressText(root_address_).text());
}

Status NetworkJoiner::gather(Status own, const NetworkMember& bring, NetworkTable* table) {
  NetworkMember member = bring;
  if (!own.ok()) {  // the others are told, if rank 0 is there
    token_->deadline =
        Deadline(std::min(deadline_after_ms(kRefusalMs), token_->deadline.us()));
  }
  const Status reached = reach_root();
  if (!reached.ok()) return own.ok() ? reached : own;
  if (own.ok()) own = listen(&member);
  GQ_TRY(send_report(own));
  if (!own.ok()) return own;
  GQ_TRY(send_bytes(&member, sizeof member));
  return receive_table(table);
}

Status NetworkJoiner::connect(Status own, const std::vector<unsigned char>& engine_address,
                              EngineAddresses* engine_addresses) {
  const std::vector<unsigned char> message = engine_message(engine_address);
  mesh_ = std::make_unique<Mesh>(*token_, members_, std::move(root_), std::move(listener_));
  if (!own.ok()) {
    GQ_TRY(send_bytes(message.data(), message.size()));
    GQ_TRY(send_report(own));
    return own;
  }
  const Status connected = mesh_->connect(message);
  if (!connected.ok()) {
    (void)send_report(connected).ok();  // fails where rank 0 itself is the reason
    return connected;
  }
  *engine_addresses = mesh_->take_engine_addresses();
  return Status();
}

/** Before this rank has reported, rank 0 sends nothing but a failure of the group. */
bool NetworkJoiner::has_failed() {
  pollfd readable{mesh_->root().number(), POLLIN, 0};
  return poll(&readable, 1, 0) > 0;
}

Status NetworkJoiner::conclude(Status own, NetworkLinks* links) {
  GQ_TRY(send_report(own));
  if (!own.ok()) return own;
  NetworkOutcome outcome;
  GQ_TRY(receive_outcome(token_->deadline.later_by(1000 * kLastWordMs), &outcome));
  *links = mesh_->take_links();
  return Status();
}

Status NetworkJoiner::reach_root() {
  const uint64_t begun_us = monotonic_us();
  bool has_warned = false;
  uint64_t patience_us = kPatienceUs;
  size_t left_count = 0;  // since patience_us was set
  leave_out_unknown_families(&token_->root);
  for (size_t attempt = 0;; ++attempt) {
    const NetworkAddress& address = token_->root[attempt % token_->root.size()];
    const uint64_t leave_us = token_->root.size() == 1 ? kNever : monotonic_us() + patience_us;
    Handshake::State state = Handshake::State::closed;
    int error = 0;
    GQ_TRY(try_root(address, leave_us, &state, &error));
    root_address_ = address;
    if (state == Handshake::State::done) return Status();
    if (state == Handshake::State::refused) {
      return fail(GQSGD_INVALID_ARGUMENT,
                  "rank %u: the process at %s has another secret than this one, or is no rank 0: "
                  "pass on all bytes of one id, and set GQSGD_SECRET alike on all ranks",
                  token_->rank, AddressText(address).text());
    }
    const uint64_t now_us = monotonic_us();
    const bool is_refused = error == ECONNREFUSED && token_->root_listens;
    if (token_->deadline.is_over() || (is_refused && now_us - begun_us >= kGiveUpUs)) {
      return not_reached(address, error);
    }
    if (!has_warned && now_us - begun_us >= kWarnUs) {
      has_warned = true;
      log_line(GQSGD_LOG_WARN, "rank %u has not reached rank 0 at %s yet: %s", token_->rank,
               AddressText(address).text(), error == 0 ? "no answer" : strerrordesc_np(error));
    }
    if (now_us >= leave_us && ++left_count == token_->root.size()) {
      patience_us = std::min(2 * patience_us, kPatienceMaxUs);
      left_count = 0;
    }
    nanosleep(&kRetryPause, nullptr);
  }
}

/** One connection and its handshake; *error: why there is none. Left at `leave_us` if nothing was
 *  answered; not behind the challenge, since with the proof rank 0 may count this rank as there. */
Status NetworkJoiner::try_root(const NetworkAddress& address, uint64_t leave_us,
                               Handshake::State* state, int* error) {
  GQ_TRY(begin_connect(address, &root_, error));
  if (*error != 0) return Status();
  for (bool is_connected = false;;) {
    if (!is_connected) {
      pollfd writable{root_->number(), POLLOUT, 0};
      is_connected = poll(&writable, 1, 0) > 0;
      if (is_connected) *error = connect_error(*root_);
      if (*error != 0) {
        root_.reset();  // its port may be rank 0's
        return Status();
      }
      if (is_connected) {
        Hello hello;
        hello.rank = token_->rank;
        hello.size = token_->size;
        hello.purpose = HelloPurpose::join;
        handshake_ = Handshake();
        GQ_TRY(handshake_.connect(token_->secret, hello));
      }
    }
    if (is_connected) {
      GQ_TRY(handshake_.advance(*root_, state));
      if (*state != Handshake::State::under_way) return Status();
      if (handshake_.has_challenge()) leave_us = kNever;
    }
    if (token_->deadline.is_over() || monotonic_us() >= leave_us) {
      *state = Handshake::State::closed;
      *error = is_connected ? 0 : ETIMEDOUT;
      return Status();
    }
    const bool writes = !is_connected || handshake_.is_writing();
    GQ_TRY(wait_for(*root_, writes ? POLLOUT : POLLIN, token_->deadline, leave_us));
  }
}

Status NetworkJoiner::not_reached(const NetworkAddress& address, int error) const {
  const AddressText text(address);
  if (error == 0) {
    return fail(GQSGD_TIMEOUT,
                "rank %u: the process at %s%s took the connection and did not answer in the time "
                "allowed: rank 0 is stopped or flooded, or another program listens there",
                token_->rank, text.text(), token_->root_meaning);
  }
  const bool is_elsewhere = address.is_loopback() && token_->root_meaning[0] != '\0';
  return fail(GQSGD_TIMEOUT,
              "missing ranks: 0; rank %u cannot connect to rank 0 at %s%s: %s; is rank 0 started "
              "there, is its group still forming, a firewall?%s",
              token_->rank, text.text(), token_->root_meaning, strerrordesc_np(error),
              is_elsewhere ? " That address is this machine's loopback device: if rank 0 is "
                             "elsewhere, set MASTER_ADDR or GQSGD_ADDRESS to an address of it, or "
                             "GQSGD_INTERFACE there"
                           : "");
}

/** At the address by which rank 0 is reached, unless the caller has chosen one. */
Status NetworkJoiner::listen(NetworkMember* own) {
  NetworkAddress address = token_->own;
  if (address.family == 0) address = local_address(root_->number());
  address.port = 0;
  return listen_at(address, &listener_, &own->address);
}

Status NetworkJoiner::send_report(const Status& own) {
  NetworkReport report;
  report.status = own.code();
  snprintf(report.sentence, sizeof report.sentence, "%s", own.sentence());
  return send_bytes(&report, sizeof report);
}

Status NetworkJoiner::send_bytes(const void* bytes, size_t size_bytes) {
  const TcpSocket& root = mesh_ ? mesh_->root() : *root_;
  for (size_t sent_bytes = 0;;) {
    const SocketTransfer sent = send_rest(root, bytes, size_bytes, &sent_bytes);
    if (sent == SocketTransfer::done) return Status();
    // It may have sent a reason before it closed the connection, which is received next.
    if (sent == SocketTransfer::closed) return Status();
    if (token_->deadline.is_over()) return root_is_gone();
    GQ_TRY(wait_for(root, POLLOUT, token_->deadline));
  }
}

/** TIMEOUT without a sentence of use where nothing came in time. */
Status NetworkJoiner::receive_bytes(void* bytes, size_t size_bytes, const Deadline& deadline) {
  const TcpSocket& root = mesh_ ? mesh_->root() : *root_;
  for (size_t received_bytes = 0;;) {
    const SocketTransfer received = receive_rest(root, bytes, size_bytes, &received_bytes);
    if (received == SocketTransfer::done) return Status();
    if (received == SocketTransfer::closed) return root_is_gone();
    if (deadline.is_over()) {
      return fail(GQSGD_TIMEOUT,
                  "rank %u: rank 0 at %s did not answer in the time allowed; it is stopped or too "
                  "slow",
                  token_->rank, AddressText(root_address_).text());
    }
    GQ_TRY(wait_for(root, POLLIN, deadline));
  }
}

Status NetworkJoiner::receive_outcome(const Deadline& deadline, NetworkOutcome* outcome) {
  GQ_TRY(receive_bytes(outcome, sizeof *outcome, deadline));
  if (outcome->magic != kNetworkMagic || !is_status(outcome->status)) {
    return fail(GQSGD_PROTOCOL, "rank %u: rank 0 sent what is no outcome", token_->rank);
  }
  outcome->sentence[sizeof outcome->sentence - 1] = '\0';
  return outcome->status == GQSGD_OK ? Status() : fail(outcome->status, "%s", outcome->sentence);
}

Status NetworkJoiner::receive_table(NetworkTable* table) {
  NetworkOutcome outcome;
  pollfd readable{root_->number(), POLLIN, 0};
  while (poll(&readable, 1, token_->deadline.poll_ms(kPollMs)) <= 0) {
    if (token_->deadline.is_over()) return ask_for_missing_ranks();
  }
  const Deadline deadline(deadline_after_ms(kLastWordMs * 10));
  GQ_TRY(receive_outcome(deadline, &outcome));
  if (outcome.rank_count != token_->size) {
    return fail(GQSGD_PROTOCOL, "rank %u: rank 0 has a group of %u ranks, this rank one of %u",
                token_->rank, outcome.rank_count, token_->size);
  }
  members_.resize(token_->size);
  GQ_TRY(receive_bytes(members_.data(), members_.size() * sizeof(NetworkMember), deadline));
  for (NetworkMember& member : members_) member.host_name[sizeof member.host_name - 1] = '\0';
  table->members = members_;
  memcpy(table->group_nonce, outcome.group_nonce, sizeof table->group_nonce);
  return Status();
}

/** A late table is of no use, because rank 0 knows of the failure. */
Status NetworkJoiner::ask_for_missing_ranks() {
  GQ_TRY(send_report(fail(GQSGD_TIMEOUT, "rank %u gave up", token_->rank)));
  NetworkOutcome outcome;
  GQ_TRY(receive_outcome(Deadline(deadline_after_ms(kLastWordMs)), &outcome));
  return fail(GQSGD_TIMEOUT,
              "rank %u gave up as the last of %u ranks came; timeout_ms sets the time",
              token_->rank, token_->size);
}

std::unique_ptr<NetworkBootstrap> open_network_bootstrap(NetworkToken* token) {
  if (token->rank == 0) return std::make_unique<NetworkRoot>(token);
  return std::make_unique<NetworkJoiner>(token);
}

}  // namespace gq
