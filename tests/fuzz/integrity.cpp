// Whole calls with checksums whose peers are the fuzzer: words and trailers that are right, or not.
#include "tests/fuzz/scripted_calls.h"

namespace gq::test {
namespace {

void run(FuzzInput input) {
  const int32_t size = 2 + input.byte() % 4;
  const auto schedule = static_cast<gqsgd_schedule>(input.byte() % 8);
  ScriptedTransport transport(&input, input.byte() % size, size);
  transport.make_checksums();
  make_calls(&input, &transport, kWithChecksums, schedule, [&](gqsgd_status status) {
    require(status != GQSGD_OK || !transport.has_wrong_checksum(),
            "a call succeeds although a message was changed");
    require(status != GQSGD_INTEGRITY || transport.has_wrong_checksum() ||
                transport.has_changed_control(),
            "INTEGRITY although nothing was changed");
  });
}

}  // namespace
}  // namespace gq::test

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size_bytes) {
  gq::test::run({bytes, size_bytes});
  return 0;
}
