// A joiner looks for rank 0, sends its join request, receives all ranks' descriptors, reports and
// waits for the end of the bootstrap.
#include "src/transport/bootstrap/bootstrap_joiner.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <time.h>

#include <algorithm>
#include <new>

#include "src/support/clock.h"
#include "src/transport/refusal.h"
#include "src/transport/system_failure.h"

namespace gq {
namespace {

constexpr timespec kRetryPause{0, 2000000};  // rank 0 may start later
constexpr int kPollMs = 1000;
// After its timeout a joiner asks rank 0 which ranks are missing, and waits this long for the
// answer.
constexpr int64_t kLastWordMs = 100;

Status host_is_gone(uint32_t rank) {
  return fail(GQSGD_PEER_LOST,
              "rank %u: rank 0 has died, or formed the group without this process, before all "
              "ranks had joined",
              rank);
}

Status host_is_missing(uint32_t rank) {
  return fail(GQSGD_TIMEOUT,
              "rank %u: missing ranks: 0; no process waits for this group in the time allowed (the "
              "id is another's, or the group has formed without this process); %s",
              rank, kOneMachine);
}

Status host_takes_no_connection(uint32_t rank) {
  return fail(GQSGD_TIMEOUT,
              "rank %u: rank 0 took no connection of this rank in the time allowed; it is stopped, "
              "or processes connect to it faster than it can take them",
              rank);
}

}  // namespace

Status Joiner::gather(Status own, Member bring, GroupMembers* group) {
  group->members.reset(new (std::nothrow) Member[join_token_.size]);
  if (!group->members && own.ok()) {
    own = fail(GQSGD_NO_MEMORY, "no memory for %u ranks", join_token_.size);
  }
  if (!own.ok()) {
    const Deadline refusal(std::min(deadline_after_ms(kRefusalMs), join_token_.deadline.us()));
    Status delivered = reach_root(refusal, false);
    Delivery delivery;
    if (delivered.ok()) delivered = send_join_request(own.code(), bring, &delivery);
    return own;  // whether they received it or not
  }
  for (uint32_t next = 0; next < join_token_.size;) {
    Outcome outcome;
    Descriptor arrived[kPacketDescriptorsMax];
    Packet packet{&outcome, sizeof outcome, arrived, kPacketDescriptorsMax};
    GQ_TRY(next == 0 ? await_first_verdict(bring, &outcome, &packet)
                     : await_next_verdict(&outcome, &packet));
    if (outcome.first_rank != next || outcome.rank_count == 0 ||
        outcome.rank_count > join_token_.size - next ||
        packet.descriptor_count != kMemberDescriptors * size_t{outcome.rank_count}) {
      return fail(GQSGD_PROTOCOL, "rank 0 sent %zu descriptors for %u ranks from %u on; %u was due",
                  packet.descriptor_count, outcome.rank_count, outcome.first_rank, next);
    }
    for (uint32_t i = 0; i < outcome.rank_count; ++i) {
      Descriptor* const theirs = arrived + kMemberDescriptors * i;
      group->members[next++] = {std::move(theirs[0]), std::move(theirs[1]), std::move(theirs[2])};
    }
    group->tag = outcome.tag;
  }
  return Status();
}

Status Joiner::conclude(Status own) {
  GQ_TRY(report(own.code()));
  if (!own.ok()) return own;
  Outcome outcome;
  Packet packet{&outcome, sizeof outcome, nullptr, 0};
  return await_next_verdict(&outcome, &packet);
}

/** A rank 0 that dropped this connection for newer ones still listens, and this rank connects
 * again; one that is gone does not. */
Status Joiner::await_first_verdict(const Member& bring, Outcome* outcome, Packet* packet) {
  for (bool has_been_there = false;; has_been_there = true) {
    GQ_TRY(reach_root(join_token_.deadline, has_been_there));
    Delivery delivery;
    GQ_TRY(send_join_request(GQSGD_OK, bring, &delivery));
    if (delivery == Delivery::done) GQ_TRY(await_outcome(outcome, packet, &delivery));
    if (delivery == Delivery::done) return Status();
    if (join_token_.deadline.is_over()) {
      return host_takes_no_connection(join_token_.rank);
    }
    nanosleep(&kRetryPause, nullptr);
  }
}

Status Joiner::reach_root(const Deadline& deadline, bool has_been_there) {
  for (;;) {
    Delivery delivery;
    GQ_TRY(connect_to(join_token_.id, &socket_, &delivery));
    if (delivery == Delivery::done) return Status();
    const bool is_listening = delivery == Delivery::not_yet;
    if (!is_listening && has_been_there) return host_is_gone(join_token_.rank);
    if (deadline.is_over()) {
      return is_listening ? host_takes_no_connection(join_token_.rank)
                          : host_is_missing(join_token_.rank);
    }
    nanosleep(&kRetryPause, nullptr);
  }
}

/** *delivery is closed if rank 0 has closed the connection. */
Status Joiner::send_join_request(gqsgd_status own, const Member& bring, Delivery* delivery) {
  JoinRequest join_request;
  memcpy(join_request.secret, join_token_.id.secret, sizeof join_request.secret);
  join_request.rank = join_token_.rank;
  join_request.size = join_token_.size;
  join_request.status = own;
  const int descriptors[kMemberDescriptors] = {bring.memory.number(), bring.wakeup.number(),
                                               bring.liveness_pipe.number()};
  // The first packet of a socket always fits.
  return send_packet(socket_.number(), &join_request, sizeof join_request, descriptors,
                     own == GQSGD_OK ? kMemberDescriptors : 0, delivery);
}

/** OK also where rank 0 has closed the connection: it has sent an outcome before that, or died, and
 * the next packet says which. */
Status Joiner::report(gqsgd_status status) {
  Report message;
  message.status = status;
  Delivery delivery;
  return send_packet(socket_.number(), &message, sizeof message, nullptr, 0, &delivery);
}

Status Joiner::await_next_verdict(Outcome* outcome, Packet* packet) {
  Delivery delivery;
  GQ_TRY(await_outcome(outcome, packet, &delivery));
  return delivery == Delivery::done ? Status() : host_is_gone(join_token_.rank);
}

/** *delivery is done, or closed if rank 0 has closed the connection. */
Status Joiner::await_outcome(Outcome* outcome, Packet* packet, Delivery* delivery) {
  GQ_TRY(receive_outcome(join_token_.deadline, outcome, packet, delivery));
  if (*delivery == Delivery::not_yet) GQ_TRY(report_missing_ranks(outcome, packet, delivery));
  if (*delivery == Delivery::closed || outcome->status == GQSGD_OK) return Status();
  outcome->sentence[sizeof outcome->sentence - 1] = '\0';
  return fail(outcome->status, "%s", outcome->sentence);
}

/** *delivery is not_yet if the deadline has passed. */
Status Joiner::receive_outcome(const Deadline& deadline, Outcome* outcome, Packet* packet,
                               Delivery* delivery) {
  for (;;) {
    GQ_TRY(receive_packet(socket_.number(), packet, delivery));
    if (*delivery == Delivery::closed) return Status();
    if (*delivery == Delivery::done) break;
    if (deadline.is_over()) return Status();
    pollfd watched{socket_.number(), POLLIN, 0};
    if (poll(&watched, 1, deadline.poll_ms(kPollMs)) < 0 && errno != EINTR) {
      return system_failure(errno, "waiting for rank 0");
    }
  }
  if (packet->size_bytes == sizeof *outcome && outcome->magic == kBootstrapMagic &&
      is_status(outcome->status)) {
    return Status();
  }
  return fail(GQSGD_PROTOCOL, "rank 0 sent %zu bytes; an outcome has %zu", packet->size_bytes,
              sizeof *outcome);
}

Status Joiner::report_missing_ranks(Outcome* outcome, Packet* packet, Delivery* delivery) {
  GQ_TRY(report(GQSGD_TIMEOUT));
  const Deadline deadline(deadline_after_ms(kLastWordMs));
  for (;;) {
    GQ_TRY(receive_outcome(deadline, outcome, packet, delivery));
    if (*delivery == Delivery::closed) return Status();
    if (*delivery == Delivery::not_yet) {
      return fail(GQSGD_TIMEOUT,
                  "rank %u: rank 0 did not answer in the time allowed; it is stopped or too slow",
                  join_token_.rank);
    }
    // A late list of members is of no use, because rank 0 knows of the failure; its last message
    // is.
    if (outcome->status != GQSGD_OK || outcome->rank_count == 0) return Status();
    for (size_t i = 0; i < packet->descriptor_count; ++i) packet->descriptors[i].reset();
  }
}

}  // namespace gq
