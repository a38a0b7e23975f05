// A joiner of a network group, whose rank 0 is the fuzzer: outcome, table of members, address of an
// engine, and the end of the bootstrap.
#include "src/transport/network/bootstrap/network_joiner.h"

#include "tests/fuzz/network_peer.h"

namespace gq::test {
namespace {

constexpr uint32_t kRanks = 2;
constexpr uint32_t kEngineBytes = 8;

/** One joiner is served, or none comes. */
void serve(FuzzInput* input, const TcpSocket& listener, const std::atomic<bool>& is_over) {
  std::unique_ptr<TcpSocket> socket;
  NetworkAddress from;
  while (!is_over && !socket) {
    if (!accept_connection(listener, &socket, &from).ok()) return;
    std::this_thread::yield();
  }
  Handshake handshake;
  if (!socket || !handshake.accept(network_secret()).ok()) return;
  if (!shake_hands(&handshake, *socket, is_over)) return;
  MessageStream messages(input);
  NetworkOutcome outcome;
  outcome.rank_count = kRanks;
  messages.add(outcome);
  NetworkMember member = own_member();
  memset(member.host_name, 'h', sizeof member.host_name - 1);
  for (uint32_t rank = 0; rank < kRanks; ++rank) messages.add(member);
  EngineAddress engine;
  engine.size_bytes = kEngineBytes;
  messages.add(engine);
  messages.add_bytes(kEngineBytes);
  messages.add(NetworkOutcome());
  messages.send_to(*socket);
  shutdown(socket->number(), SHUT_WR);
  while (!is_over) std::this_thread::yield();
}

Status form(NetworkToken* token) {
  NetworkJoiner joiner(token);
  NetworkTable table;
  GQ_TRY(joiner.gather(Status(), own_member(), &table));
  require(table.members.size() == kRanks, "a table of other ranks");
  for (const NetworkMember& member : table.members) {
    require(memchr(member.host_name, 0, sizeof member.host_name) != nullptr,
            "a host name without its end");
  }
  EngineAddresses addresses;
  GQ_TRY(joiner.connect(Status(), std::vector<unsigned char>(kEngineBytes), &addresses));
  require(!addresses[0].empty() && addresses[0].size() <= kEngineAddressBytesMax,
          "an engine's address of another size than allowed");
  NetworkLinks links;
  return joiner.conclude(Status(), &links);
}

void run(FuzzInput input) {
  NetworkToken token;
  token.secret = network_secret();
  token.rank = 1;
  token.size = kRanks;
  std::unique_ptr<TcpSocket> listener;
  NetworkAddress address;
  require(listen_at(loopback(), &listener, &address).ok(), "no listener");
  token.root.assign(1, address);
  token.deadline = Deadline(deadline_after_ms(kNetworkTimeoutMs));
  std::atomic<bool> is_over{false};
  std::thread root([&] { serve(&input, *listener, is_over); });
  static_cast<void>(form(&token).ok());
  is_over = true;
  root.join();
}

}  // namespace
}  // namespace gq::test

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size_bytes) {
  gq::test::run({bytes, size_bytes});
  return 0;
}
