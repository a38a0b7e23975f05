// A stage is timed on short ranges, on ranges that stay in a cache, and on ranges that come from
// memory; a field's cost is what a format with it takes more than one without.
#include "tools/calibrate/stage_costs.h"

#include <gqsgd.h>
#include <gqsgd_stages.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <exception>
#include <new>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "bench/machine.h"
#include "bench/perf/elements.h"
#include "bench/perf/team.h"

namespace gq::tools {
namespace {

using bench::require;

constexpr size_t kRangeValues = 65536;               // a chunk
constexpr size_t kStreamedValues = size_t{8} << 20;  // 32 MiB of float32 for each thread
constexpr size_t kCachedValues = size_t{512} << 10;  // beyond the caches of a single processor
constexpr size_t kShortValues = 128;                 // behind the others
constexpr size_t kAllValues = kStreamedValues + kShortValues;
constexpr uint64_t kOperands[] = {2, 4};  // of two wide sums: add is their difference

/** A format to time and, for an extra, the one that it is compared with. */
struct RowFormat {
  CostRow row;
  const char* spec;
  const char* without;
  bool reduces;  ///< has reductions in code form
  double share = 1;  ///< of the difference
};
constexpr RowFormat kRows[] = {
    {CostRow::none, "none", nullptr, true},
    {CostRow::linear8, "paper-gl8", nullptr, true},
    {CostRow::linear4, "levels=linear,bits=4,combine=exact", nullptr, true},
    {CostRow::exponential8, "paper-ge8", nullptr, true},
    {CostRow::exponential4, "paper-ge4", nullptr, true},
    {CostRow::mantissa, "levels=exponential,mantissa_bits=2", nullptr, false},
    {CostRow::bf16, "bf16", nullptr, false},
    {CostRow::fp16, "fp16", nullptr, false},
    {CostRow::adaptive, "adaptive-4", nullptr, false},
    {CostRow::rice, "rice-4", nullptr, false},
    {CostRow::planes, "adaptive-6", "adaptive-4", false, 0.5},
    {CostRow::blocks, "paper-gl8,block=128", "paper-gl8", true},
    {CostRow::correlated, "paper-gl8,rounding=correlated", "paper-gl8", false},
    {CostRow::rotated, "paper-gl8,rotate=hadamard", "paper-gl8", false},
    {CostRow::rescaled, "paper-gl8,block=128,rescale=true", "paper-gl8,block=128", false},
    {CostRow::subtractive, "paper-gl8,rounding_down=subtractive", "paper-gl8", false},
    {CostRow::averaged, "paper-gl8,combine=average", "paper-gl8", true},
};

/** One thread's buffers. */
struct Buffers {
  std::vector<float> values = std::vector<float>(kAllValues);
  std::vector<float> results = std::vector<float>(kAllValues);
  std::vector<uint32_t> words = std::vector<uint32_t>(kAllValues);
  std::vector<uint32_t> operand = std::vector<uint32_t>(kAllValues);
  std::vector<float> norms = std::vector<float>(kStreamedValues / 32, 4.0f);
  std::vector<float> unlike_norms = norms;  // of adaptive widths, which follow from them
  std::vector<float> scales = std::vector<float>(kStreamedValues / 32);
  std::vector<unsigned char> workspace = std::vector<unsigned char>(size_t{1} << 20);

  Buffers() {
    bench::fill_inputs(0, kAllValues, GQSGD_FLOAT32, values.data());
    for (size_t block = 0; block < unlike_norms.size(); ++block) {
      unlike_norms[block] *= static_cast<float>(1 << block % 3);
    }
  }
};

/** A quantizer for as long as it is needed. */
class Quantizer {
 public:
  explicit Quantizer(const char* spec)
      : adaptive_(std::string_view(spec).starts_with("adaptive")),
        grouped_(adaptive_ || std::string_view(spec).starts_with("rice")) {
    require(gqsgd_quantizer_create(spec, &handle_), spec);
  }
  ~Quantizer() { gqsgd_quantizer_destroy(handle_); }
  Quantizer(const Quantizer&) = delete;
  Quantizer& operator=(const Quantizer&) = delete;
  gqsgd_quantizer get() const { return handle_; }
  bool adaptive() const { return adaptive_; }
  /** Stages are of a whole call. */
  bool grouped() const { return grouped_; }

