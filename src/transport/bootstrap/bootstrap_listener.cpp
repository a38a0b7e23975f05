// Who comes in: pending clients have two seconds for one packet of fixed size that holds the
// secret. Nothing they send is kept, allocated for or answered before that.
#include <stdarg.h>
#include <stdio.h>

#include "src/support/clock.h"
#include "src/transport/bootstrap/bootstrap_root.h"
#include "src/transport/refusal.h"

namespace gq {
namespace {

constexpr int64_t kPendingClientMs = 2000;

}  // namespace

Status Root::accept_pending() {
  for (uint32_t accepted_count = 0; accepted_count < kAcceptsPerIteration; ++accepted_count) {
    PendingClient client;
    Delivery delivery;
    const Status accepted = accept_client(listener_.number(), &client.socket, &delivery);
    if (!accepted.ok()) {
      if (pending_count_ == 0) return accepted;
      drop_pending(0);  // its descriptor may be the one that is missing
      continue;
    }
    if (delivery == Delivery::not_yet) return Status();
    if (delivery == Delivery::closed) continue;                         // another user's
    if (pending_count_ == kPendingClientsMax) receive_join_requests();  // ranks have spoken by now
    if (pending_count_ == kPendingClientsMax) drop_pending(0);
    client.drop_us = deadline_after_ms(kPendingClientMs);
    pending_[pending_count_++] = std::move(client);
  }
  return Status();
}

void Root::drop_pending(uint32_t index) {
  for (uint32_t i = index; i + 1 < pending_count_; ++i) {
    pending_[i] = std::move(pending_[i + 1]);
  }
  pending_[--pending_count_] = PendingClient();
}

void Root::receive_join_requests() {
  for (uint32_t i = 0; i < pending_count_;) {
    JoinRequest join_request;
    Descriptor brought[kMemberDescriptors];
    Packet packet{&join_request, sizeof join_request, brought, kMemberDescriptors};
    Delivery delivery;
    const Status received = receive_packet(pending_[i].socket.number(), &packet, &delivery);
    if (delivery == Delivery::not_yet && monotonic_us() < pending_[i].drop_us) {
      ++i;
      continue;
    }
    if (delivery == Delivery::done && packet.size_bytes >= offsetof(JoinRequest, rank)) {
      admit(join_request, received, &packet, &pending_[i].socket);
    }
    drop_pending(i);
  }
}

/** A client that knows the secret is a rank of this group: it is admitted, or receives the reason
 *  why not. */
void Root::admit(const JoinRequest& join_request, const Status& received, Packet* packet,
                 ForkGuard* socket) {
  if (join_request.magic != kBootstrapMagic) return;
  if (!same_secret(join_request.secret, join_token_.id.secret)) {
    return refuse(socket->number(), GQSGD_INVALID_ARGUMENT,
                  "the secret in unique_id is not that of rank 0; pass on all bytes of one id");
  }
  check_join_request(join_request, received);
  if (outcome_.status == GQSGD_OK) {
    if (join_request.rank == 0 || join_request.rank >= join_token_.size ||
        packet->descriptor_count != kMemberDescriptors) {
      return refuse(socket->number(), GQSGD_PROTOCOL,
                    "rank %u of %u came with %zu descriptors to a group of %u", join_request.rank,
                    join_request.size, packet->descriptor_count, join_token_.size);
    }
    if (joined_[join_request.rank].socket.is_open()) {
      return refuse(socket->number(), GQSGD_DUPLICATE_RANK,
                    "rank %u is taken by process %d; process %d needs a rank of its own",
                    join_request.rank, peer_process(joined_[join_request.rank].socket.number()),
                    peer_process(socket->number()));
    }
  } else {
    send_outcome_to(socket->number());
    if (join_request.rank == 0 || join_request.rank >= join_token_.size) return;
    if (joined_[join_request.rank].socket.is_open()) return;
  }
  JoinedRank& joined = joined_[join_request.rank];
  joined.socket = std::move(*socket);
  Descriptor* const brought = packet->descriptors;
  joined.member = {std::move(brought[0]), std::move(brought[1]), std::move(brought[2])};
  taken_count_ += joined.taken ? 0 : 1;
  joined.taken = true;
}

/** Fails the group for what no member could live with. */
void Root::check_join_request(const JoinRequest& join_request, const Status& received) {
  if (!is_own_version(join_request.wire_version, join_request.library_version)) {
    fail_group(GQSGD_VERSION, "%s",
               VersionsDiffer(join_request.rank, join_request.wire_version,
                              join_request.library_version)
                   .sentence);
  } else if (join_request.size != join_token_.size) {
    fail_group(GQSGD_MISMATCH,
               "size: rank 0 = %u, rank %u = %u; every rank must name the same size",
               join_token_.size, join_request.rank, join_request.size);
  } else if (join_request.status != GQSGD_OK) {
    fail_group(GQSGD_REMOTE_ERROR, "%s",
               could_not_join(join_request.rank, join_request.status).sentence());
  } else if (!received.ok()) {
    fail_for_own_status(received);  // its descriptors did not fit into this process
  }
}

/** Refuses a client, without harm to the group. */
void Root::refuse(int socket, gqsgd_status status, const char* format, ...) {
  Outcome outcome;
  outcome.status = status;
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(outcome.sentence, sizeof outcome.sentence, format, arguments);
  va_end(arguments);
  send_outcome(socket, outcome);
}

}  // namespace gq
