// Rank 0 of a group of processes, whose joiners are the fuzzer: join requests, descriptors,
// reports.
#include "src/transport/bootstrap/bootstrap_root.h"

#include <fcntl.h>

#include <atomic>
#include <thread>

#include "src/support/clock.h"
#include "tests/fuzz/fuzz_input.h"

namespace gq::test {
namespace {

constexpr uint32_t kRanks = 3;
constexpr int64_t kTimeoutMs = 5;
constexpr uint32_t kClientsMost = 4;

struct Client {
  ForkGuard socket;
};

/** Connects while rank 0 listens. */
bool connect(const UniqueId& id, ForkGuard* socket, uint64_t deadline_us) {
  Delivery delivery = Delivery::closed;
  while (connect_to(id, socket, &delivery).ok() && delivery != Delivery::done) {
    if (monotonic_us() >= deadline_us) return false;
    std::this_thread::yield();
  }
  return delivery == Delivery::done;
}

/** A message of `size_bytes`, or as long as the input says. */
void send(FuzzInput* input, int socket, const void* message, size_t size_bytes,
          size_t descriptor_count, int descriptor) {
  unsigned char bytes[512] = {};
  memcpy(bytes, message, size_bytes);
  if (input->byte() % 16 == 15) size_bytes = 1 + input->take<uint16_t>() % (sizeof bytes - 1);
  if (input->byte() % 16 == 15) descriptor_count = input->byte() % 9;
  int descriptors[9];
  for (int& number : descriptors) number = descriptor;
  Delivery delivery;
  const Status sent =
      send_packet(socket, bytes, size_bytes, descriptors, descriptor_count, &delivery);
  static_cast<void>(sent);
}

void join_as_others(FuzzInput* input, const UniqueId& id, const std::atomic<bool>& is_over) {
  const Descriptor null(open("/dev/null", O_RDONLY | O_CLOEXEC));
  const uint64_t deadline_us = deadline_after_ms(kTimeoutMs);
  Client clients[kClientsMost];
  const uint32_t count = kRanks - 1 + input->byte() % 3;
  for (uint32_t k = 0; k < count; ++k) {
    if (!connect(id, &clients[k].socket, deadline_us)) return;
    JoinRequest request;
    memcpy(request.secret, id.secret, sizeof request.secret);
    request.rank = 1 + k % (kRanks - 1);
    request.size = kRanks;
    input->edit(&request, sizeof request);
    send(input, clients[k].socket.number(), &request, sizeof request, kMemberDescriptors,
         null.number());
  }
  for (uint32_t k = 0; k < count; ++k) {
    // The answer: descriptors of all ranks, or why there are none.
    Outcome outcome;
    Descriptor arrived[kPacketDescriptorsMax];
    Packet packet{&outcome, sizeof outcome, arrived, kPacketDescriptorsMax};
    Delivery delivery = Delivery::not_yet;
    while (!is_over && receive_packet(clients[k].socket.number(), &packet, &delivery).ok() &&
           delivery == Delivery::not_yet) {
      std::this_thread::yield();
    }
    Report report;
    input->edit(&report, sizeof report);
    send(input, clients[k].socket.number(), &report, sizeof report, 0, null.number());
  }
}

void run(FuzzInput input) {
  gqsgd_unique_id bytes;
  UniqueId id;
  require(make_unique_id(&bytes).ok() && read_unique_id(bytes, &id).ok(), "no id");
  std::atomic<bool> is_over{false};
  Root root({id, 0, kRanks, Deadline(deadline_after_ms(kTimeoutMs))});
  require(root.prepare().ok(), "no memory");
  std::thread others([&] { join_as_others(&input, id, is_over); });
  GroupMembers group;
  Member own{Descriptor(open("/dev/null", O_RDONLY | O_CLOEXEC)),
             Descriptor(open("/dev/null", O_RDONLY | O_CLOEXEC)),
             Descriptor(open("/dev/null", O_RDONLY | O_CLOEXEC))};
  const Status gathered = root.gather(Status(), std::move(own), &group);
  for (uint32_t rank = 0; gathered.ok() && rank < kRanks; ++rank) {
    const Member& member = group.members[rank];
    require(member.memory.is_open() && member.wakeup.is_open() && member.liveness_pipe.is_open(),
            "a group has formed in which a rank has no memory");
  }
  if (gathered.ok()) static_cast<void>(root.conclude(Status()).ok());
  is_over = true;
  others.join();
}

}  // namespace
}  // namespace gq::test

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size_bytes) {
  gq::test::run({bytes, size_bytes});
  return 0;
}
