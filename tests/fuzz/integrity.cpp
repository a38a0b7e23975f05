// Whole calls with checksums whose peers are the fuzzer: words and trailers that are right, or not.
#include "tests/fuzz/scripted_calls.h"
#include "tests/fuzz/scripted_transport.h"

namespace gq::test {
namespace {

/** Short chunks: more messages. A call that waits ends soon. */
constexpr char kOptions[] = "timeout_ms=2,chunk_value_count=256,checksum=crc32c";
constexpr int kCalls = 3;

void run(FuzzInput input) {
  const int32_t size = 2 + input.byte() % 4;
  const auto schedule = static_cast<gqsgd_schedule>(input.byte() % 8);
  ScriptedTransport transport(&input, input.byte() % size, size);
  transport.make_checksums();
  gqsgd_comm comm = nullptr;
  if (gqsgd_comm_create_custom(&transport.table(), kOptions, &comm) != GQSGD_OK) return;
  ScriptedCalls calls(&input, comm, static_cast<uint32_t>(size));
  for (int k = 0; k < kCalls; ++k) {
    transport.begin_call();
    const gqsgd_status status = calls.call(schedule);
    require(status != GQSGD_OK || !transport.has_wrong_checksum(),
            "a call succeeds although a message was changed");
    require(status != GQSGD_INTEGRITY || transport.has_wrong_checksum() ||
                transport.has_changed_control(),
            "INTEGRITY although nothing was changed");
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
