// Quantizer specifications: whatever is accepted is described, and means the same when read again.
#include "src/api/quantizer/quantizer_spec.h"
#include "tests/fuzz/fuzz_input.h"

namespace gq::test {
namespace {

using Describe = size_t (*)(const Format&, char*, size_t);

/** As a string of its size, and cut to `capacity_bytes`. */
std::unique_ptr<char[]> described(Describe describe, const Format& format, size_t capacity_bytes) {
  const size_t length = describe(format, nullptr, 0);
  std::unique_ptr<char[]> cut(new char[capacity_bytes]);
  require(describe(format, cut.get(), capacity_bytes) == length, "a length depends on the space");
  std::unique_ptr<char[]> whole(new char[length + 1]);
  require(describe(format, whole.get(), length + 1) == length, "two lengths of one specification");
  require(strlen(whole.get()) == length, "a specification is shorter than its length");
  return whole;
}

void run(FuzzInput input) {
  const size_t capacity_bytes = 1 + input.byte();
  const std::unique_ptr<char[]> spec = input.rest_as_string();
  Format format;
  if (!parse_quantizer(spec.get(), &format).ok()) return;
  for (const Describe describe : {&describe_quantizer, &write_short_spec}) {
    const std::unique_ptr<char[]> once = described(describe, format, capacity_bytes);
    Format again;
    require(parse_quantizer(once.get(), &again).ok(), "a described format is refused");
    const std::unique_ptr<char[]> twice = described(describe, again, capacity_bytes);
    require(strcmp(once.get(), twice.get()) == 0, "a described format means another");
  }
}

}  // namespace
}  // namespace gq::test

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size_bytes) {
  gq::test::run({bytes, size_bytes});
  return 0;
}
