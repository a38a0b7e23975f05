// Options strings of communicators: what is accepted is in its range.
#include "kernels/codec/formats.h"
#include "src/api/communicator/options_string.h"
#include "tests/fuzz/fuzz_input.h"

namespace gq::test {
namespace {

/** What docs/C_API.md and gqsgd.h allow. */
constexpr uint32_t kThreadsMost = 256;
constexpr uint32_t kPortMost = 65535;

void run(FuzzInput input) {
  const std::unique_ptr<char[]> text = input.rest_as_string();
  // The option costs names files: those of the machine that runs this are not its subject.
  if (strstr(text.get(), "costs") != nullptr && strchr(text.get(), '/') != nullptr) return;
  CommOptions options;
  if (!parse_options(text.get(), &options).ok()) return;
  require(options.timeout_ms >= -1 && options.timeout_ms != 0, "timeout_ms is out of range");
  require(options.timeout_ms <= kTimeoutMsMax, "timeout_ms is too large");
  require(options.threads >= 1 && options.threads <= kThreadsMost, "threads is out of range");
  require(options.chunk_value_count % kValueAlignment == 0, "chunk_value_count is not aligned");
  require(options.network.port <= kPortMost, "port is out of range");
  require(options.nodes.size() <= strlen(text.get()), "nodes are more than the string has");
}

}  // namespace
}  // namespace gq::test

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size_bytes) {
  gq::test::run({bytes, size_bytes});
  return 0;
}
