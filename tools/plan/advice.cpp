// Presets in the order of their errors: the first that is nearly as fast as the fastest.
#include "tools/plan/advice.h"

#include <algorithm>
#include <cinttypes>
#include <cstdio>

#include "src/api/quantizer/quantizer_spec.h"
#include "src/plan/choose.h"
#include "tools/plan/schedules.h"

namespace gq::tools {
namespace {

/** What PyTorch gives a bucket of DistributedDataParallel. */
constexpr uint64_t kBucketValues = 25 * 1024 * 1024 / sizeof(float);
/** Below that a step does not pay for a larger error. */
constexpr double kWorthWhile = 1.1;

struct Candidate {
  const char* preset;
  const char* remark;
  double call_ms = 0;  ///< all buckets, one after the other
  double step_ms = 0;
};

/** The last is named but not recommended: a loss has to be watched. */
constexpr const char* kLastResort = "rotated-4";

Status predict(const CostQuestion& question, const CostConstants& constants, double compute_ms,
               Candidate* candidate) {
  CostQuestion bucket = question;
  GQ_TRY(parse_quantizer(candidate->preset, &bucket.format));
  std::vector<double> bucket_ms;
  for (uint64_t done = 0; done < question.value_count; done += bucket.value_count) {
    bucket.value_count = std::min(kBucketValues, question.value_count - done);
    Choice choice{};
    double time_ns = 0;
    GQ_TRY(choose(bucket, constants, false, &choice, &time_ns));
    bucket_ms.push_back(time_ns * 1e-6);
    candidate->call_ms += bucket_ms.back();
  }
  // The first gradients that are ready are those of the last, incomplete bucket of the list.
  std::reverse(bucket_ms.begin(), bucket_ms.end());
  candidate->step_ms = step_ms(compute_ms, bucket_ms);
  return Status();
}

const Candidate& chosen(const std::vector<Candidate>& candidates) {
  double fastest_ms = candidates[0].step_ms;
  for (const Candidate& candidate : candidates) {
    if (candidate.preset != kLastResort) fastest_ms = std::min(fastest_ms, candidate.step_ms);
  }
  for (const Candidate& candidate : candidates) {
    if (candidate.step_ms <= kWorthWhile * fastest_ms) return candidate;
  }
  return candidates[0];
}

void print_reason(const Candidate& take, const std::vector<Candidate>& candidates,
                  double compute_ms) {
  const Candidate& plain = candidates.front();
  const Candidate& last = candidates.back();
  if (&take == &plain) {
    std::printf("\ntake none: no preset makes the step more than %.0f %% faster",
                100 * (kWorthWhile - 1));
    if (compute_ms > 0 && plain.step_ms <= kWorthWhile * compute_ms) {
      std::printf("; float32 hides behind the compute");
    }
    std::printf("\n");
    return;
  }
  std::printf(
      "\ntake %s: a step in %.3g of the time that float32 takes; presets of larger error "
      "win less than %.0f %% beyond it\n",
      take.preset, take.step_ms / plain.step_ms, 100 * (kWorthWhile - 1));
  if (last.step_ms * kWorthWhile < take.step_ms) {
    std::printf("%s would make it %.3g ms; watch the loss\n", last.preset, last.step_ms);
  }
}

}  // namespace

double step_ms(double compute_ms, const std::vector<double>& bucket_ms) {
  double end_ms = compute_ms / 3;
  for (size_t k = 0; k < bucket_ms.size(); ++k) {
    const double part = static_cast<double>(k + 1) / static_cast<double>(bucket_ms.size());
    const double ready_ms = compute_ms / 3 * (1 + 2 * part);
    end_ms = std::max(end_ms, ready_ms) + bucket_ms[k];
  }
  return std::max(end_ms, compute_ms);
}

Status print_advice(const CostQuestion& question, const CostConstants& constants,
                    double compute_ms) {
  std::vector<Candidate> candidates = {{"none", "float32, exact"},
                                       {"bf16", "16-bit floats"},
                                       {"blocks-8", "8 bits, the default"},
                                       {"rotated-4-8", "6 bits on average; dense gradients"},
                                       {kLastResort, "4 bits; dense gradients, watch the loss"}};
  for (Candidate& candidate : candidates) {
    GQ_TRY(predict(question, constants, compute_ms, &candidate));
  }
  std::printf("a training step of %" PRIu64
              " weights on %u ranks, predicted: %.4g ms of compute, "
              "links of %.4g Mbit/s, buckets of 25 MiB\n\n",
              question.value_count, question.ranks, compute_ms, 8e3 / constants.byte_ns);
  std::printf("  preset       allreduces ms    step ms  of float32\n");
  for (const Candidate& candidate : candidates) {
    std::printf("  %-12s %13.1f %10.1f %10.2fx  %s\n", candidate.preset, candidate.call_ms,
                candidate.step_ms, candidates[0].step_ms / candidate.step_ms, candidate.remark);
  }
  print_reason(chosen(candidates), candidates, compute_ms);
  std::printf(
      "\nThe codec's time is that of the constants (--costs), not a GPU's, and takes none from "
      "the compute.\nErrors: docs/PRESETS.md. The model: docs/COST.md.\n");
  return Status();
}

}  // namespace gq::tools
