// Who works on the first request, and how the others wait for it.
#include "src/call/request_queue.h"

#include <utility>

#include "kernels/cpu/float_environment.h"

namespace gq {

Status RequestQueue::start(std::shared_ptr<Request> request) {
  const std::lock_guard<std::mutex> lock(mutex_);
  GQ_TRY(check_open());
  if (!endpoint_->on_callers_threads() && !thread_.is_there()) {
    GQ_TRY(thread_.begin(work_on, this, endpoint_->rank(), "for requests"));
  }
  Request* added = request.get();
  (first_ == nullptr ? first_ : last_->next_) = std::move(request);
  last_ = added;
  work_.notify_one();
  return Status();
}

bool RequestQueue::test(const Request& request) {
  if (endpoint_->on_callers_threads()) progress(&request, false);
  return request.has_ended();
}

void RequestQueue::wait(const Request& request) {
  if (endpoint_->on_callers_threads()) return progress(&request, true);
  std::unique_lock<std::mutex> lock(mutex_);
  ended_.wait(lock, [&] { return request.has_ended(); });
}

bool RequestQueue::is_empty() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return first_ == nullptr;
}

void RequestQueue::drain() {
  if (endpoint_->on_callers_threads()) return progress(nullptr, true);
  std::unique_lock<std::mutex> lock(mutex_);
  ended_.wait(lock, [&] { return first_ == nullptr; });
}

Status RequestQueue::await_turn() {
  drain();
  const std::lock_guard<std::mutex> lock(mutex_);
  return check_open();
}

void RequestQueue::close() {
  {
    std::unique_lock<std::mutex> lock(mutex_);
    closing_ = true;
    if (first_ != nullptr) abort_group(*endpoint_, "was destroyed during a call");
    // The thread that runs the first one ends it, and the others after it. It notices the abort.
    ended_.wait(lock, [this] { return !driven_; });
    while (!thread_.is_there() && first_ != nullptr) finish_first(endpoint_->failure.get());
    work_.notify_all();
  }
  thread_.join();
}

Status RequestQueue::check_open() const {
  if (!closing_) return Status();
  return fail(GQSGD_ABORTED, "rank %u was destroyed during a call", endpoint_->rank());
}

void* RequestQueue::work_on(void* queue) {
  static_cast<RequestQueue*>(queue)->work();
  return nullptr;
}

void RequestQueue::work() {
  const FloatEnvironment environment;  // as callers of the library have it for the time of a call
  std::unique_lock<std::mutex> lock(mutex_);
  for (;;) {
    work_.wait(lock, [&] { return first_ != nullptr || closing_; });
    if (first_ == nullptr) return;
    const Request& request = *first_;
    lock.unlock();
    const Status status = allreduce(*endpoint_, request.call(), request.status());
    lock.lock();
    finish_first(status);
  }
}

/** `until` nullptr: until there is no request left. */
void RequestQueue::progress(const Request* until, bool may_sleep) {
  std::unique_lock<std::mutex> lock(mutex_);
  driven_ = true;
  while (first_ != nullptr && (until == nullptr || !until->has_ended())) {
    lock.unlock();
    const bool ended = progress_first(may_sleep);
    lock.lock();
    if (!ended) break;
    finish_first(loop_.status());
  }
  driven_ = false;
  while (closing_ && first_ != nullptr) finish_first(endpoint_->failure.get());
  ended_.notify_all();
}

/** False if it has to be waited for. A broken communicator ends what has not begun at once. */
bool RequestQueue::progress_first(bool may_sleep) {
  if (loop_.has_ended()) loop_.begin(*endpoint_, first_->call(), first_->status());
  while (!loop_.advance()) {
    may_sleep ? loop_.wait() : loop_.look();
    if (!may_sleep) break;
  }
  return loop_.has_ended();
}

void RequestQueue::finish_first(Status status) {
  const std::shared_ptr<Request> done = std::move(first_);
  first_ = std::move(done->next_);
  done->end(status);
  ended_.notify_all();
}

}  // namespace gq
