// How a size is measured: every contender is checked once, then all are interleaved in every run.
#include "bench/perf/measure.h"

#include <gqsgd_model.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <thread>

#include "bench/machine.h"
#include "bench/perf/elements.h"
#include "bench/perf/team.h"

namespace gq::bench {
namespace {

constexpr uint64_t kCheckedStep = 1, kCheckedIndex = 0;

/** The counter's step. */
gqsgd_config timed_config(int32_t schedule) {
  gqsgd_config config = GQSGD_CONFIG_INIT;
  config.schedule = static_cast<gqsgd_schedule>(schedule);
  return config;
}

gqsgd_config checked_config(int32_t schedule) {
  gqsgd_config config = timed_config(schedule);
  config.step_source = GQSGD_STEP_GIVEN;
  config.step = kCheckedStep;
  config.index = kCheckedIndex;
  return config;
}

/** Sums in place grow by the number of ranks in each call, so inputs are restored before they
 *  overflow. */
constexpr size_t kCallsInPlace = 8;

/** Float32 sums, and narrower outputs of them, are not further off. */
constexpr double kFloatSumNmseMax = 1e-4;

/** Squared error of a result over the square of the exact one, in float64. */
double nmse_of(const void* result, size_t value_count, int32_t op, const Options& options) {
  double error = 0, square = 0;
  for (size_t e = 0; e < value_count; ++e) {
    double exact = 0;
    for (int rank = 0; rank < options.rank_count; ++rank) exact += input_value(rank, e);
    if (op == GQSGD_MEAN) exact /= options.rank_count;
    const double difference = value_at(result, e, options.dtype.number) - exact;
    error += difference * difference;
    square += exact * exact;
  }
  return square > 0 ? error / square : 0;
}

}  // namespace

Measurement::Measurement(const Options& options, Peers& peers) : options_(options), peers_(peers) {
  for (const std::string& format : options.formats) {
    gqsgd_quantizer quantizer = nullptr;
    require(gqsgd_quantizer_create(format.c_str(), &quantizer), format.c_str());
    quantizers_.push_back(quantizer);
  }
  for (const Choice& schedule : options.schedules) {
    for (size_t f = 0; f < quantizers_.size(); ++f) {
      const Contender contender{quantizers_[f], options.formats[f], schedule};
      if (goes_together(contender)) contenders_.push_back(contender);
    }
  }
  const std::string foreign = peers.foreign_name(options.dtype.number);
  if (!foreign.empty()) contenders_.push_back({nullptr, foreign, {"-", -1}});
}

/** Formats with a re-encode go with direct alone; says so where one is left out. */
bool Measurement::goes_together(const Contender& contender) const {
  double factor = 0;
  const gqsgd_status status =
      gqsgd_depth_factor(contender.quantizer, options_.rank_count,
                         timed_config(contender.schedule.number).schedule, &factor);
  if (status == GQSGD_OK) return true;
  if (peers_.rank() == 0) {
    std::printf("# %s is not timed with schedule %s: %s\n", contender.format.c_str(),
                contender.schedule.name.c_str(), gqsgd_last_error());
  }
  return false;
}

Measurement::~Measurement() {
  for (gqsgd_quantizer quantizer : quantizers_) gqsgd_quantizer_destroy(quantizer);
}

void Measurement::call(const Contender& contender, const void* send, const gqsgd_config& config) {
  if (contender.quantizer == nullptr) {
    peers_.foreign_sum(send, output_.data(), value_count_, options_.dtype.number);
    return;
  }
  require(gqsgd_allreduce(peers_.comm(), contender.quantizer, send, output_.data(), value_count_,
                          static_cast<gqsgd_dtype>(options_.dtype.number),
                          static_cast<gqsgd_op>(options_.op.number), &config, nullptr),
          contender.format.c_str());
}

/** One call, for its result. */
void Measurement::call_once(const Contender& contender, bool in_place) {
  if (in_place) output_ = input_;
  call(contender, in_place ? output_.data() : input_.data(),
       checked_config(contender.schedule.number));
}

/** Calls that a run of it makes, the same number on all ranks, by the time of one. */
size_t Measurement::calls_in_run(const Contender& contender) {
  peers_.barrier();
  const int64_t begin = now_ns();
  call_once(contender, false);
  const double all_ns = peers_.sum(static_cast<double>(now_ns() - begin));
  return calls_per_run(input_.size(), all_ns / static_cast<double>(options_.rank_count));
}

/** Microseconds of one of the calls that follow a barrier. */
double Measurement::run(const Contender& contender, bool in_place) {
  size_t call_count = contender.call_count;
  if (in_place) {
    call_count = std::min(call_count, kCallsInPlace);
    if (in_place_call_count_ + call_count > kCallsInPlace) {
      output_ = input_;
      in_place_call_count_ = 0;
    }
    in_place_call_count_ += call_count;
  }
  const void* send = in_place ? output_.data() : input_.data();
  const gqsgd_config config = timed_config(contender.schedule.number);
  peers_.barrier();
  const int64_t begin = now_ns();
  for (size_t i = 0; i < call_count; ++i) call(contender, send, config);
  return static_cast<double>(now_ns() - begin) * 1e-3 / static_cast<double>(call_count);
}

uint64_t Measurement::stat(const char* name) {
  uint64_t value = 0;
  require(gqsgd_comm_stat(peers_.comm(), name, &value), name);
  return value;
}

/** Rank 0 simulates all ranks: the bits that each of them has to show. */
void Measurement::expect(const Contender& contender, Row* row) {
  expected_.resize(row->size_bytes);
  if (peers_.rank() == 0) {
    const size_t size = row->size_bytes, ranks = options_.rank_count;
    std::vector<unsigned char> inputs(size * ranks);
    std::vector<const void*> send;
    std::vector<void*> recv(ranks, nullptr);
    recv[0] = expected_.data();
    for (size_t rank = 0; rank < ranks; ++rank) {
      unsigned char* values = inputs.data() + rank * size;
      fill_inputs(static_cast<int>(rank), value_count_, options_.dtype.number, values);
      send.push_back(values);
    }
    const gqsgd_config config = checked_config(contender.schedule.number);
    require(gqsgd_simulate(contender.quantizer, options_.rank_count, send.data(), recv.data(),
                           value_count_, static_cast<gqsgd_dtype>(options_.dtype.number),
                           static_cast<gqsgd_op>(options_.op.number), &config,
                           options_.comm_options.c_str()),
            "gqsgd_simulate");
    row->nmse = nmse_of(expected_.data(), value_count_, options_.op.number, options_);
  }
  peers_.spread(&expected_);
}

/** Values of this rank's result, over all ranks, that are not the expected ones. */
uint64_t Measurement::wrong_count() {
  const size_t element = element_bytes(options_.dtype.number);
  uint64_t wrong = 0;
  for (size_t first = 0; first < output_.size(); first += element) {
    wrong += std::memcmp(&output_[first], &expected_[first], element) != 0;
  }
  return static_cast<uint64_t>(peers_.sum(static_cast<double>(wrong)));
}

/** Its bits are its own: only its error is looked at. */
void Measurement::judge_foreign(const Contender& contender, Row* row) {
  call_once(contender, false);
  if (peers_.rank() == 0) row->nmse = nmse_of(output_.data(), value_count_, GQSGD_SUM, options_);
}

/** Floats added by the transport: rank 0's bits are those of all ranks, and those of a float32
 *  sum. */
uint64_t Measurement::wrong_float_sums(Row* row) {
  expected_.assign(output_.begin(), output_.end());
  peers_.spread(&expected_);
  const uint64_t differing = wrong_count();
  if (peers_.rank() != 0) return differing;
  row->nmse = nmse_of(output_.data(), value_count_, options_.op.number, options_);
  return row->nmse <= kFloatSumNmseMax ? differing : value_count_;
}

void Measurement::check(const Contender& contender, Row* row) {
  if (contender.quantizer == nullptr) return judge_foreign(contender, row);
  const uint64_t native_before = stat("native_float_calls");
  call_once(contender, false);
  const bool is_native = stat("native_float_calls") != native_before;
  if (!is_native) expect(contender, row);
  row->out_of_place.wrong_count = is_native ? wrong_float_sums(row) : wrong_count();
  call_once(contender, true);
  row->in_place.wrong_count = is_native ? wrong_float_sums(row) : wrong_count();
}

void Measurement::time_all(bool in_place, std::vector<Row>* rows) {
  for (int warmup = 0; warmup < options_.warmup_count; ++warmup) {
    for (const Contender& contender : contenders_) run(contender, in_place);
  }
  std::vector<std::vector<double>> times_us(contenders_.size());
  for (int turn = 0; turn < options_.run_count; ++turn) {
    std::this_thread::sleep_for(std::chrono::milliseconds(options_.pause_ms));
    for (size_t c = 0; c < contenders_.size(); ++c) {
      times_us[c].push_back(run(contenders_[c], in_place));
    }
  }
  for (size_t c = 0; c < contenders_.size(); ++c) {
    peers_.most(&times_us[c]);
    Row& row = (*rows)[c];
    Timing& timing = in_place ? row.in_place : row.out_of_place;
    timing.time_us = median(times_us[c]);
    timing.runs_us = times_us[c];
  }
}

std::vector<Row> Measurement::measure(size_t size_bytes) {
  value_count_ = size_bytes / element_bytes(options_.dtype.number);
  input_.resize(size_bytes);
  output_.resize(size_bytes);
  fill_inputs(peers_.rank(), value_count_, options_.dtype.number, input_.data());
  std::vector<Row> rows;
  for (Contender& contender : contenders_) {
    rows.push_back({size_bytes, value_count_, contender.format, contender.schedule.name, {}, {}});
    const uint64_t before = stat("payload_bytes_sent");
    call_once(contender, false);
    std::vector<double> sent = {static_cast<double>(stat("payload_bytes_sent") - before)};
    peers_.most(&sent);
    rows.back().wire_bytes = static_cast<uint64_t>(sent[0]);
    if (options_.check) check(contender, &rows.back());
    contender.call_count = calls_in_run(contender);
  }
  in_place_call_count_ = kCallsInPlace;
  time_all(false, &rows);
  time_all(true, &rows);
  return rows;
}

}  // namespace gq::bench
