// Whose roundings a stage's are correlated with: those of other ranks, or of other nodes
// (docs/FORMAT.md, sections 5 and 10).
#ifndef GQ_KERNELS_ROUNDING_STRATA_H
#define GQ_KERNELS_ROUNDING_STRATA_H

#include "kernels/codec/strata.h"
#include "kernels/stages.h"

namespace gq {

/** Of quantize: a stratum beside those of other ranks, if rounding is correlated. */
GQ_HD Strata strata_of_quantize(const Coding& coding, const RandomSite& site) {
  const bool is_correlated = coding.rounding == Rounding::correlated;
  return is_correlated ? strata_of(site.rank, coding.ranks) : whole_stratum();
}

/** Of the re-encode of a wide sum: that of a node beside those of other nodes. */
GQ_HD Strata strata_of_sum(const Coding& coding, const RandomSite& site) {
  const bool is_random = coding.rounding_down == RoundingDown::random;
  const bool is_correlated = coding.rounding == Rounding::correlated && is_random && site.nodes > 0;
  return is_correlated ? strata_of(site.node, site.nodes, site.hop) : whole_stratum();
}

/** Whether that sum has such a stratum. */
GQ_HD bool has_strata(const ReduceManyArgs& args) {
  return strata_of_sum(args.coding, args.random).count > 1;
}

}  // namespace gq

#endif
