// The formulas of bounds.h. Both kinds of levels follow one derivation: a rounding adds at most
// `relative` times the square of what is rounded, plus tau.
#include "src/theory/bounds.h"

#include <math.h>

#include <algorithm>

namespace gq {
namespace {

/** Norms of blocks are rounded up to 8 significant bits. */
constexpr double kBlockNormExcess = 1 + 1.0 / 128;

/** The same of floats with 8 or 11 bits of significand that are not denormal, by an upper bound of
 * it: a quarter of the squared distance of neighbours. */
double narrow_variance(Levels levels) {
  const int significand_bits = levels == Levels::bf16 ? 8 : 11;
  return ldexp(0.25, 2 * (1 - significand_bits));
}

/** Largest variance of rounding y between neighbouring levels a and b, in units of y^2, where
 * levels are not equally spaced: (b - a)^2 / (4 a b), reached at y = 2 a b / (a + b), for the
 * lowest pair of an octave. */
double relative_variance(const Format& format) {
  if (is_narrow(format.levels)) return narrow_variance(format.levels);
  if (format.levels != Levels::exponential) return 0;
  return format.mantissa_bits == 0 ? 1.0 / 8 : 1.0 / 80;
}

Status check_shape(uint32_t ranks, uint32_t reduction_depth) {
  if (ranks < 1 || ranks > kRanksMax) {
    return fail(GQSGD_INVALID_ARGUMENT, "ranks is %u; allowed is 1 to %u", ranks, kRanksMax);
  }
  if (reduction_depth >= ranks && reduction_depth > 0) {
    return fail(GQSGD_INVALID_ARGUMENT,
                "reduction_depth is %u; %u ranks are merged in at most %u reductions",
                reduction_depth, ranks, ranks - 1);
  }
  return Status();
}

/** What the theorems cover: anything that is unbiased, with levels that a norm gives. */
Status check_format(const Format& format, const char* bound) {
  if (format.levels == Levels::rice) {
    return fail(GQSGD_UNSUPPORTED,
                "there is no %s for levels=rice, whose steps follow from all values of a group and "
                "not from a norm; gqsgd_expected_error has the error for given values",
                bound);
  }
  if (format.rounding != Rounding::nearest) return Status();
  return fail(GQSGD_UNSUPPORTED, "there is no %s for rounding=nearest, which is biased", bound);
}

/** l of bounds.h, for codes of so many bits. */
double smallest_level(const Coding& coding, uint32_t bits, uint32_t steps, uint32_t headroom) {
  if (!has_norm(coding.levels)) return 0;
  if (coding.adaptive()) return 1.0 / code_max(kWidthMin);  // any block may get the least width
  if (coding.levels == Levels::linear) return 1.0 / steps;
  const int m = coding.mantissa_bits;
  const int top = static_cast<int>(code_max(bits)) - static_cast<int>(headroom);
  const double top_value = m == 0 ? 1 : 1 + (top % (1 << m)) / static_cast<double>(1 << m);
  return ldexp(1 / top_value, 1 - (top >> m) - m);
}

Status check_levels(const Format& format, const Coding& coding) {
  if (format.levels != Levels::linear || coding.steps > 0) return Status();
  return fail(GQSGD_INVALID_ARGUMENT,
              "combine=exact with %u bits leaves no level for %u ranks; use combine=average or "
              "the direct schedule",
              static_cast<unsigned>(format.bits), coding.ranks);
}

/** Values of a block, or of the call; a rotation fills up the last ones. */
double block_value_count(const Format& format, uint64_t value_count) {
  const uint64_t coded = code_count(format.rotate == Rotate::hadamard, value_count);
  return static_cast<double>(format.block == 0 ? coded : std::min<uint64_t>(format.block, coded));
}

/** The largest norm over ||x||_{2,2}: 1 for orders 2 and inf of a whole call. */
double norm_excess(const Format& format, double ranks, double values) {
  return (format.q == NormOrder::one ? sqrt(values) : 1.0) *
         (format.p == NormOrder::one ? sqrt(ranks) : 1.0) *
         (format.block != 0 ? kBlockNormExcess : 1.0);
}

/** Error of x over error of y, times norm of y over norm of x: rotations shorter than 1024 keep y
 * up to sqrt(2) times smaller, which matters where a norm spans several lengths. */
double rotation_spread(const Format& format, uint64_t value_count) {
  const bool shorter = code_count(true, value_count) % kRotationValues != 0;
  const bool spans = format.block == 0 || format.block > kRotationValuesMin;
  return format.rotate == Rotate::hadamard && shorter && spans ? 2 : 1;
}

/** tau of bounds.h: what random rounding to steps of l norms adds. */
double random_tau(double l, double n, double d) { return std::min(sqrt(d / n) * l, d * l * l / 4); }

/** Reductions after which the result is rounded once more: a wide sum counts as one. */
uint32_t depth_of(uint32_t reduction_depth, uint32_t encodes) {
  return std::max(reduction_depth, encodes);
}

}  // namespace

double depth_factor(const Format& format, uint32_t reduction_depth, uint32_t encodes) {
  return pow(1 + relative_variance(format), depth_of(reduction_depth, encodes));
}

double average_weight(uint32_t ranks, uint32_t reduction_depth) {
  // A merge below which chains have at most k reductions holds at most 2^k ranks, and each of the
  // combines - k merges above it adds at least one.
  double sum = 0;
  for (uint32_t k = 1; k <= reduction_depth; ++k) {
    const double above = ranks - (reduction_depth - k);
    sum += k < 32 ? std::min(above, static_cast<double>(uint64_t{1} << k)) : above;
  }
  return sum / ranks;
}

Status variance_bound(const Format& format, uint32_t ranks, uint64_t value_count,
                      uint32_t reduction_depth, double* theta, uint32_t encodes) {
  GQ_TRY(check_shape(ranks, reduction_depth));
  *theta = 0;
  if (format.levels == Levels::none || value_count == 0) return Status();
  GQ_TRY(check_format(format, "variance bound"));
  const Coding coding = coding_of(format, ranks, reduction_depth);
  GQ_TRY(check_levels(format, coding));

  const double n = ranks;
  const double d = block_value_count(format, value_count);
  const double excess = norm_excess(format, n, d);
  const double l = excess * smallest_level(coding, coding.bits, coding.steps, coding.headroom);
  const double l_down = excess * smallest_level(coding, coding.bits_down, coding.steps_down, 0);
  const double tau = random_tau(l, n, d);
  const double relative = relative_variance(format);
  const double growth = depth_factor(format, reduction_depth, encodes);
  *theta = growth * (relative / n + tau) + (growth - 1);
  if (reduction_depth == 0) {
    const bool subtractive = format.rounding_down == RoundingDown::subtractive;
    const double tau_down = subtractive ? d * l_down * l_down / 12 : random_tau(l_down, n, d);
    *theta += n * tau_down;
    const double tau_of_nodes = coding.encodes_nodes_down() ? random_tau(l_down, n, d) : tau;
    for (uint32_t before = 1; before < encodes; ++before) {
      *theta += pow(1 + relative, before) * n * tau_of_nodes;
    }
  }
  if (reduction_depth > 0 && format.combine == Combine::average) {
    *theta += growth / (1 + relative) * n * average_weight(ranks, reduction_depth) * tau;
  }
  *theta *= rotation_spread(format, value_count);
  return Status();
}

Status sparsity_bound(const Format& format, uint32_t ranks, uint64_t value_count,
                      uint32_t reduction_depth, double* nonzero_count) {
  GQ_TRY(check_shape(ranks, reduction_depth));
  const uint64_t coded = code_count(format.rotate == Rotate::hadamard, value_count);
  const double all_codes = static_cast<double>(ranks) * static_cast<double>(coded);
  *nonzero_count = all_codes;
  if (!has_norm(format.levels) || value_count == 0) return Status();
  GQ_TRY(check_format(format, "sparsity bound"));
  if (format.q == NormOrder::inf || format.p == NormOrder::inf) {
    return fail(GQSGD_UNSUPPORTED,
                "there is no sparsity bound for q=inf or p=inf; the theorem has p = q = 2");
  }
  const Coding coding = coding_of(format, ranks, reduction_depth);
  GQ_TRY(check_levels(format, coding));
  const double level = smallest_level(coding, coding.bits, coding.steps, coding.headroom);
  const double d = block_value_count(format, value_count);  // one block: norms are finite
  *nonzero_count = std::min(all_codes, 1 / (level * level) + sqrt(ranks * d) / level);
  return Status();
}

}  // namespace gq
