// What rank 0 does with the messages of each rank, and how it fails the group.
#include <stdarg.h>
#include <stdio.h>

#include "src/support/clock.h"
#include "src/support/log.h"
#include "src/support/rank_list.h"
#include "src/support/shown.h"
#include "src/transport/network/bootstrap/network_root.h"

namespace gq {
namespace {

// Ranks that still arrive receive the group's failure, this long.
constexpr int64_t kLingerMs = 500;
constexpr int kPollMs = 100;

/** A failure of one rank, as the others receive it. */
gqsgd_status shared_status(gqsgd_status status) {
  return status == GQSGD_TIMEOUT || status == GQSGD_PEER_LOST ? status : GQSGD_REMOTE_ERROR;
}

}  // namespace

Status NetworkRoot::admit_proved() {
  for (;;) {
    ProvedConnection proved;
    GQ_TRY(pending_.advance(*token_->listener, &proved));
    if (!proved.socket) return Status();
    admit(&proved);
  }
}

/** Its hello is authentic: it is admitted, or receives the reason why not. */
void NetworkRoot::admit(ProvedConnection* proved) {
  const Hello& hello = proved->hello;
  if (hello.purpose != HelloPurpose::join) return;
  check_hello(hello);
  const bool is_rank = hello.rank > 0 && hello.rank < token_->size;
  if (!is_rank || joined_[hello.rank].socket) {
    if (outcome_.status != GQSGD_OK) {
      return refuse(*proved->socket, outcome_.status, "%s", outcome_.sentence);
    }
    if (!is_rank) {
      pending_.refused().add(proved->from, "claims a rank outside this group");
      return refuse(*proved->socket, GQSGD_PROTOCOL, "rank %u of %u came to a group of %u",
                    hello.rank, hello.size, token_->size);
    }
    pending_.refused().add(proved->from, "has the rank of another process");
    return refuse(*proved->socket, GQSGD_DUPLICATE_RANK,
                  "rank %u is taken by the process at %s; the one at %s needs a rank of its own",
                  hello.rank, AddressText(joined_[hello.rank].from).text(),
                  AddressText(proved->from).text());
  }
  Joined& joined = joined_[hello.rank];
  joined.socket = std::move(proved->socket);
  joined.from = proved->from;
  joined.step = Step::sends_report;
  log_line(GQSGD_LOG_INFO, "rank %u of %u has come from %s", hello.rank, token_->size,
           AddressText(joined.from).text());
  if (outcome_.status != GQSGD_OK) send_outcome(hello.rank);
}

/** Fails the group for what no member could live with. */
void NetworkRoot::check_hello(const Hello& hello) {
  if (!is_own_version(hello.wire_version, hello.library_version)) {
    fail_group(GQSGD_VERSION, "%s",
               VersionsDiffer(hello.rank, hello.wire_version, hello.library_version).sentence);
  } else if (hello.size != token_->size) {
    fail_group(GQSGD_MISMATCH,
               "size: rank 0 = %u, rank %u = %u; every rank must name the same size", token_->size,
               hello.rank, hello.size);
  }
}

void NetworkRoot::refuse(const TcpSocket& socket, gqsgd_status status, const char* format, ...) {
  NetworkOutcome outcome;
  outcome.status = status;
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(outcome.sentence, sizeof outcome.sentence, format, arguments);
  va_end(arguments);
  log_line(GQSGD_LOG_WARN, "refused a rank: %s", outcome.sentence);
  size_t sent_bytes = 0;
  send_rest(socket, &outcome, sizeof outcome, &sent_bytes);  // a new socket has space for it
  end_sending(socket);
}

void NetworkRoot::receive_from(uint32_t rank) {
  for (Joined& joined = joined_[rank]; joined.socket;) {
    const SocketTransfer received = receive_message(&joined);
    if (received == SocketTransfer::not_yet) return;
    if (received == SocketTransfer::closed) return lose(rank);
    take_message(rank);
  }
}

SocketTransfer NetworkRoot::receive_message(Joined* joined) {
  switch (joined->step) {
    case Step::sends_member:
      return receive_rest(*joined->socket, &joined->member, sizeof joined->member,
                          &joined->received_bytes);
    case Step::sends_engine: {
      const LinkSetup::State state = joined->link.advance(*joined->socket, {});
      if (state == LinkSetup::State::under_way) return SocketTransfer::not_yet;
      if (state == LinkSetup::State::report) return receive_late_report(joined);
      const bool is_right = state == LinkSetup::State::done || state == LinkSetup::State::failed;
      return is_right ? SocketTransfer::done : SocketTransfer::closed;
    }
    default:
      return receive_rest(*joined->socket, &joined->report, sizeof joined->report,
                          &joined->received_bytes);
  }
}

/** Its time was up before it knew that all ranks had come. */
SocketTransfer NetworkRoot::receive_late_report(Joined* joined) {
  const EngineAddress& first = joined->link.header();
  joined->step = Step::fails;
  joined->report.magic = first.magic;
  joined->report.status = static_cast<int32_t>(first.size_bytes);
  joined->received_bytes = sizeof first;
  return receive_message(joined);
}

void NetworkRoot::take_message(uint32_t rank) {
  Joined& joined = joined_[rank];
  switch (joined.step) {
    case Step::sends_member:
      joined.member.host_name[sizeof joined.member.host_name - 1] = '\0';
      joined.step = Step::joined;
      return;
    case Step::sends_engine:
      joined.step = joined.link.theirs().empty() ? Step::fails : Step::connects;
      return;
    default:
      return take_report(rank);
  }
}

void NetworkRoot::take_report(uint32_t rank) {
  Joined& joined = joined_[rank];
  const NetworkReport& report = joined.report;
  joined.report.sentence[sizeof report.sentence - 1] = '\0';
  const bool is_due = joined.step == Step::sends_report || joined.step == Step::connects;
  if (report.magic != kNetworkMagic || !is_status(report.status) ||
      (!is_due && report.status == GQSGD_OK)) {
    return fail_group(GQSGD_PROTOCOL, "rank %u sent what no correct rank sends", rank);
  }
  if (report.status == GQSGD_OK) {
    joined.step = joined.step == Step::connects ? Step::ready : Step::sends_member;
  } else if (report.status == GQSGD_TIMEOUT && joined.step <= Step::fails) {
    fail_for_missing_ranks(rank);
  } else {
    fail_group(shared_status(report.status), "rank %u could not join: %s (%s)", rank,
               Shown(report.sentence, Shown::kPathBytes).text(), gqsgd_status_name(report.status));
  }
}

void NetworkRoot::lose(uint32_t rank) {
  Joined& joined = joined_[rank];
  fail_group(GQSGD_PEER_LOST, "rank %u (%s) died, or closed its connection, while the group formed",
             rank, AddressText(joined.from).text());
  joined.socket.reset();
}

/** Addresses of the loopback device lead each machine to itself. */
void NetworkRoot::check_addresses() {
  for (uint32_t rank = 1; rank < token_->size; ++rank) {
    const NetworkMember& member = joined_[rank].member;
    if (!member.address.is_loopback()) continue;
    for (uint32_t other = 1; other < token_->size; ++other) {
      const NetworkMember& far = joined_[other].member;
      if (memcmp(far.system, member.system, sizeof far.system) == 0) continue;
      return fail_group(
          GQSGD_INVALID_ARGUMENT,
          "rank %u on %s has the address %s, by which rank 0 is reached there, and which rank %u "
          "on "
          "%s does not reach (a line of /etc/hosts may be the reason): interface=NAME or "
          "GQSGD_INTERFACE selects another",
          rank, Shown(member.host_name).text(), AddressText(member.address).text(), other,
          Shown(far.host_name).text());
    }
  }
}

void NetworkRoot::queue(uint32_t rank, const void* bytes, size_t size_bytes) {
  const auto* first = static_cast<const unsigned char*>(bytes);
  std::vector<unsigned char>& out = joined_[rank].out;
  out.insert(out.end(), first, first + size_bytes);
}

void NetworkRoot::flush(uint32_t rank) {
  Joined& joined = joined_[rank];
  if (!joined.socket || joined.out.empty()) return;
  const SocketTransfer sent =
      send_rest(*joined.socket, joined.out.data(), joined.out.size(), &joined.sent_bytes);
  if (sent == SocketTransfer::closed) return lose(rank);
  if (sent == SocketTransfer::done) std::vector<unsigned char>().swap(joined.out);
}

/** The first reason counts; all ranks receive the same sentence. */
void NetworkRoot::fail_group(gqsgd_status status, const char* format, ...) {
  if (outcome_.status != GQSGD_OK) return;
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(outcome_.sentence, sizeof outcome_.sentence, format, arguments);
  va_end(arguments);
  outcome_.status = status;
  outcome_.rank_count = 0;
  linger_until_us_ = token_->deadline.linger_end_us(status == GQSGD_TIMEOUT ? 0 : kLingerMs);
  for (uint32_t rank = 1; rank < token_->size; ++rank) {
    if (joined_[rank].socket) send_outcome(rank);
  }
}

void NetworkRoot::send_outcome(uint32_t rank) {
  const EngineAddress none;
  if (awaits_engine_) queue(rank, &none, sizeof none);
  queue(rank, &outcome_, sizeof outcome_);
  flush(rank);
}

/** The other ranks receive it as the failure of any rank; this process keeps its own sentence. */
void NetworkRoot::fail_for_own_status(const Status& own) {
  if (outcome_.status != GQSGD_OK) return;
  own_ = own;
  fail_group(shared_status(own.code()), "rank 0 could not join: %s (%s)", own.sentence(),
             gqsgd_status_name(own.code()));
}

/** `impatient` is the rank whose time is up. */
void NetworkRoot::fail_for_missing_ranks(uint32_t impatient) {
  RankList missing;
  for (uint32_t rank = 1; rank < token_->size; ++rank) {
    if (joined_[rank].step < Step::joined) missing.add(rank);
  }
  if (missing.count() == 0) {
    return fail_group(
        GQSGD_TIMEOUT,
        "rank %u gave up when its time was over, as the last of %u ranks came; timeout_ms "
        "sets the time",
        impatient, token_->size);
  }
  const AddressText listens_at(
      token_->listener ? local_address(token_->listener->number()) : NetworkAddress());
  fail_group(GQSGD_TIMEOUT,
             "missing ranks: %s; %u of %u did not come in the time allowed to rank 0 at %s%s; are "
             "they started, with the same id or address, and is the port open to them?%s",
             missing.text(), missing.count(), token_->size, listens_at.text(),
             token_->root_meaning, pending_.refused().sentence());
}

/** Until everything is sent, or the time for that is over. */
void NetworkRoot::linger() {
  const uint64_t deadline_us = deadline_after_ms(kLingerMs);
  for (;;) {
    bool is_sent = true;
    for (uint32_t rank = 1; rank < token_->size; ++rank) {
      flush(rank);
      is_sent = is_sent && (joined_[rank].out.empty() || !joined_[rank].socket);
    }
    if (is_sent || monotonic_us() >= deadline_us) break;
    if (!watch(Deadline(deadline_after_ms(kPollMs))).ok()) break;
  }
  if (outcome_.status == GQSGD_OK) return;
  for (uint32_t rank = 1; rank < token_->size; ++rank) {
    if (joined_[rank].socket) end_sending(*joined_[rank].socket);
  }
}

Status NetworkRoot::group_failure() {
  if (!own_.ok()) return own_;
  return fail(outcome_.status, "%s", outcome_.sentence);
}

}  // namespace gq
