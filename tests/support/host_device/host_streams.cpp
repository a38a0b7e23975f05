// Queues and counters; a graph is a list of what makes work, and knows what has come back.
#include "tests/support/host_device/host_streams.h"

#include <algorithm>
#include <chrono>

#include "tests/support/host_device/enqueue_counts.h"

namespace gq::test {
namespace {

void take(HostStream* stream, void (*work)(void*), void (*release)(void*), void* argument) {
  const std::shared_ptr<void> held(argument, release);
  enqueue_counts().collectives += 1;
  static_cast<Stream*>(stream)->run([work, held] { work(held.get()); });
}

}  // namespace

Stream& stream_of(void* handle) {
  static Stream* const default_stream = new Stream(0);
  return handle == nullptr ? *default_stream : *static_cast<Stream*>(handle);
}

void sleep_ms(int time_ms) {
  if (time_ms > 0) std::this_thread::sleep_for(std::chrono::milliseconds(time_ms));
}

Stream::Stream(int32_t of_ordinal)
    : HostStream{take}, ordinal(of_ordinal), thread_([this] { work(); }) {}

Stream::~Stream() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    closing_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void Stream::run(Work work) {
  if (const auto graph = capture()) return graph->add(this, [work] { return work; });
  const std::lock_guard<std::mutex> lock(mutex_);
  queue_.push_back(std::move(work));
  changed_.notify_all();
}

void Stream::run_at_replay(WorkMaker make) { capture()->add(this, std::move(make)); }

void Stream::begin_capture() { join_capture(std::make_shared<Capture>(this)); }

std::shared_ptr<Capture> Stream::capture() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return capture_;
}

void Stream::join_capture(const std::shared_ptr<Capture>& capture) {
  const std::lock_guard<std::mutex> lock(mutex_);
  capture_ = capture;
}

void Stream::leave_capture() {
  const std::lock_guard<std::mutex> lock(mutex_);
  capture_.reset();
}

void Stream::work() {
  std::unique_lock<std::mutex> lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return !queue_.empty() || closing_; });
    if (queue_.empty()) return;
    const Work next = std::move(queue_.front());
    queue_.pop_front();
    lock.unlock();
    next();
    lock.lock();
  }
}

size_t Capture::branch_of(Stream* stream) {
  const auto found = std::find_if(branches_.begin(), branches_.end(),
                                  [&](const Branch& branch) { return branch.stream == stream; });
  const size_t number = static_cast<size_t>(found - branches_.begin());
  if (found == branches_.end()) branches_.push_back({stream, {}, nullptr});
  for (Branch& branch : branches_) branch.known.resize(branches_.size());
  return number;
}

void Capture::add(Stream* stream, WorkMaker make) {
  const size_t number = branch_of(stream);
  branches_[number].known[number] += 1;
  nodes_.push_back({number, std::move(make)});
}

std::vector<size_t> Capture::known_to(Stream* stream) { return branches_[branch_of(stream)].known; }

void Capture::learn(Stream* stream, const std::vector<size_t>& known) {
  std::vector<size_t>& own = branches_[branch_of(stream)].known;
  for (size_t k = 0; k < known.size(); ++k) own[k] = std::max(own[k], known[k]);
}

bool Capture::end() {
  ended_ = true;
  bool whole = true;
  for (size_t k = 0; k < branches_.size(); ++k) {
    branches_[k].stream->leave_capture();
    whole = whole && branches_[0].known[k] == branches_[k].known[k];
  }
  return whole;
}

void Capture::replay(Stream* stream) {
  for (const Node& node : nodes_) {
    std::unique_ptr<Stream>& own = branches_[node.branch].at_replay;
    if (node.branch > 0 && !own) own = std::make_unique<Stream>(stream->ordinal);
    (node.branch > 0 ? own.get() : stream)->run(node.make());
  }
}

Work record_of(const std::shared_ptr<EventState>& state) {
  const std::lock_guard<std::mutex> lock(state->mutex);
  return [state, number = ++state->recorded] {
    const std::lock_guard<std::mutex> come(state->mutex);
    state->come = std::max(state->come, number);
    state->changed.notify_all();
  };
}

Work wait_of(const std::shared_ptr<EventState>& state) {
  const std::lock_guard<std::mutex> lock(state->mutex);
  return [state, number = state->recorded] {
    std::unique_lock<std::mutex> come(state->mutex);
    state->changed.wait(come, [&] { return state->come >= number; });
  };
}

void record(Event* event, Stream* stream) {
  event->capture = stream->capture();
  if (!event->capture) return stream->run(record_of(event->state));
  event->captured = std::make_shared<EventState>(event->state->ordinal);
  stream->run_at_replay([state = event->captured] { return record_of(state); });
  event->known = event->capture->known_to(stream);
}

bool wait(Stream* stream, const Event& event) {
  const std::shared_ptr<Capture> capture = stream->capture();
  if (!event.capture) {
    if (!capture) stream->run(wait_of(event.state));
    return !capture;
  }
  const bool elsewhere = capture && capture != event.capture;
  if (elsewhere || event.capture->has_ended()) return false;
  if (!capture) stream->join_capture(event.capture);
  stream->run_at_replay([state = event.captured] { return wait_of(state); });
  event.capture->learn(stream, event.known);
  return true;
}

}  // namespace gq::test
