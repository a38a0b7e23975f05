// Operands are encoded once, before the first case.
#include "tests/gpu/ptx/checks/rice_cases.h"

#include <memory>
#include <stdexcept>

#include "kernels/stages.h"

namespace gq::test {
namespace {

using bench::cuda_done;
using bench::GpuBuffers;
using bench::GpuCase;

constexpr uint32_t kRanks = 8;
constexpr char kFormat[] = "rice-4";

void made(const StageError& error) {
  if (failed(error)) throw std::runtime_error(error.call);
}

class RiceStages {
 public:
  explicit RiceStages(GpuBuffers& buffers) : buffers_(buffers) {
    Format format;
    format.levels = Levels::rice;
    format.mean_half_bits = 8;
    format.rounding = Rounding::correlated;
    coding_ = coding_of(format, kRanks, 0);
    grouped_.groups = interleaved_groups(buffers.value_count(), coding_);
    coding_.group_values = grouped_.groups.group_values;
    coding_.group_planes = grouped_.groups.group_planes;
    coding_.group_planes_down = grouped_.groups.group_planes_down;
    for (uint32_t rank = 0; rank < kRanks; ++rank) {
      quantize(rank, buffers.codes(rank), cudaStreamLegacy);
    }
    const uint32_t* operands[kRanks];
    for (uint32_t rank = 0; rank < kRanks; ++rank) operands[rank] = buffers.codes(rank);
    cuda_done(cudaMalloc(&operands_, sizeof operands), "cudaMalloc");
    cuda_done(cudaMemcpy(operands_, operands, sizeof operands, cudaMemcpyDefault), "cudaMemcpy");
  }
  ~RiceStages() { (void)cudaFree(operands_); }
  RiceStages(const RiceStages&) = delete;
  RiceStages& operator=(const RiceStages&) = delete;

  void quantize(uint32_t rank, uint32_t* words, cudaStream_t stream) const {
    QuantizeArgs args{};
    args.coding = coding_;
    args.random.rank = rank;
    args.range = range();
    args.values = buffers_.values(rank);
    args.dtype = GQSGD_FLOAT32;
    args.words = words;
    args.stream = stream;
    made(cuda_batch_stages().quantize(&args, 1, {}));
  }
  void reduce_many(uint32_t ranks, size_t set, cudaStream_t stream) const {
    ReduceManyArgs args{};
    args.coding = coding_;
    args.coding.ranks = ranks;
    args.range = range();
    args.words = static_cast<const uint32_t* const*>(operands_);
    args.out_words = buffers_.own_codes(set);
    args.sums = buffers_.results(set);
    args.stream = stream;
    made(cuda_batch_stages().reduce_many(&args, 1, {}));
  }
  void dequantize(size_t set, cudaStream_t stream) const {
    DequantizeArgs args{};
    args.coding = coding_;
    args.range = range();
    args.words = buffers_.own_codes(set);
    args.dtype = GQSGD_FLOAT32;
    args.op = GQSGD_MEAN;
    args.values = buffers_.results(set);
    args.stream = stream;
    made(cuda_batch_stages().dequantize(&args, 1, {}));
  }

 private:
  Range range() const {
    return {0, static_cast<size_t>(grouped_.groups.padded_count()), {}, &grouped_};
  }

  GpuBuffers& buffers_;
  Coding coding_{};
  GroupedValues grouped_;
  void* operands_ = nullptr;
};

}  // namespace

/** Sums lie in memory as float32 and are read and written with each operand behind the first, then
 *  read by what encodes them. */
std::vector<GpuCase> rice_cases(GpuBuffers& buffers) {
  constexpr double kCodes = 0.5, kSums = 4;
  const auto stages = std::make_shared<RiceStages>(buffers);
  const auto summing = [&](const char* name, uint32_t ranks) -> GpuCase {
    const double bytes = ranks * kCodes + (2 * ranks - 1) * kSums + kSums + kCodes;
    return {name, kFormat, bytes, 0, [stages, ranks](size_t set, cudaStream_t stream) {
              stages->reduce_many(ranks, set, stream);
            }};
  };
  return {{"quantize", kFormat, 4 + kCodes, 0,
           [stages, &buffers](size_t set, cudaStream_t stream) {
             stages->quantize(0, buffers.own_codes(set), stream);
           }},
          summing("reduce_many n=2", 2),
          summing("reduce_many n=8", kRanks),
          {"dequantize", kFormat, 4 + kCodes, 0, [stages](size_t set, cudaStream_t stream) {
             stages->dequantize(set, stream);
           }}};
}

}  // namespace gq::test
