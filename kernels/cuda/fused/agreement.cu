// The agreement of ranks on a stream: a few threads look at a few headers.
#include "kernels/cuda/fused/agreement.cuh"

#include "kernels/codec/global_norm.h"
#include "kernels/cuda/launch/launch.cuh"

namespace gq::cuda {

__global__ void take_step_kernel(const __grid_constant__ TakeStepArgs args) {
  volatile uint64_t* const counter = args.counter;
  const uint64_t step = *counter;
  args.step[0] = static_cast<uint32_t>(step);
  args.step[1] = 0;
  *counter = step + 1;
}

GQ_DEVICE void write_header(const WriteHeaderArgs& args) {
  GQ_UNROLL for (uint32_t k = 0; k < kAgreementWords; ++k) {
    const bool is_norm = k >= kAgreementNormWord && k < kAgreementReservedWord;
    if (!is_norm || !args.keep_norm) args.header[k] = args.words[k];
  }
  if (args.step_at == nullptr) return;
  const uint32_t index = args.step_at[1];
  args.header[args.step_word] = args.step_at[0];
  args.header[args.index_word] |= index & kIndexMax;
  if (index > kIndexMax) args.header[args.status_word] = GQSGD_INVALID_ARGUMENT;
}

__global__ void __launch_bounds__(kBlockThreads)
    write_header_kernel(const __grid_constant__ WriteHeaderArgs args) {
  if (threadIdx.x == 0) write_header(args);
  for (size_t k = threadIdx.x; k < args.cleared_count; k += kBlockThreads) args.cleared[k] = 0;
}

/** A thread for each segment. */
GQ_DEVICE void merge_own_segment(const MergeRankNormsArgs& args) {
  const size_t segment = size_t{blockIdx.x} * kBlockThreads + threadIdx.x;
  if (segment >= args.segment_count) return;
  GlobalNorm norm(args.q, args.p);
  for (uint32_t rank = 0; rank < args.ranks; ++rank) {
    const auto* words =
        reinterpret_cast<const NormWords*>(args.norms + rank * args.stride_bytes) + segment;
    norm.merge(norm.to_wire(*words));
  }
  args.global[segment] = norm.result();
}
uint32_t segment_blocks(const MergeRankNormsArgs& args) {
  return static_cast<uint32_t>((args.segment_count + kBlockThreads - 1) / kBlockThreads);
}

GQ_DEVICE const uint32_t* header_of(const AgreeArgs& args, uint32_t rank) {
  return args.headers + rank * args.stride_words;
}

/** ranks_from_differing: the first rank that differs, counted from the end; 0 is none. Norms are
 *  merged in rank order. */
GQ_DEVICE void finish_agreement(const AgreeArgs& args, uint32_t ranks_from_differing) {
  GlobalNorm norm(args.q, args.p);
  for (uint32_t rank = 0; rank < args.ranks; ++rank) {
    const uint32_t* words = header_of(args, rank) + kAgreementNormWord;
    norm.merge(norm.to_wire(NormWords{words[0], words[1]}));
  }
  *args.norm = norm.result();
  *args.gate = ranks_from_differing == 0 ? kGateUndecided : kGateClosed;
  if (ranks_from_differing == 0) return;
  const uint32_t rank = args.ranks - ranks_from_differing;
  report_disagreement(rank, args.headers, header_of(args, rank), args.disagreement);
}

/** The threads of the first block share the comparison. */
__global__ void __launch_bounds__(kBlockThreads)
    agree_kernel(const __grid_constant__ AgreeArgs args) {
  __shared__ uint32_t ranks_from_differing;
  merge_own_segment(args.segments);
  if (blockIdx.x > 0) return;
  if (threadIdx.x == 0) ranks_from_differing = 0;
  __syncthreads();
  for (uint32_t rank = threadIdx.x; rank < args.ranks; rank += kBlockThreads) {
    if (headers_differ(args.headers, header_of(args, rank), args.compared, args.status_word)) {
      atomicMax(&ranks_from_differing, args.ranks - rank);
    }
  }
  __syncthreads();
  if (threadIdx.x == 0) finish_agreement(args, ranks_from_differing);
}

// Four blocks: where no number is named ptxas spills around the square root for 10.0.
__global__ void __launch_bounds__(kBlockThreads, 4)
    merge_rank_norms_kernel(const __grid_constant__ MergeRankNormsArgs args) {
  merge_own_segment(args);
}

}  // namespace gq::cuda

namespace gq {
namespace {

using cuda::kBlockThreads;
using cuda::Launcher;

StageError take_step(const TakeStepArgs& args) {
  return Launcher(args.stream).launch<cuda::take_step_kernel>(1, 1, args);
}

StageError write_header(const WriteHeaderArgs& args) {
  return Launcher(args.stream).launch<cuda::write_header_kernel>(1, kBlockThreads, args);
}

StageError agree(const AgreeArgs& args) {
  const uint32_t blocks = cuda::segment_blocks(args.segments);
  return Launcher(args.stream)
      .launch<cuda::agree_kernel>(blocks > 0 ? blocks : 1, kBlockThreads, args);
}

StageError merge_rank_norms(const MergeRankNormsArgs& args) {
  return Launcher(args.stream)
      .launch<cuda::merge_rank_norms_kernel>(cuda::segment_blocks(args), kBlockThreads, args);
}

}  // namespace

const AgreementStages& cuda_agreement_stages() {
  static constexpr AgreementStages kStages = {take_step, write_header, agree, merge_rank_norms};
  return kStages;
}

}  // namespace gq
