// Candidates in the order of their errors: the first that is nearly as fast as the fastest.
#include "tools/plan/advice.h"

#include <algorithm>
#include <cstdio>
#include <string>
#include <string_view>

#include "src/api/quantizer/quantizer_spec.h"
#include "src/plan/choose.h"
#include "src/schedule/nodes.h"
#include "tools/plan/schedules.h"

namespace gq::tools {
namespace {

/** What PyTorch gives the first bucket of DistributedDataParallel, and the others. */
constexpr uint64_t kFirstBucketValues = 1024 * 1024 / sizeof(float);
constexpr uint64_t kBucketValues = 25 * kFirstBucketValues;
/** Below that a step does not pay for a larger error. */
constexpr double kWorthWhile = 1.1;
/** Floats of half the bytes, without this library. */
constexpr std::string_view kFp16Hook = "fp16-hook";

struct Candidate {
  std::string_view name;  ///< a preset, or kFp16Hook
  const char* remark;
  bool is_last_resort = false;  ///< named but not recommended: a loss has to be watched
  double call_ms = 0;           ///< all buckets, one after the other
  double step_ms = 0;
};

std::vector<Candidate> candidates_for(const CostQuestion& question) {
  std::vector<Candidate> candidates = {
      {"none", "float32, exact"},
      {kFp16Hook, "PyTorch's own 16 bits, without this library"},
      {"bf16", "16-bit floats, sums in float32"},
      {"blocks-8", "8 bits, the default"},
      {"rice-6", "6 bits, as many as each number takes"},
      {"adaptive-6", "6 bits, more where gradients are large"},
      {"rice-5", "5 bits, as many as each number takes"},
      {"adaptive-5", "5 bits, more where gradients are large"},
      {"rotated-4-8", "6 bits on average; dense gradients"},
      {"rice-4", "4 bits, as many as each number takes"},
      {"rotated-4", "4 bits, dense gradients; watch the loss", true},
      {"adaptive-4", "4 bits; watch the loss", true},
      {"rice-3", "3 bits; watch the loss", true},
      {"adaptive-3", "3 bits; watch the loss", true}};
  if (question.on_device) {
    std::erase_if(candidates, [](const Candidate& candidate) { return candidate.name == "bf16"; });
  }
  return candidates;
}

Status predict(const CostQuestion& question, const CostConstants& constants, double compute_ms,
               Candidate* candidate) {
  CostQuestion call = question;
  const bool halves = candidate->name == kFp16Hook;
  GQ_TRY(parse_quantizer(halves ? "none" : candidate->name.data(), &call.format));
  std::vector<Bucket> buckets = buckets_of(question.value_count);
  double time_ns = 0;
  for (Bucket& bucket : buckets) {
    const uint64_t value_count = halves ? (bucket.value_count + 1) / 2 : bucket.value_count;
    const bool is_like_the_last = &bucket != buckets.data() && value_count == call.value_count;
    call.value_count = value_count;
    Choice choice{};
    if (!is_like_the_last) GQ_TRY(choose(call, constants, false, &choice, &time_ns));
    bucket.call_ms = time_ns * 1e-6;
    candidate->call_ms += bucket.call_ms;
  }
  candidate->step_ms = step_ms(compute_ms, buckets);
  return Status();
}

const Candidate& chosen(const std::vector<Candidate>& candidates) {
  double fastest_ms = candidates[0].step_ms;
  for (const Candidate& candidate : candidates) {
    if (!candidate.is_last_resort) fastest_ms = std::min(fastest_ms, candidate.step_ms);
  }
  for (const Candidate& candidate : candidates) {
    if (candidate.step_ms <= kWorthWhile * fastest_ms) return candidate;
  }
  return candidates[0];
}

const Candidate& fastest(const std::vector<Candidate>& candidates) {
  return *std::min_element(
      candidates.begin(), candidates.end(),
      [](const Candidate& a, const Candidate& b) { return a.step_ms < b.step_ms; });
}

Status predict_all(const CostQuestion& question, const CostConstants& constants, double compute_ms,
                   std::vector<Candidate>* candidates) {
  for (Candidate& candidate : *candidates) {
    GQ_TRY(predict(question, constants, compute_ms, &candidate));
  }
  return Status();
}

/** The same machine with half a processor for each rank, or half of what `constants` have. */
CostConstants with_half_the_processors(const CostQuestion& question, CostConstants constants) {
  const bool alike = question.nodes == nullptr || question.nodes->is_flat();
  const double neighbours = alike ? question.ranks : question.nodes->part_count();
  const double cpus = constants.cpus > 0 ? std::min(constants.cpus, neighbours) : neighbours;
  constants.cpus = cpus / 2;
  return constants;
}

void print_line(const char* name, const std::string& value, bool given, const char* option) {
  std::printf("  %-8s %s%s%s\n", name, value.c_str(), given ? "" : ", not given: ",
              given ? "" : option);
}

std::string shown(const char* unit, double number) {
  char text[64];
  std::snprintf(text, sizeof text, "%.9g%s", number, unit);
  return text;
}

/** What the advice is about; each line that the user did not give says how to give it. */
void print_question(const PlanOptions& options, const CostQuestion& question,
                    const CostConstants& constants) {
  const bool costs_given = !options.costs_path.empty();
  std::printf("a training step, predicted, with the buckets of PyTorch\n");
  print_line("weights:", std::to_string(question.value_count), options.value_count_given,
             "--count N, the parameters of the model");
  print_line("ranks:", std::to_string(question.ranks), options.ranks_given, "--ranks N");
  const double byte_ns = link_byte_ns(question, constants);
  print_line("link:",
             byte_ns > 0 ? shown(" Mbit/s out of a rank", 8e3 / byte_ns) : "no time for bytes",
             options.bits_per_s > 0 || costs_given, "--rate RATE, such as 1gbit");
  print_line("compute:", shown(" ms", options.compute_ms), options.compute_given,
             "--compute MS of a training step's own time");
  const char* built_in =
      question.on_device ? "an H100 for each rank" : "a processor with AVX2 for each rank";
  print_line("codec:", costs_given ? "costs of " + options.costs_path : built_in, costs_given,
             question.on_device ? "--costs, a file of constants that you measured"
                                : "--costs, by gqsgd-calibrate or Python's comm.costs");
}

void print_table(const std::vector<Candidate>& candidates) {
  std::printf("\n  preset       allreduces ms    step ms    speed-up\n");
  for (const Candidate& candidate : candidates) {
    std::printf("  %-12s %13.1f %10.1f %10.2fx  %s\n", candidate.name.data(), candidate.call_ms,
                candidate.step_ms, candidates[0].step_ms / candidate.step_ms, candidate.remark);
  }
}

void print_reason(const Candidate& take, const std::vector<Candidate>& candidates,
                  const PlanOptions& options) {
  const Candidate& plain = candidates.front();
  const double percent = 100 * (kWorthWhile - 1);
  if (&take == &plain) {
    std::printf(
        "\ntake none: a step of %.4g ms; what needs no watching of the loss makes it at most %.0f "
        "%% "
        "faster",
        plain.step_ms, percent);
    if (options.compute_ms > 0 && plain.step_ms <= kWorthWhile * options.compute_ms) {
      std::printf("; float32 hides behind the compute");
    }
    std::printf("\n");
  } else {
    std::printf(
        "\ntake %s: a step of %.4g ms, %.2fx faster than float32; a larger error that needs no "
        "watching of the loss wins at most %.0f %% beyond it\n",
        take.name.data(), take.step_ms, plain.step_ms / take.step_ms, percent);
  }
  if (take.name == kFp16Hook) std::printf("it is PyTorch's fp16_compress_hook: no library\n");
  if (take.name.starts_with("rice")) {
    std::printf(
        "Rice codes leave little of layers whose gradients are 100 times smaller than others' of "
        "their bucket: watch the loss then, or take blocks-8\n");
  }
  const Candidate& last = fastest(candidates);
  if (last.is_last_resort && last.step_ms * kWorthWhile < take.step_ms) {
    std::printf("%s would make it %.4g ms; watch the loss\n", last.name.data(), last.step_ms);
  }
  if (!options.compute_given) {
    std::printf("without --compute these are the allreduces alone: a step gains less\n");
  }
}

/** Codes that take long to make are the right ones only where a processor is free for them. */
Status print_sensitivity(const CostQuestion& question, const CostConstants& constants,
                         double compute_ms, const Candidate& take) {
  std::vector<Candidate> candidates = candidates_for(question);
  const CostConstants half = with_half_the_processors(question, constants);
  GQ_TRY(predict_all(question, half, compute_ms, &candidates));
  const Candidate& other = chosen(candidates);
  if (other.name == take.name) return Status();
  std::printf("if the compute leaves a rank half as much processor, take %s: a step of %.4g ms\n",
              other.name.data(), other.step_ms);
  return Status();
}

}  // namespace

std::vector<Bucket> buckets_of(uint64_t value_count) {
  std::vector<Bucket> buckets;
  for (uint64_t done = 0; done < value_count; done += buckets.back().value_count) {
    const uint64_t most = buckets.empty() ? kFirstBucketValues : kBucketValues;
    buckets.push_back({std::min(most, value_count - done)});
  }
  return buckets;
}

double step_ms(double compute_ms, const std::vector<Bucket>& buckets) {
  uint64_t value_count = 0;
  for (const Bucket& bucket : buckets) value_count += bucket.value_count;
  double end_ms = compute_ms / 3;
  uint64_t ready = 0;
  for (const Bucket& bucket : buckets) {
    ready += bucket.value_count;
    const double part = static_cast<double>(ready) / static_cast<double>(value_count);
    const double ready_ms = compute_ms / 3 * (1 + 2 * part);
    end_ms = std::max(end_ms, ready_ms) + bucket.call_ms;
  }
  return std::max(end_ms, compute_ms);
}

Status print_advice(const PlanOptions& options, const CostQuestion& question,
                    const CostConstants& constants) {
  if (question.ranks == 1 || question.value_count == 0) {
    std::puts(question.ranks == 1 ? "take none: a group of one rank sends nothing (--ranks N)"
                                  : "take none: a model of no weights sends nothing (--count N)");
    return Status();
  }
  std::vector<Candidate> candidates = candidates_for(question);
  GQ_TRY(predict_all(question, constants, options.compute_ms, &candidates));
  print_question(options, question, constants);
  print_table(candidates);
  const Candidate& take = chosen(candidates);
  print_reason(take, candidates, options);
  if (!question.on_device) {
    GQ_TRY(print_sensitivity(question, constants, options.compute_ms, take));
  }
  std::printf(
      "\nThe codec takes none of the compute's time. Largest network trained: 6 million weights\n"
      "(docs/results/evidence.md). Errors: docs/PRESETS.md. The model: docs/COST.md.\n");
  return Status();
}

}  // namespace gq::tools
