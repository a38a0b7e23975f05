// Sorted by address, neighbours are all that can overlap.
#include "src/api/extents.h"

#include <algorithm>

namespace gq {
namespace {

Status overlap_failure(const char* list, size_t a, size_t b) {
  return fail(GQSGD_INVALID_ARGUMENT,
              "%s[%zu] and recv[%zu] overlap; buffers must be disjoint, but for a result in place "
              "of its own values",
              list, a, b);
}

}  // namespace

Status check_disjoint(std::vector<Extent>* written, const std::vector<Extent>& read) {
  std::sort(written->begin(), written->end(),
            [](const Extent& a, const Extent& b) { return a.begin < b.begin; });
  for (size_t k = 1; k < written->size(); ++k) {
    const Extent &before = (*written)[k - 1], &after = (*written)[k];
    if (after.begin < before.end) return overlap_failure("recv", before.number, after.number);
  }
  for (const Extent& send : read) {
    auto recv =
        std::lower_bound(written->begin(), written->end(), send.begin,
                         [](const Extent& extent, uintptr_t begin) { return extent.end <= begin; });
    for (; recv != written->end() && recv->begin < send.end; ++recv) {
      const bool in_place = recv->number == send.number && recv->begin == send.begin;
      if (!in_place) return overlap_failure("send", send.number, recv->number);
    }
  }
  return Status();
}

}  // namespace gq