 private:
  gqsgd_quantizer handle_ = nullptr;
  bool adaptive_, grouped_;
};

/** Scales are the norms. */
gqsgd_status dequantize(const Quantizer& quantizer, const gqsgd_site& site, const uint32_t* words,
                        const float* norms, size_t count, float* values) {
  const gqsgd_quantizer q = quantizer.get();
  if (!quantizer.adaptive()) {
    return gqsgd_dequantize(q, &site, words, norms, count, GQSGD_FLOAT32, GQSGD_MEAN, values,
                            nullptr);
  }
  return gqsgd_dequantize_adaptive(q, &site, words, norms, norms, count, GQSGD_FLOAT32, GQSGD_MEAN,
                                   values, nullptr);
}

enum class Timed { norm, quantize, reduce, sum_of_few, sum_of_many, dequantize };

/** Codes of all ranges as calls of `ranks` ranks have them, to be operands. */
void make_operands(const Quantizer& quantizer, uint64_t ranks, Buffers& buffers) {
  const float* norms = (quantizer.adaptive() ? buffers.unlike_norms : buffers.norms).data();
  for (size_t first = 0; first < kAllValues; first += kRangeValues) {
    const gqsgd_site site{0, ranks, 0, 0, 0, quantizer.grouped() ? 0 : first, 0, 0, 0};
    const size_t count = std::min(kRangeValues, kAllValues - first);
    require(gqsgd_quantize(quantizer.get(), &site, buffers.values.data() + first, count,
                           GQSGD_FLOAT32, norms, buffers.operand.data() + first,
                           buffers.workspace.data(), buffers.workspace.size(), nullptr),
            "codes of operands");
  }
}

/** One stage on one range, a whole call where codes are of groups. Sums take the same words
 *  for all operands: it is their number that counts. */
void run_stage(Timed timed, const Quantizer& quantizer, Buffers& buffers, size_t first,
               size_t count) {
  const gqsgd_quantizer q = quantizer.get();
  const bool reduces = timed == Timed::reduce, adaptive = quantizer.adaptive();
  const uint64_t size = timed == Timed::sum_of_many ? kOperands[1] : kOperands[0];
  const uint64_t first_value = quantizer.grouped() ? 0 : first;
  const gqsgd_site site{0, size, reduces ? 1u : 0u, 0, 0, first_value, reduces ? 1u : 0u,
                        reduces, reduces};
  const float* norms = adaptive ? buffers.unlike_norms.data() : buffers.norms.data();
  float* values = buffers.values.data() + first;
  uint32_t* words = buffers.words.data() + first;
  const uint32_t* operands[kOperands[1]];
  std::fill(std::begin(operands), std::end(operands), buffers.operand.data() + first);
  void* workspace = buffers.workspace.data();
  const size_t workspace_bytes = buffers.workspace.size();
  gqsgd_status status = GQSGD_OK;
  switch (timed) {
    case Timed::norm:
      status = gqsgd_norm(q, &site, values, count, GQSGD_FLOAT32, buffers.scales.data(), workspace,
                          workspace_bytes, nullptr);
      break;
    case Timed::quantize:
      status = gqsgd_quantize(q, &site, values, count, GQSGD_FLOAT32, norms, words, workspace,
                              workspace_bytes, nullptr);
      break;
    case Timed::reduce:
      status = gqsgd_reduce(q, &site, operands[0], words, count, nullptr);
      break;
    case Timed::sum_of_few:
    case Timed::sum_of_many:
      status = gqsgd_reduce_many(q, &site, operands, count, norms, words, buffers.scales.data(),
                                 workspace, workspace_bytes, nullptr);
      break;
    case Timed::dequantize:
      status = dequantize(quantizer, site, words, norms, count, buffers.results.data() + first);
      break;
  }
  require(status, "a stage");
}

/** Nanoseconds of `run`, which repeats itself until a clock can see it: the least of some runs. */
template <typename Run>
double least_ns(std::barrier<>& together, int run_count, int repeats, const Run& run) {
  double least = 1e18;
  for (int turn = 0; turn <= run_count; ++turn) {  // the first one warms up
    together.arrive_and_wait();
    const int64_t begin = bench::now_ns();
    for (int i = 0; i < repeats; ++i) run();
    const int64_t end = bench::now_ns();
    if (turn > 0) least = std::min(least, static_cast<double>(end - begin) / repeats);
  }
  return least;
}

StageCost time_stage(Timed timed, const Quantizer& q, Buffers& buffers, std::barrier<>& together,
                     int run_count) {
  const double brief_ns = least_ns(together, run_count, 200, [&] {
    run_stage(timed, q, buffers, kStreamedValues, kShortValues);
  });
  const auto sweep = [&](size_t value_count) {
    return least_ns(together, run_count, 1, [&] {
      for (size_t first = 0; first < value_count; first += kRangeValues) {
        run_stage(timed, q, buffers, first, kRangeValues);
      }
    });
  };
  const double cached_ns = sweep(kCachedValues);
  const double streamed_ns = sweep(kStreamedValues);
  StageCost cost{};
  cost.cached = cached_ns / kCachedValues;
  cost.range = std::max(0.0, brief_ns - cost.cached * kShortValues);
  cost.streamed = std::max(cost.cached, streamed_ns / kStreamedValues);
  return cost;
}

/** a - b, nothing below zero. */
StageCost excess(const StageCost& a, const StageCost& b, double share) {
  return {std::max(0.0, a.cached - b.cached) * share,
          std::max(0.0, a.streamed - b.streamed) * share, std::max(0.0, a.range - b.range) * share};
}

struct FormatCost {
  StageCost stages[kCostStageCount] = {};
  StageCost& of(CostStage stage) { return stages[static_cast<size_t>(stage)]; }
};

bool without_norm(std::string_view spec) {
  return spec == "none" || spec == "bf16" || spec == "fp16" || spec == "rice-4";
}

FormatCost time_format(const char* spec, bool reduces, Buffers& buffers, std::barrier<>& together,
                       int run_count) {
  const Quantizer q(spec);
  const bool plain = without_norm(spec);
  const auto time = [&](Timed timed) {
    return time_stage(timed, q, buffers, together, run_count);
  };
  FormatCost cost;
  if (!plain) cost.of(CostStage::norm) = time(Timed::norm);
  cost.of(CostStage::quantize) = time(Timed::quantize);
  make_operands(q, kOperands[1], buffers);
  const StageCost sum_of_many = time(Timed::sum_of_many);
  make_operands(q, kOperands[0], buffers);
  cost.of(CostStage::sum) = time(Timed::sum_of_few);
  cost.of(CostStage::add) =
      excess(sum_of_many, cost.of(CostStage::sum), 1.0 / (kOperands[1] - kOperands[0]));
  cost.of(CostStage::dequantize) = time(Timed::dequantize);  // of these sums
  // Last: sums of sums are no codes that another stage takes.
  if (reduces) cost.of(CostStage::reduce) = time(Timed::reduce);
  return cost;
}

/** All rows on one thread, until another one has failed; all threads do the same at the same time.
 */
void time_rows(std::barrier<>& together, int run_count, const std::atomic<bool>& failed,
               CostConstants* constants) {
  Buffers buffers;
  for (const RowFormat& one : kRows) {
    if (failed) return;
    FormatCost with = time_format(one.spec, one.reduces, buffers, together, run_count);
    FormatCost without;
    if (one.without != nullptr) {
      without = time_format(one.without, one.reduces, buffers, together, run_count);
    }
    for (size_t stage = 0; stage < kCostStageCount; ++stage) {
      constants->stages[static_cast<size_t>(one.row)][stage] =
          excess(with.stages[stage], without.stages[stage], one.share);
    }
  }
}

}  // namespace

void measure_stages(int thread_count, int run_count, CostConstants* constants) {
  std::barrier<> together(thread_count);
  std::vector<CostConstants> measured(static_cast<size_t>(thread_count), *constants);
  std::vector<std::string> failures(measured.size());
  std::atomic<bool> failed = false;
  std::vector<std::thread> threads;
  for (size_t k = 0; k < measured.size(); ++k) {
    threads.emplace_back([&, k] {
      try {
        time_rows(together, run_count, failed, &measured[k]);
      } catch (const std::bad_alloc&) {
        failures[k] = "no memory to time stages: 140 MB on each of " +
                      std::to_string(thread_count) + " processors";
      } catch (const std::exception& error) {
        failures[k] = error.what();
      }
      if (!failures[k].empty()) failed = true;
      together.arrive_and_drop();  // no other thread waits for this one
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::string& failure : failures) {
    if (!failure.empty()) throw bench::Failure(failure);
  }
  *constants = measured[0];
}

}  // namespace gq::tools
