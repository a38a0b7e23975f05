#include "tests/support/host_device/host_agreement.h"

#include <algorithm>
#include <atomic>

#include "kernels/codec/global_norm.h"
#include "kernels/stages.h"

namespace gq::test {

void take_step(const TakeStepArgs& args) {
  const uint64_t step = std::atomic_ref<uint64_t>(*args.counter).fetch_add(1);
  args.step[0] = static_cast<uint32_t>(step);
  args.step[1] = 0;
}

void write_header(const WriteHeaderArgs& args) {
  for (uint32_t k = 0; k < kAgreementWords; ++k) {
    const bool is_norm = k >= kAgreementNormWord && k < kAgreementReservedWord;
    if (!is_norm || !args.keep_norm) args.header[k] = args.words[k];
  }
  std::fill_n(args.cleared, args.cleared_count, 0);
  if (args.step_at == nullptr) return;
  const uint32_t index = args.step_at[1];
  args.header[args.step_word] = args.step_at[0];
  args.header[args.index_word] |= index & kIndexMax;
  if (index > kIndexMax) args.header[args.status_word] = GQSGD_INVALID_ARGUMENT;
}

bool headers_differ(const uint32_t* reference, const uint32_t* header, uint32_t compared,
                    uint32_t status_word) {
  for (uint32_t k = 0; k < kAgreementWords; ++k) {
    if ((compared >> k & 1) != 0 && header[k] != reference[k]) return true;
  }
  return header[status_word] != 0;
}

void report_difference(uint32_t rank, const uint32_t* reference, const uint32_t* differing,
                       Disagreement* out) {
  const std::atomic_ref<uint32_t> found(out->found);
  if (found.load() != 0) return;
  out->rank = rank;
  std::copy_n(reference, kAgreementWords, out->reference);
  std::copy_n(differing, kAgreementWords, out->differing);
  found.store(1);
}

void agree(const AgreeArgs& args) {
  const auto header_of = [&](uint32_t rank) { return args.headers + rank * args.stride_words; };
  uint32_t differing = 0;
  while (differing < args.ranks &&
         !headers_differ(args.headers, header_of(differing), args.compared, args.status_word)) {
    ++differing;
  }
  GlobalNorm norm(args.q, args.p);
  for (uint32_t rank = 0; rank < args.ranks; ++rank) {
    const uint32_t* const words = header_of(rank) + kAgreementNormWord;
    norm.merge(norm.to_wire(NormWords{words[0], words[1]}));
  }
  *args.norm = norm.result();
  *args.gate = differing == args.ranks ? kGateUndecided : kGateClosed;
  if (differing < args.ranks) {
    report_difference(differing, args.headers, header_of(differing), args.disagreement);
  }
  merge_rank_norms(args.segments);
}

void merge_rank_norms(const MergeRankNormsArgs& args) {
  for (size_t segment = 0; segment < args.segment_count; ++segment) {
    GlobalNorm norm(args.q, args.p);
    for (uint32_t rank = 0; rank < args.ranks; ++rank) {
      const unsigned char* const norms = args.norms + rank * args.stride_bytes;
      norm.merge(norm.to_wire(reinterpret_cast<const NormWords*>(norms)[segment]));
    }
    args.global[segment] = norm.result();
  }
}

}  // namespace gq::test
