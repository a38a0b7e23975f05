// The host's loop while ranks arrive, and the handing out when all are there. Whom it lets in is in
// bootstrap_door.cpp.
#include "src/transport/bootstrap/bootstrap_host.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <time.h>

#include <new>

#include "src/support/clock.h"
#include "src/support/rank_list.h"
#include "src/transport/bootstrap/random_bytes.h"
#include "src/transport/system_failure.h"

namespace gq {
namespace {

constexpr timespec kRetryPause{0, 1000000};
constexpr int kPollMs = 1000;
// A doomed group is told to ranks that still arrive, this long.
constexpr int64_t kLingerMs = 500;
constexpr uint32_t kMembersPerPacket = kPacketDescriptorsMax / kMemberDescriptors;

}  // namespace

Status Host::prepare() {
  seats_.reset(new (std::nothrow) Seat[invitation_.size]);
  polls_.reset(new (std::nothrow) pollfd[1 + kStrangersMax + invitation_.size]);
  if (seats_ && polls_) return Status();
  return fail(GQSGD_NO_MEMORY, "no memory to receive %u ranks", invitation_.size);
}

Status Host::gather(Status own, Member bring, Roster* roster) {
  if (!own.ok()) doom_by_own(own);
  const Status status = receive_all(std::move(bring), roster);
  if (status.ok()) return status;
  doom_by_own(status);  // unless it is the doom already
  return doomed();
}

Status Host::receive_all(Member bring, Roster* roster) {
  GQ_TRY(listen_as(invitation_.id, &listener_));
  seats_[0].member = std::move(bring);
  while (!is_over()) {
    GQ_TRY(watch());
    GQ_TRY(let_in());
    hear_strangers();
    hear_seated();
  }
  listener_.reset();
  if (verdict_.status != GQSGD_OK) return doomed();
  GQ_TRY(random_bytes(&verdict_.tag, sizeof verdict_.tag));
  for (uint32_t rank = 1; rank < invitation_.size; ++rank) GQ_TRY(hand_out(rank));
  roster->tag = verdict_.tag;
  roster->members.reset(new (std::nothrow) Member[invitation_.size]);
  if (!roster->members) return fail(GQSGD_NO_MEMORY, "no memory for %u ranks", invitation_.size);
  for (uint32_t rank = 0; rank < invitation_.size; ++rank) {
    roster->members[rank] = std::move(seats_[rank].member);
  }
  return Status();
}

Status Host::conclude(Status own) {
  if (!own.ok()) {
    doom_by_own(own);
    return doomed();
  }
  verdict_.rank_count = 0;
  for (uint32_t rank = 1; rank < invitation_.size; ++rank) tell(seats_[rank].socket.number());
  return Status();
}

bool Host::is_over() {
  const uint64_t now_us = monotonic_us();
  if (taken_count_ == invitation_.size) return true;
  if (verdict_.status != GQSGD_OK) return now_us >= linger_until_us_;
  if (now_us < invitation_.deadline_us) return false;
  doom_missing(0);
  return true;
}

/** Sleeps until somebody says something, a stranger's time is up, or the deadline. */
Status Host::watch() {
  const bool is_doomed = verdict_.status != GQSGD_OK;
  uint64_t deadline_us = is_doomed ? linger_until_us_ : invitation_.deadline_us;
  nfds_t count = 0;
  polls_[count++] = {listener_.number(), POLLIN, 0};
  for (uint32_t i = 0; i < stranger_count_; ++i) {
    polls_[count++] = {strangers_[i].socket.number(), POLLIN, 0};
    if (strangers_[i].drop_us < deadline_us) deadline_us = strangers_[i].drop_us;
  }
  for (uint32_t rank = 1; rank < invitation_.size; ++rank) {
    if (seats_[rank].socket.is_open()) {
      polls_[count++] = {seats_[rank].socket.number(), POLLIN, 0};
    }
  }
  if (poll(polls_.get(), count, poll_ms_until(deadline_us, kPollMs)) >= 0) return Status();
  return errno == EINTR ? Status() : system_failure(errno, "waiting for ranks");
}

/** Seated ranks say nothing while the group forms, unless they give up or die. */
void Host::hear_seated() {
  for (uint32_t rank = 1; rank < invitation_.size; ++rank) {
    Seat& seat = seats_[rank];
    if (!seat.socket.is_open()) continue;
    Report report;
    Packet packet{&report, sizeof report, nullptr, 0};
    Delivery delivery;
    const Status received = receive_packet(seat.socket.number(), &packet, &delivery);
    if (received.ok() && delivery == Delivery::not_yet) continue;
    const bool spoke = received.ok() && delivery == Delivery::done;
    if (spoke && report.status == GQSGD_TIMEOUT) {
      doom_missing(rank);
    } else {
      doom(GQSGD_PEER_LOST, "rank %u %s while the group formed", rank,
           spoke ? "said what no correct rank says" : "died");
    }
    seat.socket.reset();
  }
}

Status Host::hand_out(uint32_t rank) {
  for (uint32_t first = 0; first < invitation_.size; first += kMembersPerPacket) {
    const uint32_t left = invitation_.size - first;
    GQ_TRY(send_members(rank, first, left < kMembersPerPacket ? left : kMembersPerPacket));
  }
  return await_report(rank);
}

Status Host::send_members(uint32_t rank, uint32_t first_rank, uint32_t rank_count) {
  int descriptors[kPacketDescriptorsMax];
  for (uint32_t i = 0; i < rank_count; ++i) {
    const Member& member = seats_[first_rank + i].member;
    int* const theirs = descriptors + kMemberDescriptors * i;
    theirs[0] = member.memory.number();
    theirs[1] = member.wakeup.number();
    theirs[2] = member.lifeline.number();
  }
  verdict_.first_rank = first_rank;
  verdict_.rank_count = rank_count;
  for (;;) {
    Delivery delivery;
    const Status sent =
        send_packet(seats_[rank].socket.number(), &verdict_, sizeof verdict_, descriptors,
                    kMemberDescriptors * size_t{rank_count}, &delivery);
    if (sent.ok() && delivery == Delivery::done) return Status();
    if (!sent.ok()) {
      doom_by_own(sent);
    } else if (delivery == Delivery::closed) {
      doom(GQSGD_PEER_LOST, "rank %u died while the group formed", rank);
    } else if (monotonic_us() >= invitation_.deadline_us) {
      doom(GQSGD_TIMEOUT, "rank %u took nothing more while the group formed", rank);
    }
    if (verdict_.status != GQSGD_OK) return doomed();
    nanosleep(&kRetryPause, nullptr);
  }
}

Status Host::await_report(uint32_t rank) {
  const int socket = seats_[rank].socket.number();
  for (;;) {
    Report report;
    Packet packet{&report, sizeof report, nullptr, 0};
    Delivery delivery;
    GQ_TRY(receive_packet(socket, &packet, &delivery));
    if (delivery == Delivery::done) {
      if (report.status == GQSGD_OK) return Status();
      const bool impatient = report.status == GQSGD_TIMEOUT;
      doom(impatient ? GQSGD_TIMEOUT : GQSGD_REMOTE_ERROR, "rank %u %s: %s (%s)", rank,
           impatient ? "gave up waiting" : "could not join", gqsgd_status_name(report.status),
           gqsgd_status_string(report.status));
    } else if (delivery == Delivery::closed) {
      doom(GQSGD_PEER_LOST, "rank %u died while the group formed", rank);
    } else if (monotonic_us() >= invitation_.deadline_us) {
      doom(GQSGD_TIMEOUT, "rank %u did not say that it is ready in the time allowed", rank);
    }
    if (verdict_.status != GQSGD_OK) return doomed();
    pollfd watched{socket, POLLIN, 0};
    if (poll(&watched, 1, poll_ms_until(invitation_.deadline_us, kPollMs)) < 0 && errno != EINTR) {
      return system_failure(errno, "waiting for rank %u to be ready", rank);
    }
  }
}

/** The first reason counts; everybody hears the same sentence. */
void Host::doom(gqsgd_status status, const char* format, ...) {
  if (verdict_.status != GQSGD_OK) return;
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(verdict_.sentence, sizeof verdict_.sentence, format, arguments);
  va_end(arguments);
  verdict_.status = status;
  verdict_.rank_count = 0;
  const uint64_t linger_us = deadline_after_ms(status == GQSGD_TIMEOUT ? 0 : kLingerMs);
  linger_until_us_ = linger_us < invitation_.deadline_us ? linger_us : invitation_.deadline_us;
  for (uint32_t rank = 1; rank < invitation_.size; ++rank) {
    if (seats_[rank].socket.is_open()) tell(seats_[rank].socket.number());
  }
}

/** The others hear of it as of any rank that fails; this process keeps its own sentence. */
void Host::doom_by_own(const Status& own) {
  if (verdict_.status != GQSGD_OK) return;
  own_ = own.code();
  snprintf(own_sentence_, sizeof own_sentence_, "%s", last_error());
  doom(GQSGD_REMOTE_ERROR, "rank 0 could not join: %s (%s); see its own error",
       gqsgd_status_name(own_), gqsgd_status_string(own_));
}

/** `impatient` is the rank whose time is up. */
void Host::doom_missing(uint32_t impatient) {
  RankList missing;
  for (uint32_t rank = 1; rank < invitation_.size; ++rank) {
    if (!seats_[rank].socket.is_open()) missing.add(rank);
  }
  if (missing.count() == 0) {
    return doom(GQSGD_TIMEOUT,
                "rank %u gave up when its time was over, as the last of %u ranks came; timeout_ms "
                "sets the time",
                impatient, invitation_.size);
  }
  doom(GQSGD_TIMEOUT, "missing ranks: %s; %u of %u did not come in the time allowed; %s",
       missing.text(), missing.count(), invitation_.size, kOneMachine);
}

void Host::send_verdict(int socket, const Verdict& verdict) {
  Delivery delivery;
  // Whoever cannot be told sees the socket close.
  const Status sent = send_packet(socket, &verdict, sizeof verdict, nullptr, 0, &delivery);
  static_cast<void>(sent);
}

}  // namespace gq
