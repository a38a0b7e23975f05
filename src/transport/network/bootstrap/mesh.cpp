// Connecting, accepting and exchanging, all at the same time, until all are ready.
#include "src/transport/network/bootstrap/mesh.h"

#include <errno.h>
#include <string.h>

#include "src/support/clock.h"
#include "src/support/rank_list.h"
#include "src/support/shown.h"
#include "src/transport/system_failure.h"

namespace gq {
namespace {

constexpr int kPollMs = 1000;
constexpr uint64_t kRetryUs = 20000;
// Every rank listens before its address is known: what refuses for so long is in the way.
constexpr uint64_t kGiveUpUs = 3000000;

}  // namespace

Mesh::Mesh(const NetworkToken& token, const std::vector<NetworkMember>& members,
           std::unique_ptr<TcpSocket> root, std::unique_ptr<TcpSocket> listener)
    : token_(token), members_(members), listener_(std::move(listener)), pending_(token.secret) {
  links_.resize(token.size);
  polls_.resize(1 + PendingConnections::kMax + token.size);
  links_[0].socket = std::move(root);
  links_[0].step = Step::exchanges;
  links_[token.rank].step = Step::ready;
}

Status Mesh::connect(const std::vector<unsigned char>& engine_message) {
  engine_message_ = &engine_message;
  GQ_TRY(pending_.open());
  for (;;) {
    for (uint32_t peer = 0; peer < token_.size; ++peer) GQ_TRY(advance(peer));
    GQ_TRY(accept_proved());
    GQ_TRY(watch_root());
    if (is_ready()) break;
    if (token_.deadline.is_over()) return late();
    GQ_TRY(watch());
  }
  listener_.reset();
  return Status();
}

Status Mesh::advance(uint32_t peer) {
  Link& link = links_[peer];
  const bool is_ours = peer > 0 && peer < token_.rank;
  if (link.step == Step::away && is_ours && monotonic_us() >= link.retry_us) GQ_TRY(begin(peer));
  if (link.step == Step::connects) {
    pollfd writable{link.socket->number(), POLLOUT, 0};
    if (poll(&writable, 1, 0) <= 0) return Status();
    const int error = connect_error(*link.socket);
    if (error != 0) return retry(peer, error);
    Hello hello;
    hello.purpose = HelloPurpose::mesh;
    hello.rank = token_.rank;
    hello.size = token_.size;
    hello.to_rank = peer;
    GQ_TRY(link.handshake.connect(token_.secret, hello));
    link.step = Step::shakes_hands;
  }
  if (link.step == Step::shakes_hands) {
    Handshake::State state;
    GQ_TRY(link.handshake.advance(*link.socket, &state));
    if (state == Handshake::State::under_way) return Status();
    if (state != Handshake::State::done) return retry(peer, ECONNRESET);
    link.step = Step::exchanges;
  }
  return link.step == Step::exchanges ? exchange(peer) : Status();
}

Status Mesh::begin(uint32_t peer) {
  Link& link = links_[peer];
  int error = 0;
  GQ_TRY(begin_connect(members_[peer].address, &link.socket, &error));
  if (error != 0) return retry(peer, error);
  link.step = Step::connects;
  return Status();
}

/** The listener drops the oldest connections when too many come. */
Status Mesh::retry(uint32_t peer, int error) {
  Link& link = links_[peer];
  const uint64_t now_us = monotonic_us();
  if (link.first_failed_us == 0) link.first_failed_us = now_us;
  link.socket.reset();
  link.setup = LinkSetup();
  link.step = Step::away;
  link.error = error;
  if (peer < token_.rank) link.retry_us = now_us + kRetryUs;  // a higher rank comes by itself
  if (error == ECONNRESET || now_us - link.first_failed_us < kGiveUpUs) return Status();
  return fail(
      GQSGD_SYSTEM,
      "rank %u cannot connect to rank %u on %s at %s: %s; a firewall between the two, or an "
      "interface that rank %u does not reach (interface=NAME or GQSGD_INTERFACE selects "
      "another)?",
      token_.rank, peer, Shown(members_[peer].host_name).text(),
      AddressText(members_[peer].address).text(), strerrordesc_np(error), token_.rank);
}

Status Mesh::exchange(uint32_t peer) {
  Link& link = links_[peer];
  switch (link.setup.advance(*link.socket, *engine_message_)) {
    case LinkSetup::State::done:
      link.step = Step::ready;
      return Status();
    case LinkSetup::State::report:
    case LinkSetup::State::wrong:
      return fail(GQSGD_PROTOCOL, "rank %u sent rank %u what no correct rank sends", peer,
                  token_.rank);
    case LinkSetup::State::closed:
      // A rank that fails ends its connections; rank 0 has the reason.
      if (peer > 0) return retry(peer, ECONNRESET);
      return root_is_gone();
    case LinkSetup::State::failed:
      if (peer == 0) link.step = Step::ready;  // its outcome comes next
      return Status();
    case LinkSetup::State::under_way:
      break;
  }
  return Status();
}

/** Before this rank has reported, rank 0 sends nothing but a failure of the group. */
Status Mesh::watch_root() {
  if (links_[0].step != Step::ready) return Status();
  const SocketTransfer received = receive_rest(root(), &outcome_, sizeof outcome_, &outcome_bytes_);
  if (received == SocketTransfer::not_yet) return Status();
  outcome_.sentence[sizeof outcome_.sentence - 1] = '\0';
  if (received == SocketTransfer::done && outcome_.magic == kNetworkMagic &&
      outcome_.status != GQSGD_OK && is_status(outcome_.status)) {
    return fail(outcome_.status, "%s", outcome_.sentence);
  }
  return root_is_gone();
}

Status Mesh::root_is_gone() const {
  return fail(GQSGD_PEER_LOST,
              "rank %u: rank 0 died, or closed its connection, while the group formed",
              token_.rank);
}

Status Mesh::accept_proved() {
  for (;;) {
    ProvedConnection proved;
    GQ_TRY(pending_.advance(*listener_, &proved));
    if (!proved.socket) return Status();
    const Hello& hello = proved.hello;
    const bool is_due = hello.purpose == HelloPurpose::mesh && hello.to_rank == token_.rank &&
                        hello.size == token_.size && hello.rank > token_.rank &&
                        hello.rank < token_.size;
    if (!is_due) continue;
    Link& link = links_[hello.rank];  // a rank whose first connection has ended comes again
    link.socket = std::move(proved.socket);
    link.setup = LinkSetup();
    link.step = Step::exchanges;
    GQ_TRY(exchange(hello.rank));
  }
}

bool Mesh::is_ready() const {
  for (const Link& link : links_) {
    if (link.step != Step::ready) return false;
  }
  return true;
}

Status Mesh::watch() {
  uint64_t until_us = kNever;
  nfds_t count = 0;
  polls_[count++] = {listener_->number(), POLLIN, 0};
  count += pending_.fill(&polls_[count]);
  until_us = std::min(until_us, pending_.deadline_us());
  for (const Link& link : links_) {
    if (link.step == Step::away && link.retry_us != 0 && link.retry_us < until_us) {
      until_us = link.retry_us;
    }
    if (!link.socket || (link.step == Step::ready && &link != &links_[0])) continue;
    const bool writes = link.step == Step::connects ||
                        (link.step == Step::shakes_hands && link.handshake.is_writing()) ||
                        (link.step == Step::exchanges && link.setup.is_writing());
    polls_[count++] = {link.socket->number(), static_cast<short>(writes ? POLLOUT : POLLIN), 0};
  }
  const int wait_ms = token_.deadline.poll_ms(kPollMs, until_us);
  if (poll(polls_.data(), count, wait_ms) >= 0 || errno == EINTR) return Status();
  return system_failure(errno, "rank %u: waiting for other ranks", token_.rank);
}

/** The time is up: names the ranks that are not connected, and why the first is not. */
Status Mesh::late() const {
  RankList missing;
  uint32_t first = token_.size;
  for (uint32_t peer = 0; peer < token_.size; ++peer) {
    if (links_[peer].step == Step::ready) continue;
    if (first == token_.size) first = peer;
    missing.add(peer);
  }
  const int error = links_[first].error;
  return fail(GQSGD_TIMEOUT,
              "rank %u is not connected to rank%s %s in the time allowed; rank %u on %s at %s %s: "
              "is it stopped, or does a firewall drop connections?",
              token_.rank, missing.count() == 1 ? "" : "s", missing.text(), first,
              Shown(members_[first].host_name).text(), AddressText(members_[first].address).text(),
              error == 0 ? "does not answer" : strerrordesc_np(error));
}

EngineAddresses Mesh::take_engine_addresses() {
  EngineAddresses addresses(token_.size);
  for (uint32_t peer = 0; peer < token_.size; ++peer) {
    addresses[peer] = std::move(links_[peer].setup.theirs());
  }
  return addresses;
}

NetworkLinks Mesh::take_links() {
  NetworkLinks sockets(token_.size);
  for (uint32_t peer = 0; peer < token_.size; ++peer)
    sockets[peer] = std::move(links_[peer].socket);
  return sockets;
}

}  // namespace gq
