// How the ranks' norms become one (docs/FORMAT.md, section 4): in rank order, so that every rank
// ends with the same bits.
#ifndef GQ_KERNELS_CODEC_GLOBAL_NORM_H
#define GQ_KERNELS_CODEC_GLOBAL_NORM_H

#include "kernels/codec/formats.h"
#include "kernels/codec/scale.h"

namespace gq {

GQ_HD double square_root(double value) {
#if defined(__CUDA_ARCH__)
  return __dsqrt_rn(value);
#else
  return __builtin_sqrt(value);
#endif
}

GQ_HD double double_from_bits(uint64_t bits) {
  double value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

GQ_HD uint64_t double_bits(double value) {
  uint64_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

/** The smallest float32 not below a value that is not negative, so that no element exceeds its
 * norm; what is finite stays finite. */
GQ_HD float round_up_to_float(double value) {
  if (value != value) return float_from_bits(kFloatNanBits);
  const double largest_double = 1.7976931348623157e308;
  const double largest_float = float_from_bits(kFloatMaxBits);
  if (value > largest_double) return float_from_bits(kFloatInfinityBits);
  if (value >= largest_float) return float_from_bits(kFloatMaxBits);
  const float nearest = static_cast<float>(value);
  const bool below = static_cast<double>(nearest) < value;
  return float_from_bits(float_bits(nearest) + (below ? 1 : 0));
}

/** A rank's norm as the norm stage writes it: a float32's bits for q = inf, else a float64. On the
 * wire it is a float32's bits where norms are compared as integers, else a float64. */
struct NormWords {
  uint32_t low = 0;
  uint32_t high = 0;
};

GQ_HD NormWords norm_words(uint64_t bits) {
  return NormWords{static_cast<uint32_t>(bits), static_cast<uint32_t>(bits >> 32)};
}

/** Merges one rank's norm after the other. */
class GlobalNorm {
 public:
  GlobalNorm() = default;
  GQ_HD GlobalNorm(NormOrder q, NormOrder p) : q_(q), p_(p) {}

  GQ_HD NormWords to_wire(NormWords stage_out) const {
    if (q_ != NormOrder::inf) return stage_out;
    if (is_integer()) return NormWords{stage_out.low, 0};
    return norm_words(double_bits(float_from_bits(stage_out.low)));
  }

  GQ_HD void merge(NormWords wire) {
    if (is_integer()) {
      bits_ = wire.low > bits_ ? wire.low : bits_;
    } else {
      merge_value(double_from_bits(wire.low | static_cast<uint64_t>(wire.high) << 32));
    }
  }

  GQ_HD float result() const {
    if (is_integer()) return float_from_bits(bits_);
    return round_up_to_float(p_ == NormOrder::two ? square_root(merged_) : merged_);
  }

 private:
  /** Both orders infinite: the maximum of bit patterns, exact in any order. */
  GQ_HD bool is_integer() const { return q_ == NormOrder::inf && p_ == NormOrder::inf; }

  /** A NaN stays, whatever comes later. */
  GQ_HD void merge_value(double value) {
    const bool squares = q_ == NormOrder::two;
    if (p_ == NormOrder::two) {
      merged_ += squares ? value : value * value;
      return;
    }
    const double norm = squares ? square_root(value) : value;
    if (p_ == NormOrder::one) {
      merged_ += norm;
    } else {
      merged_ = norm > merged_ || norm != norm ? norm : merged_;
    }
  }

  NormOrder q_ = NormOrder::inf;
  NormOrder p_ = NormOrder::inf;
  uint32_t bits_ = 0;
  double merged_ = 0;
};

}  // namespace gq

#endif
