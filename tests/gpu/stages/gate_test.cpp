// The gate before a call's results: the first block that comes to one which is undecided closes it
// if the group is broken, and all blocks of all kernels behind it do as that one.
#include <gtest/gtest.h>

#include "tests/gpu/cuda_call.h"
#include "tests/gpu/stages/device_memory.h"
#include "tests/unit/kernels/support/stage_calls.h"

namespace gq::test {
namespace {

constexpr size_t kCount = 70001;

/** A word of the host that the device reads. */
class PinnedWord {
 public:
  explicit PinnedWord(uint32_t word) {
    void* memory = nullptr;
    done(cudaHostAlloc(&memory, sizeof word, cudaHostAllocMapped));
    place_ = static_cast<uint32_t*>(memory);
    *place_ = word;
  }
  ~PinnedWord() { (void)cudaFreeHost(place_); }
  PinnedWord(const PinnedWord&) = delete;
  PinnedWord& operator=(const PinnedWord&) = delete;
  const uint32_t* get() const { return place_; }

 private:
  uint32_t* place_ = nullptr;
};

template <typename Element>
std::vector<uint8_t> bytes_of(const std::vector<Element>& elements) {
  const auto* const first = reinterpret_cast<const uint8_t*>(elements.data());
  return {first, first + elements.size() * sizeof(Element)};
}

struct Case {
  uint32_t before, broken, after;
};
constexpr Case kCases[] = {
    {kGateUndecided, 0, kGateOpen}, {kGateUndecided, 1, kGateClosed}, {kGateClosed, 0, kGateClosed},
    {kGateClosed, 1, kGateClosed},  {kGateOpen, 0, kGateOpen},        {kGateOpen, 1, kGateOpen},
};

TEST(Gate, EveryState_ValuesWrittenIfItIsOpen) {
  const Coding coding = coding_for(Levels::linear, 8, Combine::average, 2, 1);
  const Words codes = edge_biased_codes(3, kCount, coding);
  const Floats expected =
      dequantize({scalar_stages(), coding}, codes, kCount, 2.5f, GQSGD_MEAN);
  const Floats untouched(kCount, -77);
  const DeviceBytes words(bytes_of(codes), 0), scale(bytes_of(Floats{2.5f}), 0);
  for (const Case& test : kCases) {
    const DeviceBytes values(bytes_of(untouched), 0), word(bytes_of(Words{test.before}), 0);
    const PinnedWord broken(test.broken);
    DequantizeArgs args{};
    args.coding = coding;
    args.range = {0, kCount};
    args.words = static_cast<const uint32_t*>(words.data());
    args.scales.one = static_cast<const float*>(scale.data());
    args.dtype = GQSGD_FLOAT32;
    args.op = GQSGD_MEAN;
    args.values = values.data();
    args.stream = test_stream();
    args.gate = {static_cast<uint32_t*>(word.data()), broken.get()};
    EXPECT_FALSE(failed(cuda_stages().dequantize(args)));
    const Floats& wanted = test.after == kGateOpen ? expected : untouched;
    EXPECT_TRUE(values.bytes() == bytes_of(wanted))
        << "gate " << test.before << ", broken " << test.broken;
    EXPECT_TRUE(word.bytes() == bytes_of(Words{test.after}))
        << "gate " << test.before << ", broken " << test.broken;
  }
}

}  // namespace
}  // namespace gq::test
