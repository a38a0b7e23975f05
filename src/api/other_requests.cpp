// Each thread remembers what it has started.
#include "src/api/other_requests.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace gq {
namespace {

using Started = std::vector<std::weak_ptr<Communicator>>;

thread_local Started started;

/** False once there is nothing to come back for. */
bool progress(const std::weak_ptr<Communicator>& noted, const Endpoint* waiting) {
  std::shared_ptr<Communicator> communicator = noted.lock();
  if (communicator == nullptr) return false;
  if (&communicator->endpoint == waiting) return true;
  ExclusiveAccess access;
  if (!access.enter(std::move(communicator)).ok()) return true;  // another thread is in it
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
  const auto has_ended = [&](const auto& noted) { return !progress(noted, waiting); };
  started.erase(std::remove_if(started.begin(), started.end(), has_ended), started.end());
  return std::any_of(started.begin(), started.end(), [&](const auto& noted) {
    const std::shared_ptr<Communicator> communicator = noted.lock();
    return communicator != nullptr && &communicator->endpoint != waiting;
  });
}

}  // namespace gq
