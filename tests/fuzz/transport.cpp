// Custom transports whose functions fail, throw, forget messages and report other lengths.
#include "tests/fuzz/scripted_calls.h"

namespace gq::test {
namespace {

void run(FuzzInput input) {
  const int32_t size = 2 + input.byte() % 3;
  const auto schedule = static_cast<gqsgd_schedule>(input.byte() % 8);
  ScriptedTransport transport(&input, input.byte() % size, size);
  transport.misbehave();
  make_calls(&input, &transport, kWithoutChecksums, schedule, [&](gqsgd_status status) {
    require(status != GQSGD_OK || !transport.has_cut_message(),
            "a call succeeds although a message had another length");
    require(status != GQSGD_OK || !transport.has_failed(),
            "a call succeeds although a function of the transport failed");
  });
}

}  // namespace
}  // namespace gq::test

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size_bytes) {
  gq::test::run({bytes, size_bytes});
  return 0;
}
