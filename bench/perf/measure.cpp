// How a size is measured: every contender is checked once, then all take turns in every run.
#include "bench/perf/measure.h"

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "bench/machine.h"
#include "bench/perf/elements.h"
#include "bench/perf/team.h"

namespace gq::bench {
namespace {

constexpr uint64_t kCheckedAt[2] = {1, 0};

/** Sums in place grow by the number of ranks in each run, so inputs are restored before they
 *  overflow. */
constexpr size_t kRunsInPlace = 8;

/** Squared error of a result over the square of the exact one, in float64. */
double nmse_of(const void* result, size_t value_count, const Options& options) {
  double error = 0, square = 0;
  for (size_t e = 0; e < value_count; ++e) {
    double exact = 0;
    for (int rank = 0; rank < options.rank_count; ++rank) exact += input_value(rank, e);
    if (options.op.number == GQSGD_MEAN) exact /= options.rank_count;
    const double difference = value_at(result, e, options.dtype.number) - exact;
    error += difference * difference;
    square += exact * exact;
  }
  return square > 0 ? error / square : 0;
}

}  // namespace

Shared make_shared(const Options& options) {
  const size_t ranks = options.rank_count;
  const size_t contenders = options.formats.size() * options.schedules.size();
  const size_t time_count = contenders * options.run_count * ranks;
  return {static_cast<double*>(shared_bytes(time_count * sizeof(double))),
          static_cast<uint64_t*>(shared_bytes(ranks * sizeof(uint64_t))),
          static_cast<unsigned char*>(shared_bytes(options.most_bytes))};
}

Measurement::Measurement(const Options& options, const Shared& shared, int rank, gqsgd_comm comm)
    : options_(options), shared_(shared), rank_(rank), comm_(comm) {
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
}

/** Formats with a re-encode go with direct alone; says so where one is left out. */
bool Measurement::goes_together(const Contender& contender) const {
  double time_ns = 0;
  const gqsgd_status status =
      gqsgd_predict_time(contender.quantizer, contender.schedule.number, options_.rank_count, 1,
                         options_.dtype.number, nullptr, &time_ns);
  if (status == GQSGD_OK) return true;
  if (rank_ == 0) {
    std::printf("# %s is not timed with schedule %s: %s\n", contender.format.c_str(),
                contender.schedule.name.c_str(), gqsgd_last_error());
  }
  return false;
}

Measurement::~Measurement() {
  for (gqsgd_quantizer quantizer : quantizers_) gqsgd_quantizer_destroy(quantizer);
}

/** An allreduce of nothing returns when all ranks are there, or one has failed. */
void Measurement::barrier() {
  require(gqsgd_allreduce(comm_, quantizers_[0], nullptr, nullptr, 0, GQSGD_FLOAT32, GQSGD_SUM,
                          GQSGD_SCHEDULE_RING, kCheckedAt, nullptr),
          "barrier");
}

double Measurement::run(const Contender& contender, bool in_place, const uint64_t* at) {
  if (in_place && (at != nullptr || in_place_run_count_++ % kRunsInPlace == 0)) output_ = input_;
  const void* send = in_place ? output_.data() : input_.data();
  barrier();
  const int64_t begin = now_ns();
  const gqsgd_status status = gqsgd_allreduce(
      comm_, contender.quantizer, send, output_.data(), value_count_, options_.dtype.number,
      options_.op.number, contender.schedule.number, at, nullptr);
  const int64_t end = now_ns();
  require(status, contender.format.c_str());
  return static_cast<double>(end - begin) * 1e-3;
}

uint64_t Measurement::gather_sum(uint64_t own) {
  shared_.per_rank[rank_] = own;
  barrier();
  uint64_t sum = 0;
  for (int rank = 0; rank < options_.rank_count; ++rank) sum += shared_.per_rank[rank];
  barrier();
  return sum;
}

uint64_t Measurement::gather_most(uint64_t own) {
  shared_.per_rank[rank_] = own;
  barrier();
  const uint64_t most = *std::max_element(shared_.per_rank, shared_.per_rank + options_.rank_count);
  barrier();
  return most;
}

uint64_t Measurement::bytes_sent() {
  uint64_t bytes = 0;
  require(gqsgd_comm_stat(comm_, "payload_bytes_sent", &bytes), "payload_bytes_sent");
  return bytes;
}

/** Rank 0 simulates all ranks: the bits that each of them has to show. */
void Measurement::expect(const Contender& contender, Row* row) {
  if (rank_ == 0) {
    const size_t size = row->size_bytes, ranks = options_.rank_count;
    std::vector<unsigned char> inputs(size * ranks);
    std::vector<const void*> send;
    std::vector<void*> recv(ranks, nullptr);
    recv[0] = shared_.expected;
    for (size_t rank = 0; rank < ranks; ++rank) {
      unsigned char* values = inputs.data() + rank * size;
      fill_inputs(static_cast<int>(rank), value_count_, options_.dtype.number, values);
      send.push_back(values);
    }
    require(gqsgd_simulate(contender.quantizer, options_.rank_count, send.data(), recv.data(),
                           value_count_, options_.dtype.number, options_.op.number,
                           contender.schedule.number, kCheckedAt, options_.comm_options.c_str()),
            "gqsgd_simulate");
    row->nmse = nmse_of(shared_.expected, value_count_, options_);
  }
  barrier();
}

/** Values of this rank's result, over all ranks, that are not the expected ones. */
uint64_t Measurement::wrong_count() {
  const size_t element = element_bytes(options_.dtype.number);
  uint64_t wrong = 0;
  for (size_t first = 0; first < output_.size(); first += element) {
    wrong += std::memcmp(&output_[first], shared_.expected + first, element) != 0;
  }
  return gather_sum(wrong);
}

void Measurement::check(const Contender& contender, Row* row) {
  expect(contender, row);
  run(contender, false, kCheckedAt);
  row->out_of_place.wrong_count = wrong_count();
  run(contender, true, kCheckedAt);
  row->in_place.wrong_count = wrong_count();
}

void Measurement::time_all(bool in_place, std::vector<Row>* rows) {
  const size_t ranks = options_.rank_count, contenders = contenders_.size();
  for (int warmup = 0; warmup < options_.warmup_count; ++warmup) {
    for (const Contender& contender : contenders_) run(contender, in_place, nullptr);
  }
  for (int turn = 0; turn < options_.run_count; ++turn) {
    for (size_t c = 0; c < contenders; ++c) {
      const double time_us = run(contenders_[c], in_place, nullptr);
      shared_.times_us[(turn * contenders + c) * ranks + rank_] = time_us;
    }
  }
  barrier();
  for (size_t c = 0; c < contenders; ++c) {
    std::vector<double> slowest;
    for (int turn = 0; turn < options_.run_count; ++turn) {
      const double* times = shared_.times_us + (turn * contenders + c) * ranks;
      slowest.push_back(*std::max_element(times, times + ranks));
    }
    Row& row = (*rows)[c];
    (in_place ? row.in_place : row.out_of_place).time_us = median(slowest);
  }
  barrier();
}

std::vector<Row> Measurement::measure(size_t size_bytes) {
  value_count_ = size_bytes / element_bytes(options_.dtype.number);
  input_.resize(size_bytes);
  output_.resize(size_bytes);
  fill_inputs(rank_, value_count_, options_.dtype.number, input_.data());
  std::vector<Row> rows;
  for (const Contender& contender : contenders_) {
    rows.push_back({size_bytes, value_count_, contender.format, contender.schedule.name, {}, {}});
    const uint64_t before = bytes_sent();
    run(contender, false, kCheckedAt);
    rows.back().wire_bytes = gather_most(bytes_sent() - before);
    if (options_.check) check(contender, &rows.back());
  }
  time_all(false, &rows);
  time_all(true, &rows);
  return rows;
}

}  // namespace gq::bench
