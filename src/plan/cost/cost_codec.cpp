// Which rows of the constants a format pays.
#include "src/plan/cost/cost_codec.h"

#include <algorithm>

namespace gq {
namespace {

CostRow base_row(const Coding& coding) {
  if (coding.adaptive()) return CostRow::adaptive;
  const bool narrow = coding.bits == 4;
  switch (coding.levels) {
    case Levels::linear:
      return narrow ? CostRow::linear4 : CostRow::linear8;
    case Levels::exponential:
      if (coding.mantissa_bits != 0) return CostRow::mantissa;
      return narrow ? CostRow::exponential4 : CostRow::exponential8;
    case Levels::bf16:
      return CostRow::bf16;
    case Levels::fp16:
      return CostRow::fp16;
    case Levels::rice:
      return CostRow::rice;
    case Levels::none:
      break;
  }
  return CostRow::none;
}

struct Extra {
  CostRow row;
  double times;
};

/** Bits of the mean beyond those of row `adaptive`; may be negative. */
double planes_beyond(const Coding& coding) {
  return coding.adaptive() ? coding.mean_half_bits / 2.0 - kCostMeanBits : 0;
}

}  // namespace

double cached_share(const CostConstants& constants, double touched_bytes) {
  if (touched_bytes <= constants.cache_bytes) return 1;
  return std::max(0.0, 2 - touched_bytes / constants.cache_bytes);
}

CodecCost codec_cost(const CostConstants& constants, const Coding& coding, double cached_share) {
  const bool fixed = !coding.grouped();
  const auto paid = [](bool is_paid) { return is_paid ? 1.0 : 0.0; };
  const Extra extras[] = {
      {base_row(coding), 1},
      {CostRow::planes, planes_beyond(coding)},
      {CostRow::blocks, paid(fixed && coding.block != 0)},
      {CostRow::correlated, paid(fixed && coding.rounding == Rounding::correlated)},
      {CostRow::rotated, paid(coding.rotated)},
      {CostRow::rescaled, paid(fixed && coding.rescale)},
      {CostRow::subtractive, paid(coding.rounding_down == RoundingDown::subtractive)},
      {CostRow::averaged,
       paid(coding.levels == Levels::linear && coding.combine == Combine::average)},
  };
  CodecCost cost;
  for (size_t stage = 0; stage < kCostStageCount; ++stage) {
    for (const Extra& extra : extras) {
      const StageCost& one = constants.stages[static_cast<size_t>(extra.row)][stage];
      const double value_ns = one.cached * cached_share + one.streamed * (1 - cached_share);
      cost.value_ns[stage] += extra.times * value_ns;
      cost.range_ns[stage] += extra.times * one.range;
    }
    cost.value_ns[stage] = std::max(0.0, cost.value_ns[stage]);
    cost.range_ns[stage] = std::max(0.0, cost.range_ns[stage]);
  }
  return cost;
}

}  // namespace gq
