// The root's loop while ranks arrive, and the handing out when all are there. Whom it lets in is in
// bootstrap_listener.cpp.
#include "src/transport/bootstrap/bootstrap_root.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <time.h>

#include <algorithm>
#include <new>

#include "src/support/clock.h"
#include "src/support/rank_list.h"
#include "src/transport/bootstrap/random_bytes.h"
#include "src/transport/refusal.h"
#include "src/transport/system_failure.h"

namespace gq {
namespace {

constexpr timespec kRetryPause{0, 1000000};
constexpr int kPollMs = 1000;
// Ranks that still arrive receive the group's failure, this long.
constexpr int64_t kLingerMs = 500;
constexpr uint32_t kMembersPerPacket = kPacketDescriptorsMax / kMemberDescriptors;

bool is_report(const Packet& packet, const Report& report) {
  return packet.size_bytes == sizeof report && report.magic == kBootstrapMagic;
}

}  // namespace

Status Root::prepare() {
  joined_.reset(new (std::nothrow) JoinedRank[join_token_.size]);
  polls_.reset(new (std::nothrow) pollfd[1 + kPendingClientsMax + join_token_.size]);
  if (joined_ && polls_) return Status();
  return fail(GQSGD_NO_MEMORY, "no memory to receive %u ranks", join_token_.size);
}

Status Root::gather(Status own, Member bring, GroupMembers* group) {
  if (!own.ok()) fail_for_own_status(own);
  const Status status = receive_all(std::move(bring), group);
  if (status.ok()) return status;
  fail_for_own_status(status);  // unless it is what failed the group already
  return group_failure();
}

Status Root::receive_all(Member bring, GroupMembers* group) {
  GQ_TRY(listen_as(join_token_.id, &listener_));
  joined_[0].member = std::move(bring);
  while (!is_over()) {
    GQ_TRY(watch());
    GQ_TRY(accept_pending());
    receive_join_requests();
    receive_from_joined();
  }
  if (outcome_.status != GQSGD_OK) answer_waiting();
  listener_.close_now();
  if (outcome_.status != GQSGD_OK) return group_failure();
  GQ_TRY(random_bytes(&outcome_.tag, sizeof outcome_.tag));
  for (uint32_t rank = 1; rank < join_token_.size; ++rank) GQ_TRY(send_group(rank));
  group->tag = outcome_.tag;
  group->members.reset(new (std::nothrow) Member[join_token_.size]);
  if (!group->members) return fail(GQSGD_NO_MEMORY, "no memory for %u ranks", join_token_.size);
  for (uint32_t rank = 0; rank < join_token_.size; ++rank) {
    group->members[rank] = std::move(joined_[rank].member);
  }
  return Status();
}

/** Ranks that connected as the group failed learn why: else they find no rank 0 any more. */
void Root::answer_waiting() {
  for (uint32_t done = 0; done < join_token_.size; done += kAcceptsPerIteration) {
    if (!accept_pending().ok()) return;
    receive_join_requests();
  }
}

Status Root::conclude(Status own) {
  if (!own.ok()) {
    fail_for_own_status(own);
    return group_failure();
  }
  outcome_.rank_count = 0;
  for (uint32_t rank = 1; rank < join_token_.size; ++rank)
    send_outcome_to(joined_[rank].socket.number());
  return Status();
}

bool Root::is_over() {
  const uint64_t now_us = monotonic_us();
  if (taken_count_ == join_token_.size) return true;
  if (outcome_.status != GQSGD_OK) return now_us >= linger_until_us_;
  if (!join_token_.deadline.is_over()) return false;
  fail_for_missing_ranks(0);
  return true;
}

/** Sleeps until a message arrives, a pending client's time is up, or the deadline. */
Status Root::watch() {
  const bool has_failed = outcome_.status != GQSGD_OK;
  uint64_t until_us = has_failed ? linger_until_us_ : kNever;
  nfds_t count = 0;
  polls_[count++] = {listener_.number(), POLLIN, 0};
  for (uint32_t i = 0; i < pending_count_; ++i) {
    polls_[count++] = {pending_[i].socket.number(), POLLIN, 0};
    until_us = std::min(until_us, pending_[i].drop_us);
  }
  for (uint32_t rank = 1; rank < join_token_.size; ++rank) {
    if (joined_[rank].socket.is_open()) {
      polls_[count++] = {joined_[rank].socket.number(), POLLIN, 0};
    }
  }
  const int wait_ms = join_token_.deadline.poll_ms(kPollMs, until_us);
  if (poll(polls_.get(), count, wait_ms) >= 0) return Status();
  return errno == EINTR ? Status() : system_failure(errno, "waiting for ranks");
}

/** Joined ranks send nothing while the group forms, unless they time out or die. */
void Root::receive_from_joined() {
  for (uint32_t rank = 1; rank < join_token_.size; ++rank) {
    JoinedRank& joined = joined_[rank];
    if (!joined.socket.is_open()) continue;
    Report report;
    Packet packet{&report, sizeof report, nullptr, 0};
    Delivery delivery;
    const Status received = receive_packet(joined.socket.number(), &packet, &delivery);
    if (received.ok() && delivery == Delivery::not_yet) continue;
    const bool spoke = received.ok() && delivery == Delivery::done;
    if (spoke && is_report(packet, report) && report.status == GQSGD_TIMEOUT) {
      fail_for_missing_ranks(rank);
    } else {
      fail_group(GQSGD_PEER_LOST, "rank %u %s while the group formed", rank,
                 spoke ? "sent what no correct rank sends" : "died");
    }
    joined.socket.close_now();
  }
}

Status Root::send_group(uint32_t rank) {
  for (uint32_t first = 0; first < join_token_.size; first += kMembersPerPacket) {
    const uint32_t left = join_token_.size - first;
    GQ_TRY(send_members(rank, first, left < kMembersPerPacket ? left : kMembersPerPacket));
  }
  return await_report(rank);
}

Status Root::send_members(uint32_t rank, uint32_t first_rank, uint32_t rank_count) {
  int descriptors[kPacketDescriptorsMax];
  for (uint32_t i = 0; i < rank_count; ++i) {
    const Member& member = joined_[first_rank + i].member;
    int* const theirs = descriptors + kMemberDescriptors * i;
    theirs[0] = member.memory.number();
    theirs[1] = member.wakeup.number();
    theirs[2] = member.liveness_pipe.number();
  }
  outcome_.first_rank = first_rank;
  outcome_.rank_count = rank_count;
  for (;;) {
    Delivery delivery;
    const Status sent =
        send_packet(joined_[rank].socket.number(), &outcome_, sizeof outcome_, descriptors,
                    kMemberDescriptors * size_t{rank_count}, &delivery);
    if (sent.ok() && delivery == Delivery::done) return Status();
    if (!sent.ok()) {
      fail_for_own_status(sent);
    } else if (delivery == Delivery::closed) {
      fail_group(GQSGD_PEER_LOST, "rank %u died while the group formed", rank);
    } else if (join_token_.deadline.is_over()) {
      fail_group(GQSGD_TIMEOUT, "rank %u took nothing more while the group formed", rank);
    }
    if (outcome_.status != GQSGD_OK) return group_failure();
    nanosleep(&kRetryPause, nullptr);
  }
}

Status Root::await_report(uint32_t rank) {
  const int socket = joined_[rank].socket.number();
  for (;;) {
    Report report;
    Packet packet{&report, sizeof report, nullptr, 0};
    Delivery delivery;
    GQ_TRY(receive_packet(socket, &packet, &delivery));
    if (delivery == Delivery::done && !is_report(packet, report)) {
      fail_group(GQSGD_PROTOCOL,
                 "rank %u sent %zu bytes that begin with %#x where it reports that it is ready: "
                 "%zu bytes that begin with %#x; it knows the group's secret, but is no rank of "
                 "this library",
                 rank, packet.size_bytes, report.magic, sizeof report, kBootstrapMagic);
    } else if (delivery == Delivery::done) {
      if (report.status == GQSGD_OK) return Status();
      const bool impatient = report.status == GQSGD_TIMEOUT;
      fail_group(impatient ? GQSGD_TIMEOUT : GQSGD_REMOTE_ERROR, "rank %u %s: %s (%s)", rank,
                 impatient ? "gave up waiting" : "could not join", gqsgd_status_name(report.status),
                 gqsgd_status_string(report.status));
    } else if (delivery == Delivery::closed) {
      fail_group(GQSGD_PEER_LOST, "rank %u died while the group formed", rank);
    } else if (join_token_.deadline.is_over()) {
      fail_group(GQSGD_TIMEOUT, "rank %u did not say that it is ready in the time allowed", rank);
    }
    if (outcome_.status != GQSGD_OK) return group_failure();
    pollfd watched{socket, POLLIN, 0};
    if (poll(&watched, 1, join_token_.deadline.poll_ms(kPollMs)) < 0 && errno != EINTR) {
      return system_failure(errno, "waiting for rank %u to be ready", rank);
    }
  }
}

/** The first reason counts; all ranks receive the same sentence. */
void Root::fail_group(gqsgd_status status, const char* format, ...) {
  if (outcome_.status != GQSGD_OK) return;
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(outcome_.sentence, sizeof outcome_.sentence, format, arguments);
  va_end(arguments);
  outcome_.status = status;
  outcome_.rank_count = 0;
  linger_until_us_ = join_token_.deadline.linger_end_us(status == GQSGD_TIMEOUT ? 0 : kLingerMs);
  for (uint32_t rank = 1; rank < join_token_.size; ++rank) {
    if (joined_[rank].socket.is_open()) send_outcome_to(joined_[rank].socket.number());
  }
}

/** The other ranks receive it as the failure of any rank; this process keeps its own sentence. */
void Root::fail_for_own_status(const Status& own) {
  if (outcome_.status != GQSGD_OK) return;
  own_ = own;
  fail_group(GQSGD_REMOTE_ERROR, "%s", could_not_join(0, own.code()).sentence());
}

/** `impatient` is the rank whose time is up. */
void Root::fail_for_missing_ranks(uint32_t impatient) {
  RankList missing;
  for (uint32_t rank = 1; rank < join_token_.size; ++rank) {
    if (!joined_[rank].socket.is_open()) missing.add(rank);
  }
  if (missing.count() == 0) {
    return fail_group(
        GQSGD_TIMEOUT,
        "rank %u gave up when its time was over, as the last of %u ranks came; timeout_ms "
        "sets the time",
        impatient, join_token_.size);
  }
  fail_group(GQSGD_TIMEOUT, "missing ranks: %s; %u of %u did not come in the time allowed; %s",
             missing.text(), missing.count(), join_token_.size, kOneMachine);
}

void Root::send_outcome(int socket, const Outcome& outcome) {
  Delivery delivery;
  // A client that cannot receive it sees the socket close.
  const Status sent = send_packet(socket, &outcome, sizeof outcome, nullptr, 0, &delivery);
  static_cast<void>(sent);
}

}  // namespace gq
