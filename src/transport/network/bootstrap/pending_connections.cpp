// Each pending connection has two seconds for its handshake; the log names some that fail.
#include "src/transport/network/bootstrap/pending_connections.h"

#include <inttypes.h>
#include <stdio.h>

#include <new>
#include <utility>

#include "src/support/clock.h"
#include "src/support/log.h"

namespace gq {
namespace {

constexpr int64_t kPendingMs = 2000;
// Connections taken at a time, so that those that come without end keep a rank neither from its
// deadline nor from the ranks. Fewer than kMax: each is read before it is dropped for newer ones.
constexpr uint32_t kAcceptsAtOnce = 32;
// The log names so many that have not proved what they are, and counts all.
constexpr uint64_t kEndedLinesMax = 8;

}  // namespace

void RefusedConnections::add(const NetworkAddress& from, const char* why) {
  count_ += 1;
  const AddressText text(from);
  if (count_ == 1) {
    snprintf(sentence_, sizeof sentence_, " 1 connection was refused, from %s: it %s", text.text(),
             why);
  } else {
    snprintf(sentence_, sizeof sentence_,
             " %" PRIu64 " connections were refused, the last from %s: it %s", count_, text.text(),
             why);
  }
}

PendingConnections::~PendingConnections() {
  if (ended_count_ <= kEndedLinesMax) return;
  log_line(GQSGD_LOG_WARN,
           "%" PRIu64 " connections were refused or went away while the group formed",
           ended_count_);
}

Status PendingConnections::open() {
  pending_.reset(new (std::nothrow) std::unique_ptr<Pending>[kMax]);
  if (pending_) return Status();
  return fail(GQSGD_NO_MEMORY, "no memory for %u connections", kMax);
}

void PendingConnections::drop(uint32_t index) {
  for (uint32_t k = index; k + 1 < count_; ++k) pending_[k] = std::move(pending_[k + 1]);
  pending_[--count_].reset();
}

/** Of a connection that has not proved that it belongs to the group. */
void PendingConnections::end(const Pending& pending, Handshake::State state) {
  const char* why = "sent nothing in the time allowed";
  if (state == Handshake::State::closed) {
    why = "went away";
  } else if (state == Handshake::State::refused) {
    why = pending.handshake.is_wrong_secret()
              ? "does not know the secret of this group (another id, GQSGD_SECRET or job)"
              : "is no rank of a group";
  }
  if (state != Handshake::State::closed) refused_.add(pending.from, why);
  ended_count_ += 1;
  if (ended_count_ > kEndedLinesMax) return;
  log_line(GQSGD_LOG_WARN, "refused a connection from %s: it %s", AddressText(pending.from).text(),
           why);
}

/** When descriptors or memory are short, the oldest makes way, since it may be what is missing. */
Status PendingConnections::accept_some(const TcpSocket& listener) {
  for (uint32_t k = 0; k < kAcceptsAtOnce; ++k) {
    std::unique_ptr<Pending> made(new (std::nothrow) Pending);
    if (!made) return fail(GQSGD_NO_MEMORY, "no memory for a connection");
    const Status accepted = accept_connection(listener, &made->socket, &made->from);
    if (!accepted.ok()) {
      if (count_ == 0) return accepted;
      drop(0);
      continue;
    }
    if (!made->socket) return Status();
    if (count_ == kMax) drop(0);
    made->drop_us = deadline_after_ms(kPendingMs);
    GQ_TRY(made->handshake.accept(secret_));
    pending_[count_++] = std::move(made);
  }
  return Status();
}

Status PendingConnections::advance(const TcpSocket& listener, ProvedConnection* proved) {
  proved->socket.reset();
  GQ_TRY(accept_some(listener));
  for (uint32_t k = 0; k < count_;) {
    Pending& pending = *pending_[k];
    Handshake::State state;
    GQ_TRY(pending.handshake.advance(*pending.socket, &state));
    const bool is_late = monotonic_us() >= pending.drop_us;
    if (state == Handshake::State::under_way && !is_late) {
      ++k;
      continue;
    }
    if (state == Handshake::State::done) {
      *proved = {std::move(pending.socket), pending.from, pending.handshake.hello()};
      drop(k);
      return Status();
    }
    end(pending, state);
    drop(k);
  }
  return Status();
}

uint32_t PendingConnections::fill(pollfd* polls) const {
  for (uint32_t k = 0; k < count_; ++k) {
    const short events = pending_[k]->handshake.is_writing() ? POLLOUT : POLLIN;
    polls[k] = {pending_[k]->socket->number(), events, 0};
  }
  return count_;
}

uint64_t PendingConnections::deadline_us() const {
  return count_ == 0 ? kNever : pending_[0]->drop_us;
}

}  // namespace gq
