// The rules of docs/FORMAT.md, section 13, in sentences.
#include "src/api/quantizer/quantizer_rules.h"

#include "src/support/names.h"

namespace gq {
namespace {

template <typename Enum>
const char* word(Names names, Enum value) {
  return name_in(names, static_cast<size_t>(value));
}

/** Without codes there is nothing that any of these fields could change. */
Status check_none(const Format& f) {
  if (f.bits != 32) {
    return fail(GQSGD_INVALID_ARGUMENT, "levels=none has bits=32, not %d", f.bits);
  }
  if (f.nonfinite == Nonfinite::error) {
    return fail(GQSGD_INVALID_ARGUMENT,
                "nonfinite=error needs a norm and levels=none takes none; NaN and infinity pass "
                "through unchanged with nonfinite=poison");
  }
  const char* field = f.bits_down != 32                              ? "bits_down"
                      : f.block != 0                                 ? "block"
                      : f.rounding == Rounding::correlated           ? "rounding=correlated"
                      : f.rounding_down == RoundingDown::subtractive ? "rounding_down=subtractive"
                      : f.rotate == Rotate::hadamard                 ? "rotate=hadamard"
                      : f.rescale                                    ? "rescale=true"
                      : f.mantissa_bits != 0                         ? "mantissa_bits"
                                                                     : nullptr;
  if (field == nullptr) return Status();
  return fail(GQSGD_INVALID_ARGUMENT,
              "levels=none sends values as they are and takes no %s; leave it out, or use "
              "levels=linear or exponential",
              field);
}

Status check_bits(const Format& f) {
  if (f.bits == 32 || f.bits_down == 32) {
    return fail(GQSGD_INVALID_ARGUMENT, "%s=32 belongs to levels=none; use 8 or 4",
                f.bits == 32 ? "bits" : "bits_down");
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

}  // namespace

Status check_combination(const Format& format) {
  if (format.levels == Levels::none) return check_none(format);
  GQ_TRY(check_bits(format));
  GQ_TRY(check_combine(format));
  GQ_TRY(check_blocks(format));
  return check_subtractive(format);
}

}  // namespace gq
