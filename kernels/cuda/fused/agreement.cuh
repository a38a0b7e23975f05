// The agreement of ranks on a device: a few threads look at a few headers.
#ifndef GQ_KERNELS_CUDA_FUSED_AGREEMENT_CUH
#define GQ_KERNELS_CUDA_FUSED_AGREEMENT_CUH

#include "kernels/agreement.h"
#include "kernels/codec/global_norm.h"
#include "kernels/stages.h"

namespace gq::cuda {

GQ_HD void take_step(const TakeStepArgs& args) {
  volatile uint64_t* const counter = args.counter;
  const uint64_t step = *counter;
  args.step[0] = static_cast<uint32_t>(step);
  args.step[1] = 0;
  *counter = step + 1;
}

GQ_HD void write_header(const WriteHeaderArgs& args) {
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

/** Whether a rank's header is another one than rank 0's, or a refusal. */
GQ_HD bool headers_differ(const uint32_t* reference, const uint32_t* words, uint32_t compared,
                          uint32_t status_word) {
  bool differs = words[status_word] != 0;
  GQ_UNROLL for (uint32_t k = 0; k < kAgreementWords; ++k) {
    differs |= (compared >> k & 1) != 0 && words[k] != reference[k];
  }
  return differs;
}

/** The host looks at the rest once it sees `found`. */
GQ_HD void tell_disagreement(uint32_t rank, const uint32_t* reference, const uint32_t* differing,
                             volatile Disagreement* out) {
  if (out->found != 0) return;
  out->rank = rank;
  for (uint32_t k = 0; k < kAgreementWords; ++k) {
    out->reference[k] = reference[k];
    out->differing[k] = differing[k];
  }
#if defined(__CUDA_ARCH__)
  __threadfence_system();
#endif
  out->found = 1;
}

GQ_HD const uint32_t* header_of(const AgreeArgs& args, uint32_t rank) {
  return args.headers + rank * args.stride_words;
}

/** ranks_from_differing: the first rank that differs, counted from the end; 0 is none. Norms are
 *  merged in rank order. */
GQ_HD void finish_agreement(const AgreeArgs& args, uint32_t ranks_from_differing) {
  GlobalNorm norm(args.q, args.p);
  for (uint32_t rank = 0; rank < args.ranks; ++rank) {
    const uint32_t* words = header_of(args, rank) + kAgreementNormWord;
    norm.merge(norm.to_wire(NormWords{words[0], words[1]}));
  }
  *args.norm = norm.result();
  *args.gate = ranks_from_differing == 0 ? kGateUndecided : kGateClosed;
  if (ranks_from_differing == 0) return;
  const uint32_t rank = args.ranks - ranks_from_differing;
  tell_disagreement(rank, args.headers, header_of(args, rank), args.disagreement);
}

GQ_HD void merge_rank_norms(const MergeRankNormsArgs& args, size_t segment) {
  GlobalNorm norm(args.q, args.p);
  for (uint32_t rank = 0; rank < args.ranks; ++rank) {
    const auto* words =
        reinterpret_cast<const NormWords*>(args.norms + rank * args.stride_bytes) + segment;
    norm.merge(norm.to_wire(*words));
  }
  args.global[segment] = norm.result();
}

}  // namespace gq::cuda

#endif
