// Whether the headers of ranks are of one call, and the report of one that is not.
#ifndef GQ_KERNELS_CUDA_FUSED_AGREEMENT_CUH
#define GQ_KERNELS_CUDA_FUSED_AGREEMENT_CUH

#include "kernels/agreement.h"
#include "kernels/cuda/launch/block.cuh"

namespace gq::cuda {

/** Whether a rank's header is another one than rank 0's, or a refusal. */
GQ_DEVICE bool headers_differ(const uint32_t* reference, const uint32_t* words, uint32_t compared,
                              uint32_t status_word) {
  bool differs = words[status_word] != 0;
  GQ_UNROLL for (uint32_t k = 0; k < kAgreementWords; ++k) {
    differs |= (compared >> k & 1) != 0 && words[k] != reference[k];
  }
  return differs;
}

/** The host looks at the rest once it sees `found`. */
GQ_DEVICE void report_disagreement(uint32_t rank, const uint32_t* reference,
                                   const uint32_t* differing, volatile Disagreement* out) {
  if (out->found != 0) return;
  out->rank = rank;
  for (uint32_t k = 0; k < kAgreementWords; ++k) {
    out->reference[k] = reference[k];
    out->differing[k] = differing[k];
  }
  __threadfence_system();
  out->found = 1;
}

}  // namespace gq::cuda

#endif
