// What error a format makes of given values: by virtual ranks before anything runs, or measured on
// a communicator against an uncompressed allreduce. Built on the C ABI itself.
#include <stdlib.h>

#include <memory>
#include <new>

#include "include/gqsgd_model.h"
#include "kernels/codec/narrow.h"
#include "kernels/stages.h"
#include "src/api/call_scope.h"
#include "src/api/check.h"
#include "src/api/config.h"
#include "src/api/quantizer/quantizer.h"

namespace gq {
namespace {

/** The status of a function of the C ABI, with its sentence as a caller reads it. */
Status status_of_call(gqsgd_status code) {
  return code == GQSGD_OK ? Status() : fail(code, "%s", gqsgd_last_error());
}

/** Frees what create gave. */
class OwnQuantizer {
 public:
  ~OwnQuantizer() { gqsgd_quantizer_destroy(handle_); }
  OwnQuantizer() = default;
  OwnQuantizer(const OwnQuantizer&) = delete;
  OwnQuantizer& operator=(const OwnQuantizer&) = delete;
  Status create(const char* spec) { return status_of_call(gqsgd_quantizer_create(spec, &handle_)); }
  gqsgd_quantizer get() const { return handle_; }

 private:
  gqsgd_quantizer handle_ = nullptr;
};

double value_at(const void* values, int32_t dtype, size_t e) {
  switch (dtype) {
    case GQSGD_FLOAT16:
      return static_cast<double>(half_to_float(static_cast<const uint16_t*>(values)[e]));
    case GQSGD_BFLOAT16:
      return static_cast<double>(bfloat_to_float(static_cast<const uint16_t*>(values)[e]));
    case GQSGD_FLOAT64:
      return static_cast<const double*>(values)[e];
    default:
      return static_cast<double>(static_cast<const float*>(values)[e]);
  }
}

/** Squares of distances over squares of what was to be met. */
struct ErrorSum {
  double error = 0;
  double signal = 0;

