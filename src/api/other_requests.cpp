// Each thread remembers what it has started.
#include "src/api/other_requests.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace gq {
namespace {

using Started = std::vector<std::weak_ptr<Communicator>>;

thread_local Started started;

/** Whether requests are left, which another thread may be in. */
bool makes_progress(std::shared_ptr<Communicator> communicator) {
  ExclusiveAccess access;
  if (!access.enter(std::move(communicator)).ok()) return true;
  access->requests.look();
  return !access->requests.is_empty();
}

}  // namespace

void note_request(const std::shared_ptr<Communicator>& communicator) {
  const bool is_noted = std::any_of(started.begin(), started.end(), [&](const auto& noted) {
    return noted.lock() == communicator;
  });
  if (!is_noted) started.push_back(communicator);
}

bool progress_other_requests(const Endpoint* waiting) {
  bool has_others = false;
  std::erase_if(started, [&](const auto& noted) {
    std::shared_ptr<Communicator> communicator = noted.lock();
    if (communicator == nullptr) return true;
    if (&communicator->endpoint == waiting) return false;
    const bool has_more = makes_progress(std::move(communicator));
    has_others = has_others || has_more;
    return !has_more;
  });
  return has_others;
}

}  // namespace gq
