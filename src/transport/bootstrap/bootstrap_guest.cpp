// A guest looks for rank 0, says hello, takes everybody's descriptors, reports and is dismissed.
#include "src/transport/bootstrap/bootstrap_guest.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <new>

#include "src/support/clock.h"
#include "src/transport/system_failure.h"

namespace gq {
namespace {

constexpr timespec kRetryPause{0, 2000000};  // rank 0 may start later
constexpr int kPollMs = 1000;
// A guest that has waited long enough asks rank 0 who is missing, and waits this long for the
// answer.
constexpr int64_t kLastWordMs = 100;
// A guest that cannot join tries this long to tell the others so.
constexpr int64_t kRegretMs = 1000;

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

Status Guest::gather(Status own, Member bring, Roster* roster) {
  if (!own.ok()) {
    char sentence[256];
    snprintf(sentence, sizeof sentence, "%s", last_error());
    const uint64_t regret_us = deadline_after_ms(kRegretMs);
    const uint64_t deadline_us = invitation_.deadline_us;
    Status told = reach_host(regret_us < deadline_us ? regret_us : deadline_us, false);
    Delivery delivery;
    if (told.ok()) told = say_hello(own.code(), bring, &delivery);
    return fail_with(own.code(), sentence);  // whether they heard it or not
  }
  roster->members.reset(new (std::nothrow) Member[invitation_.size]);
  if (!roster->members) return fail(GQSGD_NO_MEMORY, "no memory for %u ranks", invitation_.size);
  for (uint32_t next = 0; next < invitation_.size;) {
    Verdict verdict;
    Descriptor arrived[kPacketDescriptorsMax];
    Packet packet{&verdict, sizeof verdict, arrived, kPacketDescriptorsMax};
    GQ_TRY(next == 0 ? await_first_verdict(bring, &verdict, &packet)
                     : await_next_verdict(&verdict, &packet));
    if (verdict.first_rank != next || verdict.rank_count == 0 ||
        verdict.rank_count > invitation_.size - next ||
        packet.descriptor_count != kMemberDescriptors * size_t{verdict.rank_count}) {
      return fail(GQSGD_PROTOCOL, "rank 0 sent %zu descriptors for %u ranks from %u on; %u was due",
                  packet.descriptor_count, verdict.rank_count, verdict.first_rank, next);
    }
    for (uint32_t i = 0; i < verdict.rank_count; ++i) {
      Descriptor* const theirs = arrived + kMemberDescriptors * i;
      roster->members[next++] = {std::move(theirs[0]), std::move(theirs[1]), std::move(theirs[2])};
    }
    roster->tag = verdict.tag;
  }
  return Status();
}

Status Guest::conclude(Status own) {
  GQ_TRY(report(own.code()));
  if (!own.ok()) return own;
  Verdict verdict;
  Packet packet{&verdict, sizeof verdict, nullptr, 0};
  return await_next_verdict(&verdict, &packet);
}

/** A rank 0 that dropped this connection for newer ones still listens, and this rank connects
 * again; one that is gone does not. */
Status Guest::await_first_verdict(const Member& bring, Verdict* verdict, Packet* packet) {
  for (bool has_been_there = false;; has_been_there = true) {
    GQ_TRY(reach_host(invitation_.deadline_us, has_been_there));
    Delivery delivery;
    GQ_TRY(say_hello(GQSGD_OK, bring, &delivery));
    if (delivery == Delivery::done) GQ_TRY(await_verdict(verdict, packet, &delivery));
    if (delivery == Delivery::done) return Status();
    if (monotonic_us() >= invitation_.deadline_us) {
      return host_takes_no_connection(invitation_.rank);
    }
    nanosleep(&kRetryPause, nullptr);
  }
}

Status Guest::reach_host(uint64_t deadline_us, bool has_been_there) {
  for (;;) {
    Delivery delivery;
    GQ_TRY(connect_to(invitation_.id, &socket_, &delivery));
    if (delivery == Delivery::done) return Status();
    const bool is_listening = delivery == Delivery::not_yet;
    if (!is_listening && has_been_there) return host_is_gone(invitation_.rank);
    if (monotonic_us() >= deadline_us) {
      return is_listening ? host_takes_no_connection(invitation_.rank)
                          : host_is_missing(invitation_.rank);
    }
    nanosleep(&kRetryPause, nullptr);
  }
}

/** *delivery is closed if rank 0 has closed the connection. */
Status Guest::say_hello(gqsgd_status own, const Member& bring, Delivery* delivery) {
  Hello hello;
  memcpy(hello.secret, invitation_.id.secret, sizeof hello.secret);
  hello.rank = invitation_.rank;
  hello.size = invitation_.size;
  hello.status = own;
  const int descriptors[kMemberDescriptors] = {bring.memory.number(), bring.wakeup.number(),
                                               bring.lifeline.number()};
  // The first packet of a socket always fits.
  return send_packet(socket_.number(), &hello, sizeof hello, descriptors,
                     own == GQSGD_OK ? kMemberDescriptors : 0, delivery);
}

Status Guest::report(gqsgd_status status) {
  Report message;
  message.status = status;
  Delivery delivery;
  GQ_TRY(send_packet(socket_.number(), &message, sizeof message, nullptr, 0, &delivery));
  return delivery == Delivery::done ? Status() : host_is_gone(invitation_.rank);
}

Status Guest::await_next_verdict(Verdict* verdict, Packet* packet) {
  Delivery delivery;
  GQ_TRY(await_verdict(verdict, packet, &delivery));
  return delivery == Delivery::done ? Status() : host_is_gone(invitation_.rank);
}

/** *delivery is done, or closed if rank 0 has closed the connection. */
Status Guest::await_verdict(Verdict* verdict, Packet* packet, Delivery* delivery) {
  GQ_TRY(receive_verdict(invitation_.deadline_us, verdict, packet, delivery));
  if (*delivery == Delivery::not_yet) GQ_TRY(lose_patience(verdict, packet, delivery));
  if (*delivery == Delivery::closed || verdict->status == GQSGD_OK) return Status();
  verdict->sentence[sizeof verdict->sentence - 1] = '\0';
  return fail_with(verdict->status, verdict->sentence);
}

/** *delivery is not_yet if the deadline has passed. */
Status Guest::receive_verdict(uint64_t deadline_us, Verdict* verdict, Packet* packet,
                              Delivery* delivery) {
  for (;;) {
    GQ_TRY(receive_packet(socket_.number(), packet, delivery));
    if (*delivery == Delivery::closed) return Status();
    if (*delivery == Delivery::done) break;
    if (monotonic_us() >= deadline_us) return Status();
    pollfd watched{socket_.number(), POLLIN, 0};
    if (poll(&watched, 1, poll_ms_until(deadline_us, kPollMs)) < 0 && errno != EINTR) {
      return system_failure(errno, "waiting for rank 0");
    }
  }
  if (packet->size_bytes == sizeof *verdict && verdict->magic == kMeetingMagic &&
      is_status(verdict->status)) {
    return Status();
  }
  return fail(GQSGD_PROTOCOL, "rank 0 sent %zu bytes that are no verdict of %zu",
              packet->size_bytes, sizeof *verdict);
}

Status Guest::lose_patience(Verdict* verdict, Packet* packet, Delivery* delivery) {
  GQ_TRY(report(GQSGD_TIMEOUT));
  const uint64_t deadline_us = deadline_after_ms(kLastWordMs);
  for (;;) {
    GQ_TRY(receive_verdict(deadline_us, verdict, packet, delivery));
    if (*delivery == Delivery::closed) return Status();
    if (*delivery == Delivery::not_yet) {
      return fail(GQSGD_TIMEOUT,
                  "rank %u: rank 0 did not answer in the time allowed; it is stopped or too slow",
                  invitation_.rank);
    }
    // A late roster is of no use, because rank 0 has been told; its last word is.
    if (verdict->status != GQSGD_OK || verdict->rank_count == 0) return Status();
    for (size_t i = 0; i < packet->descriptor_count; ++i) packet->descriptors[i].reset();
  }
}

}  // namespace gq
