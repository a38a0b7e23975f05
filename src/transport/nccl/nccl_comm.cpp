// Deadlines for an NCCL that has none, and a destruction with a bounded wait.
#include "src/transport/nccl/nccl_comm.h"

#include <inttypes.h>
#include <sched.h>

#include <new>

#include "src/support/clock.h"
#include "src/support/shown.h"
#include "src/transport/nccl/nccl_aside.h"
#include "src/transport/nccl/nccl_join.h"

namespace gq {
namespace {

// NCCL's own work of setting up takes milliseconds. An operation of a communicator that does not
// block is enqueued by a new thread of NCCL, within tens of microseconds. A nap takes 50 more than
// it is asked to, which is the system's timer slack.
constexpr uint64_t kSpinUs = 200;
constexpr long kNapNs = 20000;

// What an end may take of the caller's time; the thread continues without it.
constexpr int64_t kEndMs = 5000;

// What an operation under way may take to end by itself before the communicator is aborted under
// it, which is what NCCL offers for one that waits.
constexpr int64_t kGraceMs = 500;

void nap() {
  const timespec time{0, kNapNs};
  nanosleep(&time, nullptr);
}

}  // namespace

NcclComm::~NcclComm() {
  if (was_aborted()) give_up();
  if (owner_ == Owner::us && !was_aborted()) end_by(library_.destroy);
  (void)wait_for_end();
}

/** Counted first, then looked at: an abort that is not seen here waits for the count. */
NcclComm::Inside::Inside(NcclComm* comm) : comm_(*comm) {
  comm_.ending_->inside.fetch_add(1);
  if (comm_.was_aborted()) begun_ = comm_.ended("an operation");
}

NcclComm::Inside::~Inside() { comm_.ending_->inside.fetch_sub(1); }

NcclComm::Operation::Operation(NcclComm* comm, const char* call) : Inside(comm) {
  if (comm_.is_asked_alone()) alone_ = std::unique_lock(comm_.alone_);
  comm_.call_.store(call, std::memory_order_relaxed);
  comm_.since_us_.store(monotonic_us(), std::memory_order_release);
}

Status NcclComm::make_ending() {
  try {
    ending_ = std::make_shared<Ending>();
  } catch (const std::bad_alloc&) {
    return fail(GQSGD_NO_MEMORY, "no memory for a communicator of NCCL");
  }
  return Status();
}

bool NcclComm::wait_for_end() const {
  const uint64_t deadline_us = end_deadline_us_.load();
  if (deadline_us == 0) return true;
  while (!ending_->done.load(std::memory_order_acquire)) {
    if (ending_->failed.load() || monotonic_us() >= deadline_us) return false;
    nap();
  }
  return true;
}

void NcclComm::end_by(nccl::Result (*function)(nccl::Comm)) {
  uint64_t not_begun = 0;
  if (!end_deadline_us_.compare_exchange_strong(not_begun, deadline_after_ms(kEndMs))) return;
  const bool begun = run_aside([ending = ending_, function, comm = get(), ordinal = ordinal_,
                                device = &device_] {
    (void)device->set_current(ordinal).ok();
    const uint64_t deadline_us = deadline_after_ms(kGraceMs);
    while (ending->inside.load() > 0 && monotonic_us() < deadline_us) nap();
    (void)function(comm);
    ending->done.store(true, std::memory_order_release);
  });
  if (!begun) ending_->failed.store(true);
}

void NcclComm::give_up() {
  aborted_.store(true);
  if (owner_ == Owner::us) end_by(library_.abort);
}

Status NcclComm::init(const nccl::Id& id, int ranks, int rank) {
  const NcclPlace place{id, ranks, rank, ordinal_, blocks_};
  const uint64_t deadline_us = deadline_after_ms(timeout_ms_);
  nccl::Result result = nccl::kSuccess;
  const std::shared_ptr<nccl::Comm> comm(ending_, &ending_->comm);
  GQ_TRY(join_aside(device_, library_, place, deadline_us, comm, &result));
  if (get() != nullptr) owner_ = Owner::us;
  if (result == nccl::kInProgress) blocks_ = false;  // NCCL_COMM_BLOCKING overrides what is wanted
  const Status formed = through(result, "ncclCommInitRankConfig");
  if (!formed.ok()) give_up();  // NCCL destroys none that has an error
  return formed;
}

Status NcclComm::join(const nccl::Id& id, int ranks, int rank) {
  GQ_TRY(device_.current(&ordinal_));
  GQ_TRY(make_ending());
  const Status joined = init(id, ranks, rank);
  if (joined.code() != GQSGD_TIMEOUT) return joined;
  return fail(GQSGD_TIMEOUT,
              "rank %d waited %" PRId64
              " ms for %d ranks to join by NCCL, which does not say who is missing (timeout_ms "
              "sets the limit)",
              rank, timeout_ms_.load(), ranks);
}

Status NcclComm::borrow(nccl::Comm comm) {
  GQ_TRY(make_ending());
  ending_->comm = comm;
  owner_ = Owner::caller;
  nccl::Result state = nccl::kSuccess;
  GQ_TRY(through(library_.async_error(get(), &state), "ncclCommGetAsyncError"));
  return through(state, "the communicator");
}

Status NcclComm::ended(const char* call) {
  const std::lock_guard<std::mutex> lock(kept_mutex_);
  return kept_.ok() ? fail(GQSGD_ABORTED, "%s: aborted meanwhile", call) : kept_;
}

Status NcclComm::timed_out(const char* call) const {
  return fail(GQSGD_TIMEOUT, "%s: NCCL was not through after %" PRId64 " ms", call,
              timeout_ms_.load());
}

Status NcclComm::through(nccl::Result result, const char* call) {
  const uint64_t deadline_us = deadline_after_ms(timeout_ms_);
  const uint64_t spin_end_us = result == nccl::kInProgress ? monotonic_us() + kSpinUs : 0;
  while (result == nccl::kInProgress) {
    const uint64_t now_us = monotonic_us();
    if (was_aborted()) {
      give_up();
      return ended(call);
    }
    if (now_us >= deadline_us) {
      give_up();
      return timed_out(call);
    }
    if (now_us < spin_end_us) {
      sched_yield();
    } else {
      nap();
    }
    nccl::Result state = nccl::kSuccess;
    const nccl::Result asked = library_.async_error(get(), &state);
    result = asked == nccl::kSuccess ? state : asked;
  }
  if (result == nccl::kSuccess) return Status();
  if (was_aborted()) return ended(call);
  const char* more = library_.last_error(get());
  return fail(GQSGD_BACKEND, "%s: NCCL error %d (%s): %s [%s, version number %d]", call, result,
              library_.error_string(result),
              Shown(more == nullptr ? "" : more, Shown::kPathBytes).text(), library_.path,
              library_.version);
}

Status NcclComm::check() {
  const Inside inside(this);
  if (was_aborted()) {
    give_up();
    return ended("the NCCL communicator");
  }
  std::unique_lock<std::mutex> alone(alone_, std::defer_lock);
  if (is_asked_alone() && !alone.try_lock()) return Status();
  nccl::Result state = nccl::kSuccess;
  const nccl::Result asked = library_.async_error(get(), &state);
  if (asked != nccl::kSuccess) return through(asked, "ncclCommGetAsyncError");
  return state == nccl::kInProgress ? Status() : through(state, "an operation under way");
}

Status NcclComm::look() {
  const uint64_t since_us = since_us_.load(std::memory_order_acquire);
  const int64_t timeout_ms = timeout_ms_.load();
  const bool is_late = since_us != 0 && timeout_ms >= 0 &&
                       monotonic_us() - since_us >= static_cast<uint64_t>(timeout_ms) * 1000;
  const Status found = is_late ? timed_out(call_.load(std::memory_order_relaxed)) : check();
  if (found.ok()) return found;
  const std::lock_guard<std::mutex> lock(kept_mutex_);
  if (kept_.ok()) kept_ = found;
  return found;
}

}  // namespace gq
