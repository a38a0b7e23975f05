// Unique ids of both kinds of groups, and addresses of UCX as a peer sends them.
#include "src/transport/bootstrap/unique_id.h"
#include "src/transport/network/bootstrap/network_id.h"
#include "src/transport/ucx/ucx_address.h"
#include "tests/fuzz/fuzz_input.h"

namespace gq::test {
namespace {

void read_address(FuzzInput input) {
  constexpr UcxEnd end{1, 1, 1, 16};
  unsigned char worker[64];
  const size_t size_bytes = 1 + input.byte() % sizeof worker;
  input.fill(worker, size_bytes);
  const std::vector<unsigned char> right = packed_ucx_address(end, worker, size_bytes);
  require(check_ucx_address(1, end, right.data(), right.size()).ok(), "an address is refused");
  // In a block of its own size: nothing behind it may be read.
  const size_t cut_bytes = 1 + input.byte() % right.size();
  std::unique_ptr<unsigned char[]> changed(new unsigned char[cut_bytes]);
  memcpy(changed.get(), right.data(), cut_bytes);
  input.edit(changed.get(), cut_bytes);
  const bool is_equal =
      cut_bytes == right.size() && memcmp(changed.get(), right.data(), cut_bytes) == 0;
  require(check_ucx_address(1, end, changed.get(), cut_bytes).ok() == is_equal,
          "a changed address is accepted");
}

void read_ids(FuzzInput input) {
  gqsgd_unique_id id;
  input.fill(id.bytes, sizeof id.bytes);
  UniqueId of_processes;
  NetworkId of_network;
  static_cast<void>(read_unique_id(id, &of_processes).ok());
  if (!read_network_id(id, &of_network).ok()) return;
  require(strlen(AddressText(of_network.address).text()) < 64, "a long address");
  socket_name_of(of_network.address);
}

}  // namespace
}  // namespace gq::test

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size_bytes) {
  gq::test::read_address({bytes, size_bytes});
  gq::test::read_ids({bytes, size_bytes});
  return 0;
}
