// What each stage of one call costs per value: rows of the constants, added up for a format.
#ifndef GQ_PLAN_COST_COST_CODEC_H
#define GQ_PLAN_COST_COST_CODEC_H

#include <stdint.h>

#include "kernels/codec/formats.h"
#include "src/plan/cost/cost_constants.h"

namespace gq {

/** Nanoseconds by CostStage: for one value, and for a range. */
struct CodecCost {
  double value_ns[kCostStageCount] = {};
  double range_ns[kCostStageCount] = {};

  double of(CostStage stage, uint64_t value_count) const {
    const size_t i = static_cast<size_t>(stage);
    return range_ns[i] + static_cast<double>(value_count) * value_ns[i];
  }
};

/** `cached_share`: the fraction of the call's memory that stays in a cache, 0 to 1. */
CodecCost codec_cost(const CostConstants& constants, const Coding& coding, double cached_share);

/** What stays in a cache when ranks that share it touch `touched_bytes` over and over: all that
 * fits, and nothing of twice as much, since a cyclic access finds its data evicted. */
double cached_share(const CostConstants& constants, double touched_bytes);

}  // namespace gq

#endif
