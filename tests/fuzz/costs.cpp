// Constants of the cost model, as files and the option costs have them: what is accepted is
// described, and is bit for bit the same when read again.
#include "src/plan/cost/cost_constants.h"
#include "tests/fuzz/fuzz_input.h"

namespace gq::test {
namespace {

using Describe = size_t (*)(const CostConstants&, char*, size_t);

std::unique_ptr<char[]> described(Describe describe, const CostConstants& constants,
                                  size_t capacity_bytes) {
  const size_t length = describe(constants, nullptr, 0);
  std::unique_ptr<char[]> cut(new char[capacity_bytes]);
  require(describe(constants, cut.get(), capacity_bytes) == length,
          "a length depends on the space");
  std::unique_ptr<char[]> whole(new char[length + 1]);
  require(describe(constants, whole.get(), length + 1) == length, "two lengths of one string");
  return whole;
}

void run(FuzzInput input) {
  const size_t capacity_bytes = 1 + input.take<uint16_t>() % 4096;
  const size_t size_bytes = input.left_bytes();
  std::unique_ptr<char[]> text(new char[size_bytes]);
  input.fill(text.get(), size_bytes);
  CostConstants constants = built_in_costs();
  if (!parse_costs({text.get(), size_bytes}, &constants).ok()) return;
  require(digest_of(constants) != 0, "a digest is 0");
  described(describe_costs, constants, capacity_bytes);
  const std::unique_ptr<char[]> exact =
      described(describe_costs_exactly, constants, capacity_bytes);
  CostConstants again = built_in_costs();
  require(parse_costs(exact.get(), &again).ok(), "described constants are refused");
  require(memcmp(&constants, &again, sizeof again) == 0, "described constants are others");
}

}  // namespace
}  // namespace gq::test

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size_bytes) {
  gq::test::run({bytes, size_bytes});
  return 0;
}
