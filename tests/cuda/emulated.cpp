// The stages of kernels/cuda without a device: their bodies, run for every thread of every block in
// plain loops, with a barrier after each phase as on a device.
// clang-format off
#define GQ_WIDE_OCTETS  // as on a device
#include "kernels/codec/portable.h"
#undef GQ_UNROLL
#define GQ_UNROLL  // Loops that stay loops compile in a third of the time.
// clang-format on

#include <string.h>

#include <vector>

#include "kernels/cuda/dequantize.cuh"
#include "kernels/cuda/norm.cuh"
#include "kernels/cuda/numbers.cuh"
#include "kernels/cuda/quantize.cuh"
#include "kernels/cuda/reduce.cuh"
#include "kernels/cuda/reduce_many.cuh"
#include "tests/cuda/stages_under_test.h"

namespace gq::test {
namespace {

/** Fewer blocks than most calls have turns, so that blocks take several. */
constexpr uint32_t kBlocks = 3;

/** A block of threads that take turns on one processor. What is shared, or a thread's own, begins
 * as something that no body may rely on. */
template <typename Body>
class EmulatedBlock {
 public:
  using Shared = typename Body::Shared;
  using Own = typename Body::Own;

  explicit EmulatedBlock(uint32_t number) : number_(number) {
    memset(static_cast<void*>(&shared_), 0xCA, sizeof shared_);
    memset(static_cast<void*>(own_), 0xCA, sizeof own_);
  }

  uint32_t number() const { return number_; }
  uint32_t count() const { return kBlocks; }

  template <bool kBarrier, typename Step>
  void all(Step step) {
    for (uint32_t thread = 0; thread < Body::kThreads; ++thread) {
      step(cuda::Local<Shared, Own>{thread, shared_, own_[thread]});
    }
  }

 private:
  uint32_t number_;
  Shared shared_;
  Own own_[Body::kThreads];
};

struct EmulatedLauncher {
  template <typename Body>
  gqsgd_status run(const Body& body) const {
    for (uint32_t number = 0; number < kBlocks; ++number) {
      EmulatedBlock<Body> block(number);
      cuda::run_block(body, block);
    }
    return GQSGD_OK;
  }

  gqsgd_status clear(void* memory, size_t size_bytes) const {
    memset(memory, 0, size_bytes);
    return GQSGD_OK;
  }
};

gqsgd_status norm(const NormArgs& args) {
  const uint64_t codes = code_count(args.rotated, args.range.value_count);
  std::vector<double> sums(norm_group_count(args.range.first_value, codes));
  NormArgs with_workspace = args;
  if (args.workspace == nullptr) with_workspace.workspace = sums.data();
  return cuda::norm_on(EmulatedLauncher(), with_workspace);
}

gqsgd_status merge_norms(const MergeNormsArgs& args) {
  return cuda::merge_norms_on(EmulatedLauncher(), args);
}
gqsgd_status quantize(const QuantizeArgs& args) {
  return cuda::quantize_on(EmulatedLauncher(), args);
}
gqsgd_status reduce(const ReduceArgs& args) { return cuda::reduce_on(EmulatedLauncher(), args); }
gqsgd_status reduce_many(const ReduceManyArgs& args) {
  return cuda::reduce_many_on(EmulatedLauncher(), args);
}
gqsgd_status dequantize(const DequantizeArgs& args) {
  return cuda::dequantize_on(EmulatedLauncher(), args);
}

gqsgd_status write_list(const WriteListArgs& args) {
  return cuda::write_list_on(EmulatedLauncher(), args);
}
gqsgd_status write_numbers(const WriteNumbersArgs& args) {
  return cuda::write_numbers_on(EmulatedLauncher(), args);
}

}  // namespace

const Stages stages_under_test = {
    "emulated cuda", norm,       merge_norms, quantize, reduce,
    reduce_many,     dequantize, nullptr,     nullptr,  nullptr,
};

const NumberStages numbers_under_test = {write_list, write_numbers};

}  // namespace gq::test
