// Ranges of ranks, as many as there is space for.
#include "src/support/rank_list.h"

#include <stdio.h>

namespace gq {
namespace {

// " and 4294967295 more"
constexpr size_t kRestBytes = 20;

}  // namespace

void RankList::add(uint32_t rank) {
  const bool extends = is_open_ && rank == last_ + 1;
  if (is_open_ && !extends) write_range();
  if (!extends) first_ = rank;
  last_ = rank;
  is_open_ = true;
  count_ += 1;
}

const char* RankList::text() {
  if (count_ == 0) return "none";
  if (is_open_) write_range();
  is_open_ = false;
  if (written_count_ < count_) {
    snprintf(text_ + used_, sizeof text_ - used_, " and %u more", count_ - written_count_);
  }
  return text_;
}

/** Nothing follows a range that did not fit: the ranks that are listed are the first ones. */
void RankList::write_range() {
  const uint32_t ranks = last_ - first_ + 1;
  if (count_ - ranks != written_count_) return;
  char range[24];
  const char* const comma = used_ == 0 ? "" : ",";
  const int length = ranks == 1 ? snprintf(range, sizeof range, "%s%u", comma, first_)
                                : snprintf(range, sizeof range, "%s%u-%u", comma, first_, last_);
  if (used_ + static_cast<size_t>(length) + kRestBytes >= sizeof text_) return;
  used_ += static_cast<size_t>(snprintf(text_ + used_, sizeof text_ - used_, "%s", range));
  written_count_ += ranks;
}

}  // namespace gq
