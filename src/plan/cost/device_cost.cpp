// Stages one after the other, as fast as memory or instruction pipes let them; messages beside the
// stages of other chunks.
#include "src/plan/cost/device_cost.h"

#include <algorithm>

namespace gq {
namespace {

/** For one value: nanoseconds, or bytes of memory. */
struct StageTimes {
  double norm, quantize, sum, add, dequantize;
};

// What instructions take an H100 where they are the limit and not memory
// (docs/results/gpu-model.md, column issue).
constexpr StageTimes kExponential = {0, 0, 0.0009, 0.0002, 0};
constexpr StageTimes kCorrelated = {0, 0.0016, 0, 0, 0};
constexpr StageTimes kRescaled = {0, 0, 0.0012, 0.00015, 0};
constexpr StageTimes kRotated = {0.0013, 0.0021, 0, 0, 0.0019};
// Of 4 bits; sums of 2 ranks and of 8.
constexpr StageTimes kAdaptive = {0, 0.0032, 0.0042, 0.0002, 0.0022};
constexpr StageTimes kRice = {0, 0.0272, 0.0475, 0.0123, 0.0107};
// Float32 sums in memory: written and read again to be encoded, and twice more by each addition.
constexpr double kRiceSumBytes = 16, kRiceAddBytes = 8;

void take_at_least(const StageTimes& least, StageTimes* times) {
  times->norm = std::max(times->norm, least.norm);
  times->quantize = std::max(times->quantize, least.quantize);
  times->sum = std::max(times->sum, least.sum);
  times->add = std::max(times->add, least.add);
  times->dequantize = std::max(times->dequantize, least.dequantize);
}

StageTimes stage_times(const Coding& coding, int32_t dtype, double byte_ns) {
  const double values = dtype_bytes(dtype);
  const double codes = coding.grouped() ? coding.mean_half_bits / 16.0 : coding.bits / 8.0;
  const double sums = coding.grouped() ? codes : coding.bits_down / 8.0;
  StageTimes times = {values * byte_ns, (values + codes) * byte_ns, (2 * codes + sums) * byte_ns,
                      codes * byte_ns, (sums + values) * byte_ns};
  if (coding.levels == Levels::rice) {
    times.sum += kRiceSumBytes * byte_ns;
    times.add += kRiceAddBytes * byte_ns;
    take_at_least(kRice, &times);
    return times;
  }
  if (coding.levels == Levels::exponential) take_at_least(kExponential, &times);
  if (coding.rounding == Rounding::correlated) take_at_least(kCorrelated, &times);
  if (coding.rescale) take_at_least(kRescaled, &times);
  if (coding.rotated) take_at_least(kRotated, &times);
  if (coding.adaptive()) take_at_least(kAdaptive, &times);
  return times;
}

/** Chunks of a rank's part. */
uint64_t chunk_count(const Plan& plan) {
  const Shape& shape = plan.shape;
  const uint64_t chunk = shape.chunk_value_count;
  const uint64_t part = plan.schedule->adds_natively ? 1 : shard_value_count(shape, shape.ranks);
  return std::max<uint64_t>(1, part / chunk + (part % chunk != 0));
}

/** Bytes that a rank sends, and as many that it receives. */
double link_bytes(const Plan& plan, Content content) {
  const double ranks = plan.shape.ranks;
  const size_t all_bytes = plan.layout.size_bytes(content, plan.shape.value_count);
  return (ranks - 1) / ranks * static_cast<double>(all_bytes);
}

double device_ns(const Plan& plan, int32_t dtype, const CostConstants& constants) {
  const StageTimes times = stage_times(plan.coding, dtype, constants.device_byte_ns);
  const double ranks = plan.shape.ranks, values = static_cast<double>(plan.shape.value_count);
  const bool native = plan.schedule->adds_natively;
  double alone_ns = values * times.dequantize;  // nothing travels meanwhile
  if (has_norm(plan.coding.levels)) alone_ns += values * times.norm;
  double codec_ns = values * times.quantize;
  if (!native) codec_ns += values / ranks * (times.sum + std::max(0.0, ranks - 2) * times.add);
  double sent_bytes = link_bytes(plan, Content::codes);
  sent_bytes += native ? sent_bytes : link_bytes(plan, Content::sums);
  const double links_ns = sent_bytes * constants.device_link_byte_ns;
  const double longer_ns = std::max(codec_ns, links_ns);
  const double chunks = static_cast<double>(chunk_count(plan));
  return alone_ns + longer_ns + (codec_ns + links_ns - longer_ns) / chunks;
}

}  // namespace

/** Control messages are written, gathered and compared. Norms of blocks have an exchange of their
 *  own before the codes, those of the first three chunks by one launch. Chunks beyond the first
 *  have one launch more of each stage but dequantize, and an exchange; one fills the pipeline. */
DeviceOperations device_operations(const Plan& plan) {
  const bool has_norms = has_norm(plan.coding.levels), in_blocks = plan.coding.block != 0;
  if (plan.schedule->adds_natively) {
    return {4u + (has_norms ? 1u : 0u) + (in_blocks ? 1u : 0u), in_blocks ? 4u : 2u};
  }
  const uint64_t chunks = chunk_count(plan);
  DeviceOperations operations{3 + 2 * chunks + (has_norms ? 1 : 0),
                              2 + chunks + (chunks > 1 ? 1 : 0)};
  if (in_blocks) {
    operations.kernels += chunks + (chunks > 3 ? chunks - 3 : 0);
    operations.exchanges += 2;
  }
  return operations;
}

Status predict_device_time(const Plan& plan, const CostQuestion& question,
                           const CostConstants& constants, double* time_ns) {
  if (plan.schedule_id != GQSGD_SCHEDULE_DIRECT && !plan.schedule->adds_natively) {
    return fail(GQSGD_UNSUPPORTED,
                "the time of schedule %s over NCCL is not modelled; those of direct and native are",
                plan.schedule->name);
  }
  if (!has_device_stages(plan.coding.levels)) {
    return fail(GQSGD_UNSUPPORTED, "devices have no levels bf16 and fp16");
  }
  const DeviceOperations operations = device_operations(plan);
  const double kernels = static_cast<double>(operations.kernels);
  const double exchanges = static_cast<double>(operations.exchanges);
  const double exchange_ns =
      constants.enqueue_nccl_ns + (question.nccl_blocks ? 0 : constants.nccl_thread_ns);
  const double host_ns = kernels * constants.enqueue_ns + exchanges * exchange_ns;
  *time_ns = std::max(host_ns, device_ns(plan, question.dtype, constants) +
                                   kernels * constants.device_latency_ns +
                                   exchanges * constants.device_message_ns);
  return Status();
}

}  // namespace gq
