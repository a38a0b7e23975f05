// What a profiler sees of calls on streams.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "tests/gpu/nccl/group.h"

namespace gq::test {
namespace {

/** The ranges that have begun so far, if none is open on this thread. */
std::string profiler_log() {
  const char* const path = getenv("NVTX_INJECTION64_PATH");
  void* const profiler = path == nullptr ? nullptr : dlopen(path, RTLD_NOW | RTLD_NOLOAD);
  if (profiler == nullptr) return "NVTX has loaded no profiler";
  const auto log = reinterpret_cast<int (*)(const char**)>(dlsym(profiler, "profiler_log"));
  const char* text = nullptr;
  const int depth = log(&text);
  return depth == 0 ? text : "a range is open";
}

TEST(Ranges, NameTheCallAndItsPhases) {
  const NcclGroup group(1);
  const gqsgd_comm comm = group.comm(0);
  const Quantizer quantizer("paper-gl8");
  const DeviceMemory memory(400);
  const OwnStream stream;
  for (int k = 0; k < 3; ++k) {  // the third one is expected: no host waits
    ASSERT_EQ(gqsgd_allreduce(comm, quantizer.get(), memory.as<float>(), memory.as<float>(), 100,
                              GQSGD_FLOAT32, GQSGD_SUM, nullptr, stream.get()),
              GQSGD_OK)
        << gqsgd_last_error();
  }
  const size_t counts[] = {100};
  ASSERT_EQ(gqsgd_allgather(comm, quantizer.get(), memory.as<float>(), memory.as<float>(), counts,
                            GQSGD_FLOAT32, nullptr, stream.get()),
            GQSGD_OK)
      << gqsgd_last_error();
  ASSERT_TRUE(stream.synchronize());
  const std::string waits =
      "gqsgd.allreduce\n gqsgd.prepare\n gqsgd.headers\n gqsgd.await_headers\n gqsgd.fill\n";
  const std::string expected = "gqsgd.allreduce\n gqsgd.prepare\n gqsgd.headers\n gqsgd.fill\n";
  const std::string gather =
      "gqsgd.allgather\n gqsgd.prepare\n gqsgd.headers\n gqsgd.await_headers\n gqsgd.fill\n";
  EXPECT_EQ(profiler_log(), waits + expected + expected + gather);
}

}  // namespace
}  // namespace gq::test
