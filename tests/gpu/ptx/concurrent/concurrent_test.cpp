// Kernels that run concurrently on one thread: orders come from seeds, time from steps, and kernels
// that wait for what never comes are found.
#include "tests/gpu/ptx/concurrent/concurrent.h"

#include <gtest/gtest.h>

#include <cstring>
#include <set>
#include <string>

#include "tests/gpu/ptx/finding.h"
#include "tests/gpu/ptx/global_memory.h"

namespace gq::ptx {
namespace {

/** Kernels of one thread in a block with a pointer to words of 64 bits. */
class Kernels {
 public:
  static constexpr uint32_t kWords = 8;

  explicit Kernels(const std::string& body) {
    read_text(".visible .entry k(\n\t.param .u64 p\n)\n.maxntid 1, 1, 1\n{\n"
              "ld.param.u64 %rd1, [p];\nmov.u32 %r1, %ctaid.x;\n" +
                  body + "ret;\n}\n",
              "here", &program_);
    add_area(words, sizeof words, Use::host);
  }
  ~Kernels() { remove_area(words); }
  Kernels(const Kernels&) = delete;
  Kernels& operator=(const Kernels&) = delete;

  /** One launch of each stream. */
  void run(uint32_t stream_count, uint32_t blocks, const Schedule& schedule) {
    std::vector<OrderedStream> streams(stream_count);
    std::set<uint32_t> begun;
    const auto next = [&](uint32_t stream) -> std::optional<Recorded> {
      if (!begun.insert(stream).second) return {};
      const uint64_t pointer = reinterpret_cast<uint64_t>(words);
      std::vector<uint8_t> parameters(sizeof pointer);
      memcpy(parameters.data(), &pointer, sizeof pointer);
      return Recorded{&program_.at("k"), blocks, 1, parameters};
    };
    run_concurrently(&streams, next, schedule);
  }

  uint64_t words[kWords] = {};

 private:
  Program program_;
};

/** Word 0 counts blocks; each waits until there are four, and block 0 says when they were. */
const std::string kFourBlocksMeet =
    "atom.global.add.u32 %r2, [%rd1], 1;\n"
    "$wait:\n"
    "nanosleep.u32 %r2;\n"
    "ld.volatile.global.u32 %r3, [%rd1];\n"
    "setp.ne.u32 %p1, %r3, 4;\n"
    "@%p1 bra $wait;\n"
    "mov.u64 %rd2, %globaltimer;\n"
    "st.global.u64 [%rd1+8], %rd2;\n";

TEST(Concurrent, KernelsOfTwoStreams_WaitForEachOther) {
  Kernels kernels(kFourBlocksMeet);
  kernels.run(2, 2, {});
  EXPECT_EQ(kernels.words[0], 4u);
}

TEST(Concurrent, Seed_OneOrder) {
  std::set<uint64_t> times_ns;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    Kernels first(kFourBlocksMeet), second(kFourBlocksMeet);
    first.run(2, 2, {seed});
    second.run(2, 2, {seed});
    EXPECT_EQ(first.words[1], second.words[1]) << seed;
    times_ns.insert(first.words[1]);
  }
  EXPECT_GT(times_ns.size(), 5u);
}

TEST(Concurrent, HeldBlock_GoesOnLater) {
  Kernels kernels(kFourBlocksMeet);
  uint64_t now_ns = 0;
  constexpr uint64_t kHeldNs = 1000 * kStepNs;
  const auto is_held = [&](uint32_t stream, uint32_t block) {
    return stream == 1 && block == 0 && now_ns < kHeldNs;
  };
  kernels.run(2, 2, {1, is_held, [&](uint64_t time_ns) { now_ns = time_ns; }});
  EXPECT_GE(kernels.words[1], kHeldNs);
}

TEST(Concurrent, WordThatNeverComes_Found) {
  Kernels kernels(kFourBlocksMeet);
  try {
    kernels.run(1, 2, {});
    FAIL() << "it has ended";
  } catch (const Finding& found) {
    EXPECT_STREQ(found.what(), "kernels wait without end");
  }
}

}  // namespace
}  // namespace gq::ptx
