// Whole calls whose peers are the fuzzer: control messages, norms and codes.
#include "tests/fuzz/scripted_calls.h"

namespace gq::test {
namespace {

void run(FuzzInput input) {
  const int32_t size = 2 + input.byte() % 4;
  const auto schedule = static_cast<gqsgd_schedule>(input.byte() % 8);
  ScriptedTransport transport(&input, input.byte() % size, size);
  make_calls(&input, &transport, kWithoutChecksums, schedule, [&](gqsgd_status status) {
    require(status != GQSGD_OK || !transport.has_changed_control(),
            "a call succeeds although control messages differ");
  });
}

}  // namespace
}  // namespace gq::test

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size_bytes) {
  gq::test::run({bytes, size_bytes});
  return 0;
}
