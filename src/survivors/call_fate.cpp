// What the members have in common decides: how far apart they are, and who has or takes a result.
#include "src/survivors/call_fate.h"

#include <algorithm>

namespace gq {

void decide_calls(const std::vector<CallReport>& reports, const RankSet& members,
                  Proposal* proposal) {
  uint64_t least = UINT64_MAX;
  bool streams = false;
  for (uint32_t rank = 0; rank < reports.size(); ++rank) {
    if (!members.has(rank)) continue;
    const CallReport& report = reports[rank];
    proposal->step = std::max(proposal->step, report.step);
    proposal->ended = std::max(proposal->ended, report.ended);
    least = std::min(least, report.ended);
    streams = streams || report.uses_streams != 0;
  }
  bool can_give = false, all_take = true, can_repeat = true;
  uint32_t digest = 0;
  bool first = true;
  for (uint32_t rank = 0; rank < reports.size(); ++rank) {
    if (!members.has(rank)) continue;
    const CallReport& report = reports[rank];
    if (!first && report.costs_digest != digest) proposal->costs_differ = 1;
    digest = report.costs_digest;
    first = false;
    if (report.ended < proposal->ended) {
      all_take = all_take && report.takes_result != 0;
      continue;
    }
    can_repeat = can_repeat && (report.has_result == 0 || report.is_in_place == 0);
    if (report.has_result == 0 || report.is_kept == 0 || can_give) continue;
    can_give = true;
    proposal->source = rank;
  }
  proposal->fate = CallFate::differs;
  if (streams || proposal->ended - least > 1) return;
  if (proposal->ended == least) {
    proposal->fate = CallFate::repeat;
  } else if (can_give && all_take) {
    proposal->fate = CallFate::hand_over;
  } else if (can_repeat) {
    proposal->fate = CallFate::repeat_finished;
  }
  if (proposal->fate != CallFate::hand_over) proposal->source = 0;
}

}  // namespace gq
