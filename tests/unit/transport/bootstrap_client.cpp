// Packets as ranks send them.
#include "tests/unit/transport/bootstrap_client.h"

#include <gtest/gtest.h>
#include <string.h>
#include <unistd.h>

#include "src/transport/bootstrap/bootstrap.h"
#include "tests/unit/transport/process_group.h"

namespace gq::test {

UniqueId read_id(const gqsgd_unique_id& bytes) {
  UniqueId id{};
  EXPECT_EQ(text_of(read_unique_id(bytes, &id)), "OK");
  return id;
}

ForkGuard connect_to_root(const gqsgd_unique_id& id) {
  ForkGuard socket;
  Delivery delivery = Delivery::not_yet;
  while (delivery != Delivery::done) {
    EXPECT_EQ(text_of(connect_to(read_id(id), &socket, &delivery)), "OK");
    if (delivery != Delivery::done) usleep(1000);
  }
  return socket;
}

void send_bytes(int socket, const void* bytes, size_t size_bytes) {
  Delivery delivery;
  EXPECT_EQ(text_of(send_packet(socket, bytes, size_bytes, nullptr, 0, &delivery)), "OK");
}

JoinRequest join_request_of(const gqsgd_unique_id& id, uint32_t rank, uint32_t size) {
  JoinRequest join_request;
  memcpy(join_request.secret, read_id(id).secret, sizeof join_request.secret);
  join_request.rank = rank;
  join_request.size = size;
  return join_request;
}

std::string answer_at(int socket) {
  for (;;) {
    Outcome outcome;
    Packet packet{&outcome, sizeof outcome, nullptr, 0};
    Delivery delivery;
    EXPECT_EQ(text_of(receive_packet(socket, &packet, &delivery)), "OK");
    if (delivery == Delivery::closed) return "closed";
    if (delivery == Delivery::done) return text_of(fail(outcome.status, "%s", outcome.sentence));
    usleep(1000);
  }
}

ForkGuard join_as_client(const gqsgd_unique_id& id, uint32_t rank, uint32_t size) {
  ForkGuard socket = connect_to_root(id);
  const JoinRequest join_request = join_request_of(id, rank, size);
  int ends[2];
  EXPECT_EQ(pipe(ends), 0);
  Delivery delivery;
  const int brought[kMemberDescriptors] = {ends[0], ends[1], ends[0]};
  EXPECT_TRUE(send_packet(socket.number(), &join_request, sizeof join_request, brought,
                          kMemberDescriptors, &delivery)
                  .ok());
  close(ends[0]);
  close(ends[1]);
  return socket;
}

}  // namespace gq::test
