// One word, the number of unclaimed tiles, is the whole protocol: a thread that decrements it owns
// a tile. Sleepers and wakers write their own word before they read the other's, in one total
// order, so that no wake is lost.
#include "src/execute/workers.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <new>

#include "src/support/clock.h"
#include "src/support/relax.h"

namespace gq {
namespace {

constexpr uint32_t kStopped = UINT32_MAX;

// Longer than the time between the stages of a call that waits for no rank, and short beside the
// time that a waiting rank sleeps at once.
constexpr uint64_t kLookNs = 20000;
constexpr uint32_t kLooksPerClock = 32;

/** Looks until `word` is no longer `value`, for kLookNs at most; its last value. */
uint32_t look_at(const std::atomic<uint32_t>& word, uint32_t value) {
  const uint64_t until_ns = monotonic_ns() + kLookNs;
  for (uint32_t looks = 1;; ++looks) {
    const uint32_t seen = word.load(std::memory_order_acquire);
    if (seen != value) return seen;
    if (looks % kLooksPerClock == 0 && monotonic_ns() >= until_ns) return value;
    relax();
  }
}

/** Sleeps while `word` is `value`; may return early. */
void sleep_on(std::atomic<uint32_t>* word, uint32_t value) {
  syscall(SYS_futex, word, FUTEX_WAIT | FUTEX_PRIVATE_FLAG, value, nullptr, nullptr, 0);
}

void wake(std::atomic<uint32_t>* word, uint32_t sleepers) {
  syscall(SYS_futex, word, FUTEX_WAKE | FUTEX_PRIVATE_FLAG, sleepers, nullptr, nullptr, 0);
}

}  // namespace

Status Workers::start(uint32_t thread_count, uint32_t rank, uint32_t operand_count) {
  if (thread_count == 1) return Status();
  workers_.reset(new (std::nothrow) Worker[thread_count - 1]);
  operands_.reset(new (std::nothrow)
                      const uint32_t*[static_cast<size_t>(thread_count) * operand_count]);
  if (!workers_ || !operands_) {
    return fail(GQSGD_NO_MEMORY, "rank %u: no memory for %u threads", rank, thread_count);
  }
  operand_count_ = operand_count;
  for (uint32_t number = 1; number < thread_count; ++number) {
    Worker& worker = workers_[number - 1];
    worker.workers = this;
    worker.number = number;
    GQ_TRY(worker.thread.begin(work_on, &worker, rank, "for the option threads"));
    thread_count_ = number + 1;  // those that stop() ends
  }
  return Status();
}

Status Workers::reserve_scratch(size_t size_bytes) {
  if (size_bytes <= scratch_bytes_) return Status();
  scratch_bytes_ = 0;
  scratch_.reset(new (std::nothrow) unsigned char[thread_count_ * size_bytes]);
  if (!scratch_) {
    return fail(GQSGD_NO_MEMORY, "no memory for the groups of %u threads", thread_count_);
  }
  scratch_bytes_ = size_bytes;
  return Status();
}

void Workers::stop() {
  if (!workers_) return;
  unclaimed_.store(kStopped, std::memory_order_seq_cst);
  wake(&unclaimed_, kThreadsMax);
  for (uint32_t number = 1; number < thread_count_; ++number) workers_[number - 1].thread.join();
  thread_count_ = 1;
}

void* Workers::work_on(void* worker) {
  const Worker& self = *static_cast<Worker*>(worker);
  while (self.workers->await_job()) self.workers->work(self.number);
  return nullptr;
}

/** False when there will be none. */
bool Workers::await_job() {
  for (;;) {
    const uint32_t seen = look_at(unclaimed_, 0);
    if (seen != 0) return seen != kStopped;
    sleepers_.fetch_add(1, std::memory_order_seq_cst);
    if (unclaimed_.load(std::memory_order_seq_cst) == 0) sleep_on(&unclaimed_, 0);
    sleepers_.fetch_sub(1, std::memory_order_seq_cst);
  }
}

void Workers::run(uint32_t part_count, Job job, const void* context) {
  job_ = job;
  context_ = context;
  part_count_ = part_count;
  unmade_.store(part_count, std::memory_order_relaxed);
  unclaimed_.store(part_count, std::memory_order_seq_cst);
  const uint32_t sleepers = sleepers_.load(std::memory_order_seq_cst);
  if (sleepers > 0) wake(&unclaimed_, std::min(sleepers, part_count - 1));
  work(0);
  await_parts();
}

/** A count that is not 0 belongs to a job with unfinished tiles, so its fields stay valid. */
bool Workers::claim(uint32_t* part) {
  uint32_t left = unclaimed_.load(std::memory_order_relaxed);
  do {
    if (left == 0 || left == kStopped) return false;
  } while (!unclaimed_.compare_exchange_weak(left, left - 1, std::memory_order_acq_rel,
                                             std::memory_order_relaxed));
  *part = part_count_ - left;
  return true;
}

void Workers::work(uint32_t thread) {
  for (uint32_t part = 0; claim(&part);) {
    job_(context_, part, thread);
    const bool last = unmade_.fetch_sub(1, std::memory_order_seq_cst) == 1;
    if (last && caller_sleeps_.load(std::memory_order_seq_cst) != 0) wake(&unmade_, 1);
  }
}

/** Those that others have claimed. A thread that lost its processor may hold one for long. */
void Workers::await_parts() {
  uint32_t left = unmade_.load(std::memory_order_acquire);
  while (left != 0) {
    const uint32_t seen = look_at(unmade_, left);
    if (seen == left) {
      caller_sleeps_.store(1, std::memory_order_seq_cst);
      if (unmade_.load(std::memory_order_seq_cst) == left) sleep_on(&unmade_, left);
      caller_sleeps_.store(0, std::memory_order_relaxed);
      left = unmade_.load(std::memory_order_acquire);
    } else {
      left = seen;
    }
  }
}

}  // namespace gq
