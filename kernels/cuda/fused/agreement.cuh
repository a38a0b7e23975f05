// The agreement of ranks on a device: a few threads look at a few headers.
#ifndef GQ_KERNELS_CUDA_FUSED_AGREEMENT_CUH
#define GQ_KERNELS_CUDA_FUSED_AGREEMENT_CUH

#include "kernels/agreement.h"
#include "kernels/codec/global_norm.h"
#include "kernels/cuda/launch/body.cuh"
#include "kernels/stages.h"

namespace gq::cuda {

struct TakeStep : BodyDefaults {
  static constexpr uint32_t kThreads = 32;
  TakeStepArgs args;

  explicit TakeStep(const TakeStepArgs& args) : args(args) {}

  template <typename Here>
  GQ_HD void run(Interval<0>, uint32_t, uint32_t, Here local) const {
    if (local.thread != 0) return;
    volatile uint64_t* const counter = args.counter;
    const uint64_t step = *counter;
    args.step[0] = static_cast<uint32_t>(step);
    args.step[1] = 0;
    *counter = step + 1;
  }
};

struct WriteHeader : BodyDefaults {
  static constexpr uint32_t kThreads = 32;
  WriteHeaderArgs args;

  explicit WriteHeader(const WriteHeaderArgs& args) : args(args) {}

  template <typename Here>
  GQ_HD void run(Interval<0>, uint32_t, uint32_t, Here local) const {
    if (local.thread != 0) return;
    GQ_UNROLL for (uint32_t k = 0; k < kAgreementNormWord; ++k) args.header[k] = args.words[k];
    GQ_UNROLL for (uint32_t k = kAgreementReservedWord; k < kAgreementWords; ++k) {
      args.header[k] = args.words[k];
    }
    if (args.step_at != nullptr) add_step();
    if (args.keep_norm) return;
    GQ_UNROLL for (uint32_t k = kAgreementNormWord; k < kAgreementReservedWord; ++k) {
      args.header[k] = args.words[k];
    }
  }

 private:
  GQ_HD void add_step() const {
    const uint32_t index = args.step_at[1];
    args.header[args.step_word] = args.step_at[0];
    args.header[args.index_word] |= index & kIndexMax;
    if (index > kIndexMax) args.header[args.status_word] = GQSGD_INVALID_ARGUMENT;
  }
};

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

/** Threads share the comparison; norms are merged by one, in rank order. */
struct Agree : BodyDefaults {
  static constexpr uint32_t kEndIntervals = 1;
  static constexpr bool kShares = true;
  struct Shared {
    uint32_t ranks_from_differing;  ///< the first that differs, counted from the end: 0 is none
  };
  using Here = Local<Shared, Nothing>;
  AgreeArgs args;

  explicit Agree(const AgreeArgs& args) : args(args) {}

  GQ_HD void begin(Here local) const {
    if (local.thread == 0) local.shared.ranks_from_differing = 0;
  }
  GQ_HD void run(Interval<0>, uint32_t, uint32_t, Here local) const {
    for (uint32_t rank = local.thread; rank < args.ranks; rank += kThreads) {
      if (differs(rank)) raise(&local.shared.ranks_from_differing, args.ranks - rank);
    }
  }
  GQ_HD void end(Interval<0>, Here local) const {
    if (local.thread != 0) return;
    GlobalNorm norm(args.q, args.p);
    for (uint32_t rank = 0; rank < args.ranks; ++rank) {
      const uint32_t* words = header_of(rank) + kAgreementNormWord;
      norm.merge(norm.to_wire(NormWords{words[0], words[1]}));
    }
    *args.norm = norm.result();
    const uint32_t from_end = local.shared.ranks_from_differing;
    *args.gate = from_end == 0 ? kGateUndecided : kGateClosed;
    if (from_end == 0) return;
    const uint32_t rank = args.ranks - from_end;
    tell_disagreement(rank, args.headers, header_of(rank), args.disagreement);
  }

 private:
  GQ_HD const uint32_t* header_of(uint32_t rank) const {
    return args.headers + uint64_t{rank} * kAgreementWords;
  }
  GQ_HD bool differs(uint32_t rank) const {
    return headers_differ(args.headers, header_of(rank), args.compared, args.status_word);
  }
};

/** A thread for each segment; ranks in order. */
struct MergeRankNorms : BodyDefaults {
  MergeRankNormsArgs args;

  explicit MergeRankNorms(const MergeRankNormsArgs& args) : args(args) {
    iteration_count = static_cast<uint32_t>((args.segment_count + kThreads - 1) / kThreads);
  }

  template <typename Here>
  GQ_HD void run(Interval<0>, uint32_t iteration, uint32_t, Here local) const {
    const size_t segment = size_t{iteration} * kThreads + local.thread;
    if (segment >= args.segment_count) return;
    GlobalNorm norm(args.q, args.p);
    for (uint32_t rank = 0; rank < args.ranks; ++rank) {
      const auto* words =
          reinterpret_cast<const NormWords*>(args.norms + rank * args.stride_bytes) + segment;
      norm.merge(norm.to_wire(*words));
    }
    args.global[segment] = norm.result();
  }
};

}  // namespace gq::cuda

#endif
