// Rank 0's kernel runs alone, with one block. What peers would write is there before it begins, so
// that it never waits and always executes the same. It ends at each of its barriers in turn, with
// two lengths of the call: the differences are what the stages take for each value.
#include "tests/gpu/ptx/checks/fused_counts.h"

#include <stdio.h>
#include <stdlib.h>

#include <array>
#include <string>

#include "bench/gpu/cases.h"
#include "kernels/codec/random.h"
#include "kernels/fused.h"
#include "src/api/quantizer/quantizer_spec.h"
#include "tests/gpu/ptx/traffic.h"

namespace gq::test {
namespace {

using bench::cuda_done;
using bench::GpuBuffers;
using ptx::Traffic;

constexpr size_t kValues = 1 << 16;  // each of 8 ranks adds two tiles
constexpr uint32_t kStages = kBarrierKinds + 1;
constexpr const char* kNames[kStages] = {"norm", "quantize", "reduce_many", "dequantize"};

struct Counts {
  int64_t instructions = 0, load_sectors = 0, store_sectors = 0;

  Counts operator-(const Counts& other) const {
    return {instructions - other.instructions, load_sectors - other.load_sectors,
            store_sectors - other.store_sectors};
  }
};

[[noreturn]] void end_with(const char* what) {
  fprintf(stderr, "fused counts: %s\n", what);
  exit(1);
}

/** A group of which only rank 0 has a kernel. */
class LoneRank {
 public:
  LoneRank(const std::string& spec, uint32_t ranks, GpuBuffers& values)
      : spec_(spec), ranks_(ranks), values_(values) {
    for (uint32_t rank = 0; rank < ranks; ++rank) {
      buffers_[rank] = static_cast<FusedBuffers*>(zeros(sizeof(FusedBuffers)));
    }
    leave_ = static_cast<uint64_t*>(zeros(sizeof(uint64_t)));
    (void)run(kBarrierKinds, 2 * kValues);
    for (uint32_t rank = 1; rank < ranks; ++rank) {  // codes that kernels would make
      copy(buffers_[rank], buffers_[0], sizeof(FusedBuffers), cudaMemcpyDeviceToDevice);
    }
  }
  ~LoneRank() {
    for (FusedBuffers* buffers : buffers_) (void)cudaFree(buffers);
    (void)cudaFree(leave_);
  }
  LoneRank(const LoneRank&) = delete;
  LoneRank& operator=(const LoneRank&) = delete;

  /** Of a kernel that passes so many barriers, and ends at the next one. */
  Counts run(uint32_t barriers, size_t value_count) {
    const FusedArgs args = arguments(value_count);
    FusedControl& control = buffers_[0]->control;
    cuda_done(cudaMemsetAsync(&control, 0, sizeof control, cudaStreamLegacy), "clear flags");
    for (uint32_t kind = 0; kind < barriers; ++kind) {
      const bool for_codes = kind == static_cast<uint32_t>(BarrierOf::codes);
      const uint32_t word =
          for_codes ? digest_with(args.request.digest, args.random.step, args.random.index) : 0;
      const uint64_t flag = uint64_t{1} << 32 | word;  // of the first call
      for (uint32_t rank = 0; rank < ranks_; ++rank) {
        copy(&control.flags[kind][rank][0], &flag, sizeof flag, cudaMemcpyHostToDevice);
      }
    }
    const uint64_t leaves = barriers < kBarrierKinds ? kLeaveForHost : 0;
    copy(leave_, &leaves, sizeof leaves, cudaMemcpyHostToDevice);
    (void)ptx::take_traffic();
    if (failed(cuda_fused_stages().allreduce(args))) end_with("the kernel is not launched");
    cuda_done(cudaStreamSynchronize(cudaStreamLegacy), "the kernel");
    return taken();
  }

  const std::string& kernel() const { return kernel_; }

 private:
  static void* zeros(size_t size_bytes) {
    void* memory = nullptr;
    cuda_done(cudaMalloc(&memory, size_bytes), "memory of a rank");
    cuda_done(cudaMemsetAsync(memory, 0, size_bytes, cudaStreamLegacy), "memory of a rank");
    return memory;
  }
  static void copy(void* to, const void* from, size_t size_bytes, cudaMemcpyKind kind) {
    cuda_done(cudaMemcpy(to, from, size_bytes, kind), "a copy");
  }

  FusedArgs arguments(size_t value_count) const {
    Format format;
    if (!parse_quantizer(spec_.c_str(), &format).ok()) end_with(spec_.c_str());
    FusedArgs args{};
    args.coding = coding_of(format, ranks_, 0);
    if (!has_fused_kernel(format, args.coding)) end_with(spec_.c_str());
    args.random = {random_key(format.seed, 0), 1, 0, 0};
    args.ranks = ranks_;
    args.value_count = value_count;
    args.dtype = GQSGD_FLOAT32;
    args.op = GQSGD_MEAN;
    args.segment_count = 1;
    args.segments[0] = {0, value_count, values_.values(1), values_.results(1)};
    for (uint32_t rank = 0; rank < ranks_; ++rank) {
      args.shards[rank] = {rank * (value_count / ranks_), value_count / ranks_};
      args.buffers[rank] = buffers_[rank];
      args.leave[rank] = leave_;
    }
    args.request.status_word = 1;
    args.request.step_word = 2;
    args.request.index_word = 3;
    args.block_count = 1;
    args.timeout_ns = UINT64_MAX;
    args.stream = cudaStreamLegacy;
    return args;
  }

  Counts taken() {
    const auto found = ptx::take_traffic();
    if (found.size() != 1) end_with("more than one kernel");
    const auto& [kernel, traffic] = *found.begin();
    kernel_ = kernel;
    return {static_cast<int64_t>(traffic.instructions()),
            static_cast<int64_t>(traffic.loads.sectors),
            static_cast<int64_t>(traffic.stores.sectors)};
  }

  std::string spec_, kernel_;
  uint32_t ranks_;
  GpuBuffers& values_;
  std::array<FusedBuffers*, kFusedRanksMax> buffers_{};
  uint64_t* leave_ = nullptr;
};

void print(const LoneRank& rank, const char* stage, uint32_t ranks, const std::string& spec,
           const Counts& counts) {
  printf("fused %s n=%u\t%s\t0\t0\t%zu\t%s\t%lld\t%lld\t%lld\n", stage, ranks, spec.c_str(),
         kValues, rank.kernel().c_str(), static_cast<long long>(counts.instructions),
         static_cast<long long>(counts.load_sectors), static_cast<long long>(counts.store_sectors));
}

void print_of(const std::string& spec, uint32_t ranks, GpuBuffers& buffers) {
  LoneRank rank(spec, ranks, buffers);
  Counts before;  // of the stages before this one, for kValues more
  for (uint32_t stage = 0; stage < kStages; ++stage) {
    const Counts all = rank.run(stage, 2 * kValues) - rank.run(stage, kValues);
    print(rank, kNames[stage], ranks, spec, all - before);
    before = all;
  }
  print(rank, "beside", ranks, spec, rank.run(kBarrierKinds, kValues) - before);
}

}  // namespace

void print_fused_counts() {
  GpuBuffers buffers(2 * kValues, 2);
  for (const char* const spec : {"paper-gl8", "paper-ge8", "paper-gl4", "blocks-8", "none"}) {
    for (const uint32_t ranks : {2, 4, 8}) {
      print_of(spec, ranks, buffers);
      fflush(stdout);
    }
  }
}

}  // namespace gq::test
