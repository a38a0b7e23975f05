// Ranks as an error sentence writes them: "2,5-9", and how many more where there is no space for
// all.
#ifndef GQ_SUPPORT_RANK_LIST_H
#define GQ_SUPPORT_RANK_LIST_H

#include <stddef.h>
#include <stdint.h>

namespace gq {

class RankList {
 public:
  /** Ranks are added in increasing order. */
  void add(uint32_t rank);

  uint32_t count() const { return count_; }

  /** "none" if there are none. At most kBytes - 1 characters; valid while this object is. */
  const char* text();

  static constexpr size_t kBytes = 80;

 private:
  void write_range();

  char text_[kBytes] = "";
  size_t used_ = 0;
  uint32_t count_ = 0;
  uint32_t written_count_ = 0;
  uint32_t first_ = 0, last_ = 0;  // the range that ranks are being added to
  bool is_open_ = false;
};

}  // namespace gq

#endif
