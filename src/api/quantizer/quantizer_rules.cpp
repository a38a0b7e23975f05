// The rules of docs/FORMAT.md, section 13, in sentences.
#include "src/api/quantizer/quantizer_rules.h"

#include "src/support/names.h"

namespace gq {
namespace {

template <typename Enum>
const char* word(Names names, Enum value) {
  return name_in(names, static_cast<size_t>(value));
}

/** The first field that a format without norms has and could not change anything. */
const char* field_of_norms(const Format& f) {
  return f.q != NormOrder::inf || f.p != NormOrder::inf ? "norm other than inf:inf"
         : f.combine != Combine::exact                  ? "combine other than exact"
         : f.block != 0                                 ? "block"
         : f.rounding_down == RoundingDown::subtractive ? "rounding_down=subtractive"
         : f.rotate == Rotate::hadamard                 ? "rotate=hadamard"
         : f.rescale                                    ? "rescale=true"
         : f.mantissa_bits != 0                         ? "mantissa_bits"
                                                        : nullptr;
}

/** Without a norm there is nothing that any of these fields could change. */
Status check_floats(const Format& f) {
  const char* levels = word(names_of(kLevelsList), f.levels);
  const int bits = is_narrow(f.levels) ? 16 : 32;
  if (f.bits != bits) {
    return fail(GQSGD_INVALID_ARGUMENT, "levels=%s has bits=%d, not %d", levels, bits, f.bits);
  }
  if (f.nonfinite == Nonfinite::error) {
    return fail(GQSGD_INVALID_ARGUMENT,
                "nonfinite=error needs a norm and levels=%s takes none; NaN and infinity pass "
                "through unchanged with nonfinite=poison",
                levels);
  }
  const char* field = f.bits_down != bits                  ? "bits_down"
                      : f.rounding == Rounding::correlated ? "rounding=correlated"
                                                           : field_of_norms(f);
  if (field == nullptr) return Status();
  return fail(GQSGD_INVALID_ARGUMENT,
              "levels=%s sends values as floats of %d bits and takes no %s; leave it out, or use "
              "levels=linear or exponential",
              levels, bits, field);
}

Status check_bits(const Format& f) {
  for (const int bits : {f.bits, f.bits_down}) {
    if (bits <= 8) continue;
    return fail(GQSGD_INVALID_ARGUMENT, "%s=%d belongs to levels=%s; use 8 or 4",
                bits == f.bits ? "bits" : "bits_down", bits, bits == 32 ? "none" : "bf16 and fp16");
  }
  const bool can_have_mantissa = f.levels == Levels::exponential && f.bits == 8 && f.bits_down == 8;
  if (f.mantissa_bits == 0 || can_have_mantissa) return Status();
  return fail(GQSGD_INVALID_ARGUMENT,
              "mantissa_bits=%d needs levels=exponential, bits=8 and bits_down=8, not levels=%s, "
              "bits=%d and bits_down=%d; use those, or mantissa_bits=0",
              f.mantissa_bits, word(names_of(kLevelsList), f.levels), f.bits, f.bits_down);
}

Status check_combine(const Format& f) {
  const bool linear = f.levels == Levels::linear;
  const bool fits = linear        ? f.combine != Combine::sum
                    : f.bits == 8 ? f.combine == Combine::sum
                                  : f.combine == Combine::average;
  if (fits) return Status();
  return fail(GQSGD_INVALID_ARGUMENT, "combine=%s does not go with levels=%s, bits=%d; use %s",
              word(names_of(kCombineList), f.combine), word(names_of(kLevelsList), f.levels),
              f.bits,
              linear        ? "exact or average"
              : f.bits == 8 ? "sum"
                            : "average");
}

Status check_blocks(const Format& f) {
  if (f.block != 0 && (f.q != NormOrder::inf || f.p != NormOrder::inf)) {
    return fail(GQSGD_INVALID_ARGUMENT,
                "norms of blocks are norm=inf:inf, and block=%u does not go with norm=%s:%s; use "
                "norm=inf:inf, or block=0",
                f.block, word(names_of(kNormOrderList), f.q), word(names_of(kNormOrderList), f.p));
  }
  if (f.rescale && f.block == 0) {
    return fail(
        GQSGD_INVALID_ARGUMENT,
        "rescale=true gives every block of the mean a scale of its own and does not go with "
        "block=0; use block=128, or rescale=false");
  }
  return Status();
}

Status check_subtractive(const Format& f) {
  if (f.rounding_down != RoundingDown::subtractive) return Status();
  if (f.levels != Levels::linear) {
    return fail(GQSGD_INVALID_ARGUMENT,
                "rounding_down=subtractive shifts a grid of equal steps and does not go with "
                "levels=%s; use levels=linear, or rounding_down=random",
                word(names_of(kLevelsList), f.levels));
  }
  if (f.rounding == Rounding::nearest) {
    return fail(GQSGD_INVALID_ARGUMENT,
                "rounding=nearest draws nothing, in the re-encode neither, and does not go with "
                "rounding_down=subtractive; use rounding_down=random, or rounding=independent or "
                "correlated");
  }
  return Status();
}

/** Rice codes have steps in place of norms. */
Status check_rice(const Format& f) {
  const char* field = field_of_norms(f);
  if (field == nullptr) return Status();
  return fail(GQSGD_INVALID_ARGUMENT,
              "levels=rice has steps of groups in place of norms and takes no %s; leave it out, or "
              "use levels=linear",
              field);
}

/** Adaptive widths follow from norms of blocks, and rotations would make these alike. */
Status check_adaptive(const Format& f) {
  if (f.mean_half_bits == 0) return Status();
  const char* needed = f.levels != Levels::linear     ? "levels=linear"
                       : f.block != kAdaptiveBlock    ? "block=128"
                       : f.rotate != Rotate::none     ? "rotate=none"
                       : f.combine != Combine::exact  ? "combine=exact"
                       : f.mantissa_bits != 0         ? "mantissa_bits=0"
                                                      : nullptr;
  if (needed == nullptr) return Status();
  return fail(GQSGD_INVALID_ARGUMENT, "width=adaptive needs %s; use that, or width=fixed", needed);
}

}  // namespace

Status check_combination(const Format& format) {
  if (format.levels == Levels::rice) return check_rice(format);
  GQ_TRY(check_adaptive(format));
  if (!has_norm(format.levels)) return check_floats(format);
  GQ_TRY(check_bits(format));
  GQ_TRY(check_combine(format));
  GQ_TRY(check_blocks(format));
  return check_subtractive(format);
}

}  // namespace gq
