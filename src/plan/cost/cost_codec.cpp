// Which rows of the constants a format pays.
#include "src/plan/cost/cost_codec.h"

#include <algorithm>

namespace gq {
namespace {

CostRow base_row(const Coding& coding) {
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
    case Levels::none:
      break;
  }
  return CostRow::none;
}

struct Extra {
  CostRow row;
  bool paid;
};

}  // namespace

double cached_share(const CostConstants& constants, double touched_bytes) {
  if (touched_bytes <= constants.cache_bytes) return 1;
  return std::max(0.0, 2 - touched_bytes / constants.cache_bytes);
}

CodecCost codec_cost(const CostConstants& constants, const Coding& coding, double cached_share) {
  const Extra extras[] = {
      {base_row(coding), true},
      {CostRow::blocks, coding.block != 0},
      {CostRow::correlated, coding.rounding == Rounding::correlated},
      {CostRow::rotated, coding.rotated},
      {CostRow::rescaled, coding.rescale},
      {CostRow::subtractive, coding.rounding_down == RoundingDown::subtractive},
      {CostRow::averaged, coding.levels == Levels::linear && coding.combine == Combine::average},
  };
  CodecCost cost;
  for (const Extra& extra : extras) {
    if (!extra.paid) continue;
    for (size_t stage = 0; stage < kCostStageCount; ++stage) {
      const StageCost& one = constants.stages[static_cast<size_t>(extra.row)][stage];
      cost.value_ns[stage] += one.cached * cached_share + one.streamed * (1 - cached_share);
      cost.range_ns[stage] += one.range;
    }
  }
  return cost;
}

}  // namespace gq
