// One group after the other; in each all calls are interleaved, so that a busy moment slows all
// alike.
#include "tools/calibrate/call_times.h"

#include <gqsgd.h>

#include <algorithm>
#include <iterator>

#include "bench/machine.h"
#include "bench/perf/elements.h"
#include "bench/perf/team.h"
#include "src/api/communicator/options_string.h"
#include "src/api/quantizer/quantizer_spec.h"

namespace gq::tools {
namespace {

using bench::require;

// Exponential codes have reductions in code form for any number of ranks; linear ones with blocks
// are added wide, which only direct does.
constexpr const char* kFormats[] = {"none", "paper-ge8", "blocks-8"};
constexpr const char* kWideFormat = kFormats[2];
constexpr int32_t kSchedules[] = {GQSGD_SCHEDULE_DIRECT, GQSGD_SCHEDULE_BUTTERFLY,
                                  GQSGD_SCHEDULE_TREE, GQSGD_SCHEDULE_RING};

TimedCall call_of(const char* spec, int32_t schedule_id, int rank_count, bool travels,
                  size_t bytes) {
  TimedCall call{};
  const Status parsed = parse_quantizer(spec, &call.question.format);
  if (!parsed.ok()) throw bench::Failure(parsed.sentence());
  call.format = spec;
  call.question.schedule_id = schedule_id;
  call.question.ranks = static_cast<uint32_t>(rank_count);
  call.question.value_count = bytes / sizeof(float);
  call.question.chunk_value_count = default_chunk_value_count(!travels, call.question.ranks);
  call.question.reads_in_place = !travels;
  call.question.dtype = GQSGD_FLOAT32;
  return call;
}

}  // namespace

std::vector<TimedCall> calls_of(const CalibrateOptions& options, int rank_count, bool over_mpi) {
  std::vector<TimedCall> calls;
  for (size_t bytes = 0; bytes <= options.most_bytes; bytes = bytes == 0 ? 1024 : bytes * 4) {
    for (const char* spec : kFormats) {
      for (const int32_t schedule_id : kSchedules) {
        if (spec == kWideFormat && schedule_id != GQSGD_SCHEDULE_DIRECT) continue;
        calls.push_back(call_of(spec, schedule_id, rank_count, over_mpi, bytes));
      }
    }
    if (!over_mpi) continue;
    calls.push_back(call_of(kFormats[0], GQSGD_SCHEDULE_NATIVE, rank_count, true, bytes));
  }
  return calls;
}

CallTimer::CallTimer(const std::vector<TimedCall>& calls, int rank, int rank_count, gqsgd_comm comm)
    : calls_(calls), rank_(rank), rank_count_(rank_count), comm_(comm) {
  for (const char* spec : kFormats) {
    gqsgd_quantizer quantizer = nullptr;
    require(gqsgd_quantizer_create(spec, &quantizer), spec);
    quantizers_.push_back(quantizer);
  }
  uint64_t most = 0;
  for (const TimedCall& call : calls) most = std::max(most, call.question.value_count);
  send_.resize(most);
  recv_.resize(most);
  bench::fill_inputs(rank, most, GQSGD_FLOAT32, send_.data());
}

CallTimer::~CallTimer() {
  for (gqsgd_quantizer quantizer : quantizers_) gqsgd_quantizer_destroy(quantizer);
}

void CallTimer::run(int run_count, double* times_ns) {
  std::vector<size_t> counts;
  for (const TimedCall& call : calls_) counts.push_back(calls_in_run(call));
  for (int turn = -1; turn < run_count; ++turn) {  // the first one warms up
    for (size_t i = 0; i < calls_.size(); ++i) {
      const double time_ns = run_one(calls_[i], counts[i]);
      if (turn < 0) continue;
      const size_t place =
          (static_cast<size_t>(turn) * calls_.size() + i) * static_cast<size_t>(rank_count_);
      times_ns[place + static_cast<size_t>(rank_)] = time_ns;
    }
  }
}

void CallTimer::allreduce(gqsgd_quantizer quantizer, const float* send, float* recv,
                          size_t value_count, int32_t schedule_id) {
  gqsgd_config config = GQSGD_CONFIG_INIT;
  config.schedule = static_cast<gqsgd_schedule>(schedule_id);
  config.step_source = GQSGD_STEP_GIVEN;  // step 0, the same numbers in each run
  require(gqsgd_allreduce(comm_, quantizer, send, recv, value_count, GQSGD_FLOAT32, GQSGD_MEAN,
                          &config, nullptr),
          "an allreduce");
}

/** The same number on all ranks: by the mean of their times for one call. */
size_t CallTimer::calls_in_run(const TimedCall& call) {
  const float own_ns = static_cast<float>(run_one(call, 1));
  float mean_ns = 0;
  allreduce(quantizers_[0], &own_ns, &mean_ns, 1, GQSGD_SCHEDULE_DIRECT);
  return bench::calls_per_run(call.question.value_count * sizeof(float), mean_ns);
}

double CallTimer::run_one(const TimedCall& call, size_t count) {
  const size_t format = static_cast<size_t>(
      std::find(std::begin(kFormats), std::end(kFormats), call.format) - std::begin(kFormats));
  allreduce(quantizers_[0], nullptr, nullptr, 0, GQSGD_SCHEDULE_DIRECT);  // a barrier
  const int64_t begin = bench::now_ns();
  for (size_t i = 0; i < count; ++i) {
    allreduce(quantizers_[format], send_.data(), recv_.data(), call.question.value_count,
              call.question.schedule_id);
  }
  return static_cast<double>(bench::now_ns() - begin) / static_cast<double>(count);
}

void take_medians(const double* times_ns, int run_count, int rank_count,
                  std::vector<TimedCall>* calls) {
  const size_t ranks = static_cast<size_t>(rank_count);
  for (size_t i = 0; i < calls->size(); ++i) {
    std::vector<double> slowest;
    for (size_t turn = 0; turn < static_cast<size_t>(run_count); ++turn) {
      const double* times = times_ns + (turn * calls->size() + i) * ranks;
      slowest.push_back(*std::max_element(times, times + ranks));
    }
    (*calls)[i].time_ns = bench::median(slowest);
  }
}

std::vector<TimedCall> time_calls(const CalibrateOptions& options) {
  std::vector<TimedCall> all;
  for (const int rank_count : options.rank_counts) {
    std::vector<TimedCall> calls = calls_of(options, rank_count, false);
    const size_t ranks = static_cast<size_t>(rank_count);
    const size_t turns = static_cast<size_t>(options.run_count);
    double* times_ns =
        static_cast<double*>(bench::shared_bytes(turns * calls.size() * ranks * sizeof(double)));
    const int result =
        bench::run_team(options.ranks_are_processes, rank_count, "uncompressed=never",
                        [&](int rank, gqsgd_comm comm) {
                          CallTimer(calls, rank, rank_count, comm).run(options.run_count, times_ns);
                          return 0;
                        });
    if (result != 0) throw bench::Failure("a rank failed");
    take_medians(times_ns, options.run_count, rank_count, &calls);
    all.insert(all.end(), calls.begin(), calls.end());
  }
  return all;
}

}  // namespace gq::tools
