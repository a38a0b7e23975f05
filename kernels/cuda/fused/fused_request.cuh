// Whether all ranks make the same call, which their kernels find out themselves.
#ifndef GQ_KERNELS_CUDA_FUSED_FUSED_REQUEST_CUH
#define GQ_KERNELS_CUDA_FUSED_FUSED_REQUEST_CUH

#include "kernels/codec/random.h"
#include "kernels/cuda/fused/agreement.cuh"
#include "kernels/fused.h"

namespace gq::cuda {

/** One rank's call. Its digest is exchanged at a barrier; headers are compared where one
 *  differs. */
struct Request {
  FusedRequest request;
  const uint32_t* step_at;
  uint32_t step;
  uint32_t index;

  explicit Request(const FusedArgs& args)
      : request(args.request),
        step_at(args.random.step_at),
        step(args.random.step),
        index(args.random.index) {}

  GQ_DEVICE uint32_t step_now() const {
    return step_at == nullptr ? step : read_volatile(step_at);
  }
  GQ_DEVICE uint32_t index_now() const {
    return step_at == nullptr ? index : read_volatile(step_at + 1);
  }
  GQ_DEVICE bool is_refused() const { return index_now() > kIndexMax; }

  /** Another one than that of any call that is not refused. */
  GQ_DEVICE uint32_t digest() const {
    const uint32_t digest = digest_with(request.digest, step_now(), index_now());
    return is_refused() ? ~digest : digest;
  }

  /** By as many threads as a header has words. */
  GQ_DEVICE void show(uint32_t thread, uint32_t* header) const {
    if (thread >= kAgreementWords) return;
    uint32_t word = request.words[thread];
    if (thread == request.step_word) word = step_now();
    if (thread == request.index_word) word = (word & ~kIndexMax) | (index_now() & kIndexMax);
    if (thread == request.status_word && is_refused()) word = GQSGD_INVALID_ARGUMENT;
    header[thread] = word;
  }

  /** As the agreement of a device does: the first rank that differs from rank 0, or refuses. */
  GQ_DEVICE void report_difference(FusedBuffers* const* buffers, uint32_t ranks) const {
    const uint32_t* const reference = buffers[0]->control.header;
    for (uint32_t rank = 0; rank < ranks; ++rank) {
      const uint32_t* const header = buffers[rank]->control.header;
      if (!headers_differ(reference, header, request.compared, request.status_word)) continue;
      return report_disagreement(rank, reference, header, request.disagreement);
    }
  }
};

}  // namespace gq::cuda

#endif
