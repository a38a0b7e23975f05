// The formulas of bounds.h. Both kinds of levels follow one derivation: a rounding adds at most
// `relative` times the square of what is rounded, plus tau.
#include "src/theory/bounds.h"

#include <math.h>

#include <algorithm>

namespace gq {
namespace {

/** Largest variance of rounding y between 2^k and 2^(k+1), in units of y^2: at y = 4/3 2^k. */
constexpr double kRelativeVariance = 1.0 / 8;

Status check_shape(uint32_t ranks, uint32_t combines) {
  if (ranks < 1 || ranks > kRanksMax) {
    return fail(GQSGD_INVALID_ARGUMENT, "ranks is %u; allowed is 1 to %u", ranks, kRanksMax);
  }
  if (combines >= ranks && combines > 0) {
    return fail(GQSGD_INVALID_ARGUMENT,
                "combines is %u; %u ranks are merged in at most %u reductions", combines, ranks,
                ranks - 1);
  }
  return Status();
}

/** The formats that the theorems cover. */
Status check_format(const Format& format, const char* bound) {
  const char* field = nullptr;
  if (format.rounding == Rounding::nearest) field = "rounding=nearest, which is biased";
  if (format.rounding_down != RoundingDown::random) field = "rounding_down=subtractive";
  if (format.rescale) field = "rescale";
  if (format.rotate != Rotate::none) field = "rotate=hadamard";
  if (format.bits_down != format.bits) field = "bits_down other than bits";
  if (format.mantissa_bits != 0) field = "mantissa_bits other than 0";
  if (field == nullptr) return Status();
  return fail(GQSGD_UNSUPPORTED, "there is no %s for %s", bound, field);
}

/** l of bounds.h. */
Status smallest_level(const Format& format, uint32_t ranks, uint32_t combines, double* level) {
  const Coding coding = coding_of(format, ranks, combines);
  if (format.levels == Levels::linear && coding.steps == 0) {
    return fail(GQSGD_INVALID_ARGUMENT,
                "combine=exact with %u bits leaves no level for %u ranks; use combine=average or "
                "the direct schedule",
                static_cast<unsigned>(format.bits), ranks);
  }
  const int top = static_cast<int>(code_max(format.bits)) - static_cast<int>(coding.headroom);
  *level = format.levels == Levels::linear ? 1.0 / coding.steps : ldexp(1.0, 1 - top);
  return Status();
}

double block_value_count(const Format& format, uint64_t value_count) {
  const uint64_t block = format.block == 0 ? value_count : uint64_t{format.block};
  return static_cast<double>(std::min(block, value_count));
}

/** The largest norm over ||x||_{2,2}: 1 for orders 2 and inf. */
double norm_excess(const Format& format, double ranks, double values) {
  return (format.q == NormOrder::one ? sqrt(values) : 1.0) *
         (format.p == NormOrder::one ? sqrt(ranks) : 1.0);
}

/** Reductions after which the result is rounded once more: a wide sum counts as one. */
uint32_t depth_of(uint32_t combines) { return std::max(combines, 1u); }

}  // namespace

double depth_factor(const Format& format, uint32_t combines) {
  if (format.levels != Levels::exponential) return 1;
  return pow(1 + kRelativeVariance, depth_of(combines));
}

double average_weight(uint32_t ranks, uint32_t combines) {
  // A merge below which chains have at most k reductions holds at most 2^k ranks, and each of the
  // combines - k merges above it adds at least one.
  double sum = 0;
  for (uint32_t k = 1; k <= combines; ++k) {
    const double above = ranks - (combines - k);
    sum += k < 32 ? std::min(above, static_cast<double>(uint64_t{1} << k)) : above;
  }
  return sum / ranks;
}

Status variance_bound(const Format& format, uint32_t ranks, uint64_t value_count, uint32_t combines,
                      double* theta) {
  GQ_TRY(check_shape(ranks, combines));
  *theta = 0;
  if (format.levels == Levels::none || value_count == 0) return Status();
  GQ_TRY(check_format(format, "variance bound"));
  double level = 0;
  GQ_TRY(smallest_level(format, ranks, combines, &level));

  const double n = ranks;
  const double d = block_value_count(format, value_count);
  const double l = level * norm_excess(format, n, d);
  const double tau = std::min(sqrt(d / n) * l, d * l * l / 4);
  const double relative = format.levels == Levels::exponential ? kRelativeVariance : 0;
  const double growth = depth_factor(format, combines);
  *theta = growth * (relative / n + tau) + (growth - 1);
  if (combines == 0) *theta += growth / (1 + relative) * n * tau;
  if (combines > 0 && format.combine == Combine::average) {
    *theta += growth / (1 + relative) * n * average_weight(ranks, combines) * tau;
  }
  return Status();
}

Status sparsity_bound(const Format& format, uint32_t ranks, uint64_t value_count, uint32_t combines,
                      double* nonzero_count) {
  GQ_TRY(check_shape(ranks, combines));
  const double code_count = static_cast<double>(ranks) * static_cast<double>(value_count);
  *nonzero_count = code_count;
  if (format.levels == Levels::none || value_count == 0) return Status();
  GQ_TRY(check_format(format, "sparsity bound"));
  if (format.q == NormOrder::inf || format.p == NormOrder::inf) {
    return fail(GQSGD_UNSUPPORTED,
                "there is no sparsity bound for q=inf or p=inf; the theorem has p = q = 2");
  }
  double level = 0;
  GQ_TRY(smallest_level(format, ranks, combines, &level));
  const double d = block_value_count(format, value_count);
  const double blocks = ceil(static_cast<double>(value_count) / d);
  const double in_a_block = 1 / (level * level) + sqrt(ranks * d) / level;
  *nonzero_count = std::min(code_count, blocks * in_a_block);
  return Status();
}

}  // namespace gq
