#include "tests/gpu/ptx/order.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>

#include "tests/gpu/ptx/finding.h"

namespace gq::ptx {
namespace {

constexpr size_t kPartsMax = 256;  // before those are dropped that are known anyway

std::atomic<uint64_t> operations{0};
std::atomic<uint32_t> streams{0};

struct Hosts {
  std::mutex mutex;
  Clock clock;
};
Hosts& hosts() {
  static Hosts* const all = new Hosts;
  return *all;
}

struct Words {
  std::mutex mutex;
  std::map<uint64_t, Clock> released;  // by address
};
Words& words() {
  static Words* const all = new Words;
  return *all;
}

std::string name_of(const Stamp& stamp) {
  return "operation " + std::to_string(stamp.operation) + " of stream " +
         std::to_string(stamp.stream) + ", block " + std::to_string(stamp.block);
}

bool is_one(const Stamp& a, const Stamp& b) {
  return a.operation == b.operation && a.block == b.block;
}

void check(const Stamp& earlier, const char* what, const Actor& actor) {
  if (earlier.operation == 0 || is_one(earlier, actor.stamp)) return;
  if (actor.before.knows(earlier)) return;
  throw Finding("a race in global memory: nothing puts this access by " + name_of(actor.stamp) +
                " and " + what + " by " + name_of(earlier) + " into an order");
}

}  // namespace

bool order_is_checked() {
  static const bool checked = getenv("GQ_PTX_ORDER") != nullptr;
  return checked;
}

void Clock::join(uint32_t stream, uint64_t operation) {
  if (streams_.size() <= stream) streams_.resize(stream + 1);
  streams_[stream] = std::max(streams_[stream], operation);
}

Clock::Parts& Clock::own_parts() {
  if (parts_ == nullptr) {
    parts_ = std::make_shared<Parts>();
  } else if (parts_.use_count() > 1) {
    parts_ = std::make_shared<Parts>(*parts_);
  }
  // What the thread that let go of them last has read is before what is written now.
  std::atomic_thread_fence(std::memory_order_acquire);
  return *parts_;
}

void Clock::join(const Stamp& part) {
  const Block block{part.operation, part.block};
  if (parts_ != nullptr) {
    const auto known = parts_->find(block);
    if (known != parts_->end() && known->second.release >= part.release) return;
  }
  own_parts()[block] = part;
}

void Clock::join(const Clock& other) {
  for (uint32_t stream = 0; stream < other.streams_.size(); ++stream) {
    join(stream, other.streams_[stream]);
  }
  if (other.parts_ == nullptr || other.parts_ == parts_) return;
  if (parts_ == nullptr) {
    parts_ = other.parts_;
  } else {
    for (const auto& [block, part] : *other.parts_) join(part);
  }
  if (parts_->size() < kPartsMax) return;
  std::erase_if(own_parts(), [&](const auto& part) {
    const Stamp& stamp = part.second;
    return stamp.stream < streams_.size() && streams_[stamp.stream] >= stamp.operation;
  });
}

bool Clock::knows(const Stamp& stamp) const {
  if (stamp.stream < streams_.size() && streams_[stamp.stream] >= stamp.operation) return true;
  if (parts_ == nullptr) return false;
  const auto part = parts_->find({stamp.operation, stamp.block});
  return part != parts_->end() && part->second.release >= stamp.release;
}

void AreaOrder::touch(size_t offset, size_t size_bytes, bool writes, const Actor& actor) {
  const size_t first = (offset + 3) / 4, end = (offset + size_bytes) / 4;
  const std::lock_guard<std::mutex> lock(mutex_);
  for (size_t k = first; k < end; ++k) {
    Word& word = words_[k];
    check(word.written, "a write", actor);
    if (writes) check(word.read, "a read", actor);
    (writes ? word.written : word.read) = actor.stamp;
  }
}

OrderedStream::OrderedStream() : number(streams++) {}

OrderedStream& this_stream() {
  thread_local OrderedStream own;
  return own;
}

Actor begin_operation(const OrderedStream& stream) {
  Actor actor;
  actor.stamp.operation = ++operations;
  actor.stamp.stream = stream.number;
  actor.before = stream.clock;
  return actor;
}

void end_operation(const Stamp& stamp, const Clock& acquired, OrderedStream* stream) {
  stream->clock.join(acquired);
  stream->clock.join(stamp.stream, stamp.operation);
}

void Mark::record() {
  const std::lock_guard<std::mutex> lock(mutex_);
  clock_.join(this_stream().clock);
}

void Mark::wait() {
  const std::lock_guard<std::mutex> lock(mutex_);
  this_stream().clock.join(clock_);
}

void Mark::order_hosts_after() {
  const std::lock_guard<std::mutex> lock(mutex_);
  const std::lock_guard<std::mutex> hosts_lock(hosts().mutex);
  hosts().clock.join(clock_);
}

Clock hosts_now() {
  const std::lock_guard<std::mutex> lock(hosts().mutex);
  return hosts().clock;
}

void follow_hosts(const Clock& known) { this_stream().clock.join(known); }

void release(uint64_t address, Actor* actor) {
  Clock known = actor->before;
  known.join(actor->stamp);
  actor->stamp.release += 1;
  const std::lock_guard<std::mutex> lock(words().mutex);
  words().released[address] = std::move(known);
}

void acquire(uint64_t address, Actor* actor) {
  const std::lock_guard<std::mutex> lock(words().mutex);
  const auto found = words().released.find(address);
  if (found != words().released.end()) actor->before.join(found->second);
}

void poll(uint64_t address, Actor* actor) { actor->polled.insert(address); }

void fence(Actor* actor) {
  for (const uint64_t address : actor->polled) acquire(address, actor);
  actor->polled.clear();
}

}  // namespace gq::ptx
