// Rank 0 of a network group, whose joiners are the fuzzer: bytes before the proof of the secret,
// and hello, reports, member and address of an engine behind it.
#include "src/transport/network/bootstrap/network_root.h"

#include "tests/fuzz/network_peer.h"

namespace gq::test {
namespace {

constexpr uint32_t kRanks = 2;
constexpr size_t kForeignBytesMost = 256;
constexpr uint32_t kEngineBytes = 8;

std::unique_ptr<TcpSocket> connect(const NetworkAddress& root) {
  std::unique_ptr<TcpSocket> socket;
  int error = 0;
  if (!begin_connect(root, &socket, &error).ok() || error != 0) return nullptr;
  return socket;
}

void send_without_secret(FuzzInput* input, const NetworkAddress& root) {
  const std::unique_ptr<TcpSocket> socket = connect(root);
  if (!socket) return;
  unsigned char bytes[kForeignBytesMost];
  const size_t size_bytes = 1 + input->byte();
  input->fill(bytes, size_bytes);
  (void)!::send(socket->number(), bytes, size_bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
}

void join(FuzzInput* input, const NetworkAddress& root, const std::atomic<bool>& is_over) {
  if (input->byte() % 4 == 3) send_without_secret(input, root);
  const std::unique_ptr<TcpSocket> socket = connect(root);
  if (!socket) return;
  Hello hello;
  hello.rank = 1;
  hello.size = kRanks;
  input->edit(&hello, sizeof hello);
  Handshake handshake;
  if (!handshake.connect(network_secret(), hello).ok()) return;
  if (!shake_hands(&handshake, *socket, is_over)) return;
  MessageStream messages(input);
  messages.add(NetworkReport());
  messages.add(own_member());
  EngineAddress engine;
  engine.size_bytes = kEngineBytes;
  messages.add(engine);
  messages.add_bytes(kEngineBytes);
  messages.add(NetworkReport());
  messages.send_to(*socket);
  while (!is_over) std::this_thread::yield();
}

Status form(NetworkToken* token) {
  NetworkRoot root(token);
  NetworkTable table;
  GQ_TRY(root.gather(Status(), own_member(), &table));
  require(table.members.size() == kRanks, "a table of other ranks");
  for (const NetworkMember& member : table.members) {
    require(memchr(member.host_name, 0, sizeof member.host_name) != nullptr,
            "a host name without its end");
  }
  EngineAddresses addresses;
  GQ_TRY(root.connect(Status(), std::vector<unsigned char>(kEngineBytes), &addresses));
  require(!addresses[1].empty() && addresses[1].size() <= kEngineAddressBytesMax,
          "an engine's address of another size than allowed");
  NetworkLinks links;
  return root.conclude(Status(), &links);
}

void run(FuzzInput input) {
  NetworkToken token;
  token.secret = network_secret();
  token.size = kRanks;
  NetworkAddress address;
  require(listen_at(loopback(), &token.listener, &address).ok(), "no listener");
  token.deadline = Deadline(deadline_after_ms(kNetworkTimeoutMs));
  std::atomic<bool> is_over{false};
  std::thread joiner([&] { join(&input, address, is_over); });
  static_cast<void>(form(&token).ok());
  is_over = true;
  joiner.join();
}

}  // namespace
}  // namespace gq::test

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size_bytes) {
  gq::test::run({bytes, size_bytes});
  return 0;
}
