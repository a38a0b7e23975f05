// Custom transports whose functions fail, throw, forget messages and report other lengths.
#include "tests/fuzz/scripted_calls.h"
#include "tests/fuzz/scripted_transport.h"

namespace gq::test {
namespace {

/** Short chunks: more messages. A call that waits ends soon. */
// A peer that changes words could not make their checksums.
constexpr char kOptions[] = "timeout_ms=2,chunk_value_count=256,checksum=off";
constexpr int kCalls = 3;

void run(FuzzInput input) {
  const int32_t size = 2 + input.byte() % 3;
  const auto schedule = static_cast<gqsgd_schedule>(input.byte() % 8);
  ScriptedTransport transport(&input, input.byte() % size, size);
  transport.misbehave();
  gqsgd_comm comm = nullptr;
  if (gqsgd_comm_create_custom(&transport.table(), kOptions, &comm) != GQSGD_OK) return;
  ScriptedCalls calls(&input, comm, static_cast<uint32_t>(size));
  for (int k = 0; k < kCalls; ++k) {
    const gqsgd_status status = calls.call(schedule);
    require(status != GQSGD_OK || !transport.has_cut_message(),
            "a call succeeds although a message had another length");
    require(status != GQSGD_OK || !transport.has_failed(),
            "a call succeeds although a function of the transport failed");
    if (status != GQSGD_OK) break;
  }
  gqsgd_comm_destroy(comm);
}

}  // namespace
}  // namespace gq::test

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size_bytes) {
  gq::test::run({bytes, size_bytes});
  return 0;
}