  void add(double value, double exact) {
    error += (value - exact) * (value - exact);
    signal += exact * exact;
  }
  /** Without a signal any error is infinitely large, and none is none. */
  double normalised() const { return error == 0 ? 0 : error / signal; }
};

/** A buffer of `value_count` elements; nothing is thrown and nothing is constructed. */
struct Free {
  void operator()(void* memory) const { free(memory); }
};
using Memory = std::unique_ptr<void, Free>;

Status make_memory(size_t value_count, size_t element_bytes, Memory* memory) {
  size_t size_bytes = 0;
  if (!__builtin_mul_overflow(value_count, element_bytes, &size_bytes)) {
    memory->reset(malloc(size_bytes == 0 ? 1 : size_bytes));
  }
  if (*memory) return Status();
  return fail(GQSGD_NO_MEMORY, "no memory for %zu values of %zu bytes", value_count, element_bytes);
}

struct Question {
  gqsgd_quantizer quantizer;
  size_t value_count;
  int32_t dtype;
  const gqsgd_config* config;
  double* error;
};

/** The config for calls with its schedule and a step of their own. */
Status check_question(const Question& question, gqsgd_config* config) {
  Format format;
  CallConfig read;
  GQ_TRY(find_format(question.quantizer, &format));
  GQ_TRY(check_dtype(question.dtype));
  GQ_TRY(read_config(question.config, &read));
  GQ_TRY(check_step_on_host(read));
  *config = GQSGD_CONFIG_INIT;
  config->schedule = static_cast<gqsgd_schedule>(read.schedule);
  config->step_source = GQSGD_STEP_GIVEN;
  config->step = read.step;
  config->index = read.index;
  if (question.error != nullptr) return Status();
  return fail(GQSGD_INVALID_ARGUMENT, "error is NULL");
}

/** Once for all draws. */
void fill_exact_mean(const Question& question, int32_t rank_count, const void* const* send,
                     double* mean) {
  for (size_t e = 0; e < question.value_count; ++e) {
    double sum = 0;
    for (int32_t rank = 0; rank < rank_count; ++rank)
      sum += value_at(send[rank], question.dtype, e);
    mean[e] = sum / rank_count;
  }
}

Status expected_error(const Question& question, int32_t rank_count, const void* const* send,
                      int32_t draw_count, const char* options) {
  gqsgd_config config = GQSGD_CONFIG_INIT;
  GQ_TRY(check_question(question, &config));
  GQ_TRY(check_size(rank_count));
  if (draw_count < 1) {
    return fail(GQSGD_INVALID_ARGUMENT, "draw_count is %d; at least 1 is needed", draw_count);
  }
  Memory result, receivers, exact;
  GQ_TRY(make_memory(question.value_count, dtype_size_bytes(question.dtype), &result));
  GQ_TRY(make_memory(static_cast<size_t>(rank_count), sizeof(void*), &receivers));
  GQ_TRY(make_memory(question.value_count, sizeof(double), &exact));
  void** recv = static_cast<void**>(receivers.get());
  for (int32_t rank = 0; rank < rank_count; ++rank) recv[rank] = rank == 0 ? result.get() : nullptr;
  const double* mean = static_cast<const double*>(exact.get());
  ErrorSum sum;
  for (int32_t draw = 0; draw < draw_count; ++draw, ++config.step) {
    GQ_TRY(status_of_call(
        gqsgd_simulate(question.quantizer, rank_count, send, recv, question.value_count,
                       static_cast<gqsgd_dtype>(question.dtype), GQSGD_MEAN, &config, options)));
    // The first simulation has checked the buffers.
    if (draw == 0) fill_exact_mean(question, rank_count, send, static_cast<double*>(exact.get()));
    for (size_t e = 0; e < question.value_count; ++e) {
      sum.add(value_at(result.get(), question.dtype, e), mean[e]);
    }
  }
  *question.error = sum.normalised();
  return Status();
}

/** The mean of all ranks as float32. */
Status mean_of(gqsgd_comm comm, gqsgd_quantizer quantizer, const gqsgd_config& config,
               const Question& question, const Memory& send, const Memory& recv) {
  return status_of_call(gqsgd_allreduce(comm, quantizer, send.get(), recv.get(),
                                        question.value_count, GQSGD_FLOAT32, GQSGD_MEAN, &config,
                                        nullptr));
}

/** Of the exact mean: plain values have no codes to leave out. */
gqsgd_config exact_config(gqsgd_config config) {
  if (config.schedule == GQSGD_SCHEDULE_SPARSE) config.schedule = GQSGD_SCHEDULE_DIRECT;
  return config;
}

/** What a measurement needs beside the question. */
struct Measurement {
  gqsgd_config config = GQSGD_CONFIG_INIT;
  OwnQuantizer none;
  Memory values, exact, result;
};

/** This rank's own checks, and its values as float32. */
Status prepare(gqsgd_comm comm, const Question& question, const void* send,
               Measurement* measurement) {
  gqsgd_config* config = &measurement->config;
  GQ_TRY(check_question(question, config));
  const bool counts =
      question.config == nullptr || question.config->step_source == GQSGD_STEP_COUNTER;
  if (counts) GQ_TRY(status_of_call(gqsgd_comm_counter(comm, &config->step)));
  GQ_TRY(check_buffer({"send", send, question.value_count, dtype_size_bytes(question.dtype)}));
  GQ_TRY(measurement->none.create("none"));
  GQ_TRY(make_memory(question.value_count, sizeof(float), &measurement->values));
  GQ_TRY(make_memory(question.value_count, sizeof(float), &measurement->exact));
  GQ_TRY(make_memory(question.value_count, sizeof(float), &measurement->result));
  float* narrowed = static_cast<float*>(measurement->values.get());
  for (size_t e = 0; e < question.value_count; ++e) {
    narrowed[e] = static_cast<float>(value_at(send, question.dtype, e));
  }
  return Status();
}

/** Notifies the other ranks, which are in the first allreduce. */
void refuse(gqsgd_comm comm, gqsgd_status reason) {
  gqsgd_config no_step_of_the_counter = GQSGD_CONFIG_INIT;
  no_step_of_the_counter.step_source = GQSGD_STEP_GIVEN;
  static_cast<void>(gqsgd_comm_refuse(comm, reason, &no_step_of_the_counter, nullptr));
}

Status measured_error(gqsgd_comm comm, const Question& question, const void* send) {
  Measurement own;
  const Status prepared = prepare(comm, question, send, &own);
  if (!prepared.ok()) {
    refuse(comm, prepared.code());
    return prepared;
  }
  GQ_TRY(mean_of(comm, own.none.get(), exact_config(own.config), question, own.values, own.exact));
  GQ_TRY(mean_of(comm, question.quantizer, own.config, question, own.values, own.result));
  ErrorSum sum;
  for (size_t e = 0; e < question.value_count; ++e) {
    sum.add(value_at(own.result.get(), GQSGD_FLOAT32, e),
            value_at(own.exact.get(), GQSGD_FLOAT32, e));
  }
  *question.error = sum.normalised();
  return Status();
}

}  // namespace
}  // namespace gq

gqsgd_status gqsgd_expected_error(gqsgd_quantizer quantizer, int32_t rank_count,
                                  const void* const* send, size_t count, gqsgd_dtype dtype,
                                  const gqsgd_config* config, int32_t draw_count,
                                  const char* options, double* error) {
  const gq::Question question{quantizer, count, gq::number_of(dtype), config, error};
  return gq::in_call_scope(
      [&] { return gq::expected_error(question, rank_count, send, draw_count, options); });
}

gqsgd_status gqsgd_measured_error(gqsgd_comm comm, gqsgd_quantizer quantizer, const void* send,
                                  size_t count, gqsgd_dtype dtype, const gqsgd_config* config,
                                  double* error) {
  const gq::Question question{quantizer, count, gq::number_of(dtype), config, error};
  return gq::in_call_scope([&] { return gq::measured_error(comm, question, send); });
}
