// A joiner of a group of processes, whose rank 0 is the fuzzer: outcomes and descriptors.
#include "src/transport/bootstrap/bootstrap_joiner.h"

#include <fcntl.h>

#include <atomic>
#include <thread>

#include "src/support/clock.h"
#include "tests/fuzz/fuzz_input.h"

namespace gq::test {
namespace {

constexpr uint32_t kRanks = 3;
constexpr int64_t kTimeoutMs = 5;
constexpr uint32_t kPacketsMost = 4;

void send_outcome(FuzzInput* input, int socket, Outcome outcome, int descriptor) {
  input->edit(&outcome, sizeof outcome);
  unsigned char bytes[512] = {};
  memcpy(bytes, &outcome, sizeof outcome);
  size_t size_bytes = sizeof outcome;
  size_t descriptor_count = size_t{kMemberDescriptors} * outcome.rank_count;
  if (input->byte() % 16 == 15) size_bytes = 1 + input->take<uint16_t>() % (sizeof bytes - 1);
  if (input->byte() % 16 == 15) descriptor_count = input->byte();
  if (descriptor_count > kPacketDescriptorsMax) descriptor_count = kPacketDescriptorsMax;
  int descriptors[kPacketDescriptorsMax];
  for (int& number : descriptors) number = descriptor;
  Delivery delivery;
  const Status sent =
      send_packet(socket, bytes, size_bytes, descriptors, descriptor_count, &delivery);
  static_cast<void>(sent);
}

/** One joiner is served, or none comes. */
void serve(FuzzInput* input, int listener, const std::atomic<bool>& is_over) {
  const Descriptor null(open("/dev/null", O_RDONLY | O_CLOEXEC));
  ForkGuard socket;
  Delivery delivery = Delivery::not_yet;
  while (!is_over && accept_client(listener, &socket, &delivery).ok() &&
         delivery != Delivery::done) {
    std::this_thread::yield();
  }
  if (delivery != Delivery::done) return;
  const uint32_t packets = 1 + input->byte() % kPacketsMost;
  const uint32_t per_packet = 1 + input->byte() % kRanks;
  Outcome outcome;
  for (uint32_t k = 0; k < packets; ++k) {
    outcome.rank_count = kRanks - outcome.first_rank;
    if (outcome.rank_count > per_packet) outcome.rank_count = per_packet;
    send_outcome(input, socket.number(), outcome, null.number());
    outcome.first_rank += outcome.rank_count;
  }
}

void run(FuzzInput input) {
  gqsgd_unique_id bytes;
  UniqueId id;
  require(make_unique_id(&bytes).ok() && read_unique_id(bytes, &id).ok(), "no id");
  ForkGuard listener;
  require(listen_as(id, &listener).ok(), "no listener");
  std::atomic<bool> is_over{false};
  std::thread root([&] {
    serve(&input, listener.number(), is_over);
    listener.close_now();
  });
  Joiner joiner({id, 1, kRanks, Deadline(deadline_after_ms(kTimeoutMs))});
  GroupMembers group;
  Member own{Descriptor(open("/dev/null", O_RDONLY | O_CLOEXEC)),
             Descriptor(open("/dev/null", O_RDONLY | O_CLOEXEC)),
             Descriptor(open("/dev/null", O_RDONLY | O_CLOEXEC))};
  const Status gathered = joiner.gather(Status(), std::move(own), &group);
  for (uint32_t rank = 0; gathered.ok() && rank < kRanks; ++rank) {
    require(group.members[rank].memory.is_open() && group.members[rank].liveness_pipe.is_open(),
            "a group has formed in which a rank has no memory");
  }
  if (gathered.ok()) static_cast<void>(joiner.conclude(Status()).ok());
  is_over = true;
  root.join();
}

}  // namespace
}  // namespace gq::test

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size_bytes) {
  gq::test::run({bytes, size_bytes});
  return 0;
}
