// Sparse allreduces: how many entries peers announce, and what these are.
#include "tests/fuzz/scripted_calls.h"

namespace gq::test {
namespace {

void run(FuzzInput input) {
  const int32_t size = 2 + input.byte() % 3;
  ScriptedTransport transport(&input, input.byte() % size, size);
  make_calls(&input, &transport, kWithoutChecksums, GQSGD_SCHEDULE_SPARSE, [](gqsgd_status) {});
}

}  // namespace
}  // namespace gq::test

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size_bytes) {
  gq::test::run({bytes, size_bytes});
  return 0;
}
