// Who comes in: strangers have two seconds for one packet of fixed size that holds the secret.
// Nothing they send is kept, allocated for or answered before that.
#include <stdarg.h>
#include <stdio.h>

#include "src/support/clock.h"
#include "src/transport/bootstrap/bootstrap_host.h"

namespace gq {
namespace {

constexpr int64_t kStrangerMs = 2000;

void print_version(uint32_t version, char (&text)[24]) {
  snprintf(text, sizeof text, "%u.%u.%u", version / 10000, version / 100 % 100, version % 100);
}

}  // namespace

Status Host::let_in() {
  for (uint32_t accepted_count = 0; accepted_count < kAcceptsPerIteration; ++accepted_count) {
    Stranger stranger;
    Delivery delivery;
    const Status accepted = accept_client(listener_.number(), &stranger.socket, &delivery);
    if (!accepted.ok()) {
      if (stranger_count_ == 0) return accepted;
      drop_stranger(0);  // its descriptor may be the one that is missing
      continue;
    }
    if (delivery == Delivery::not_yet) return Status();
    if (delivery == Delivery::closed) continue;              // another user's
    if (stranger_count_ == kStrangersMax) hear_strangers();  // ranks have spoken by now
    if (stranger_count_ == kStrangersMax) drop_stranger(0);
    stranger.drop_us = deadline_after_ms(kStrangerMs);
    strangers_[stranger_count_++] = std::move(stranger);
  }
  return Status();
}

void Host::drop_stranger(uint32_t index) {
  for (uint32_t i = index; i + 1 < stranger_count_; ++i) {
    strangers_[i] = std::move(strangers_[i + 1]);
  }
  strangers_[--stranger_count_] = Stranger();
}

void Host::hear_strangers() {
  for (uint32_t i = 0; i < stranger_count_;) {
    Hello hello;
    Descriptor brought[kMemberDescriptors];
    Packet packet{&hello, sizeof hello, brought, kMemberDescriptors};
    Delivery delivery;
    const Status received = receive_packet(strangers_[i].socket.number(), &packet, &delivery);
    if (delivery == Delivery::not_yet && monotonic_us() < strangers_[i].drop_us) {
      ++i;
      continue;
    }
    if (delivery == Delivery::done && packet.size_bytes >= offsetof(Hello, rank)) {
      admit(hello, received, &packet, &strangers_[i].socket);
    }
    drop_stranger(i);
  }
}

/** Whoever knows the secret is a rank of this group: it gets a seat, or hears why not. */
void Host::admit(const Hello& hello, const Status& received, Packet* packet, Descriptor* socket) {
  if (hello.magic != kMeetingMagic) return;
  if (!same_secret(hello.secret, invitation_.id.secret)) {
    return refuse(socket->number(), GQSGD_INVALID_ARGUMENT,
                  "the secret in unique_id is not that of rank 0; pass on all bytes of one id");
  }
  judge(hello, received);
  if (verdict_.status == GQSGD_OK) {
    if (hello.rank == 0 || hello.rank >= invitation_.size ||
        packet->descriptor_count != kMemberDescriptors) {
      return refuse(socket->number(), GQSGD_PROTOCOL,
                    "rank %u of %u came with %zu descriptors to a group of %u", hello.rank,
                    hello.size, packet->descriptor_count, invitation_.size);
    }
    if (seats_[hello.rank].socket.is_open()) {
      return refuse(socket->number(), GQSGD_DUPLICATE_RANK,
                    "rank %u is taken by process %d; process %d needs a rank of its own",
                    hello.rank, peer_process(seats_[hello.rank].socket.number()),
                    peer_process(socket->number()));
    }
  } else {
    tell(socket->number());
    if (hello.rank == 0 || hello.rank >= invitation_.size) return;
    if (seats_[hello.rank].socket.is_open()) return;
  }
  Seat& seat = seats_[hello.rank];
  seat.socket = std::move(*socket);
  Descriptor* const brought = packet->descriptors;
  seat.member = {std::move(brought[0]), std::move(brought[1]), std::move(brought[2])};
  taken_count_ += seat.taken ? 0 : 1;
  seat.taken = true;
}

/** Dooms the group for what no member could live with. */
void Host::judge(const Hello& hello, const Status& received) {
  if (hello.wire_version != kWireVersion || hello.library_version != kLibraryVersion) {
    char ours[24], theirs[24];
    print_version(kLibraryVersion, ours);
    print_version(hello.library_version, theirs);
    doom(GQSGD_VERSION,
         "version: rank 0 has %s (wire %u), rank %u has %s (wire %u); install one libgqsgd for all",
         ours, kWireVersion, hello.rank, theirs, hello.wire_version);
  } else if (hello.size != invitation_.size) {
    doom(GQSGD_MISMATCH, "size: rank 0 = %u, rank %u = %u; every rank must name the same size",
         invitation_.size, hello.rank, hello.size);
  } else if (hello.status != GQSGD_OK) {
    doom(GQSGD_REMOTE_ERROR, "rank %u could not join: %s (%s); see its own error", hello.rank,
         gqsgd_status_name(hello.status), gqsgd_status_string(hello.status));
  } else if (!received.ok()) {
    doom_by_own(received);  // its descriptors did not fit into this process
  }
}

/** Says no to one who asks, without harm to the group. */
void Host::refuse(int socket, gqsgd_status status, const char* format, ...) {
  Verdict verdict;
  verdict.status = status;
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(verdict.sentence, sizeof verdict.sentence, format, arguments);
  va_end(arguments);
  send_verdict(socket, verdict);
}

}  // namespace gq
