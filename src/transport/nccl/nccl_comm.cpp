// Polling instead of blocking, and a destruction with a bounded wait.
#include "src/transport/nccl/nccl_comm.h"

#include <inttypes.h>
#include <sched.h>
#include <signal.h>

#include <new>
#include <system_error>
#include <thread>

#include "src/support/clock.h"
#include "src/support/shown.h"

namespace gq {
namespace {

// NCCL's own work of setting up takes milliseconds. An operation of a communicator that does not
// block is enqueued by a new thread of NCCL, within tens of microseconds. A nap takes 50 more than
// it is asked to, which is the system's timer slack.
constexpr uint64_t kSpinUs = 200;
constexpr long kNapNs = 20000;

// What an end may take of the caller's time; the thread continues without it.
constexpr int64_t kEndMs = 5000;

void nap() {
  const timespec time{0, kNapNs};
  nanosleep(&time, nullptr);
}

/** A thread that receives no signal of the program. False if the system cannot start one. */
template <typename Body>
bool run_aside(Body body) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  bool begun = true;
  try {
    std::thread(body).detach();
  } catch (const std::system_error&) {
    begun = false;
  } catch (const std::bad_alloc&) {
    begun = false;
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return begun;
}

}  // namespace

NcclComm::~NcclComm() {
  if (was_aborted()) give_up();
  if (owner_ == Owner::us && !was_aborted()) end_by(library_.destroy);
  (void)wait_for_end();
}

bool NcclComm::wait_for_end() const {
  while (ending_ && !ending_->done.load(std::memory_order_acquire)) {
    if (monotonic_us() >= ending_->deadline_us) return false;
    nap();
  }
  return true;
}

void NcclComm::end_by(nccl::Result (*function)(nccl::Comm)) {
  try {
    ending_ = std::make_shared<Ending>();
    ending_->deadline_us = deadline_after_ms(kEndMs);
  } catch (const std::bad_alloc&) {
    return;  // A leaked communicator disturbs no other.
  }
  const bool begun = run_aside([ending = ending_, function, comm = comm_, ordinal = ordinal_,
                                device = &device_] {
    (void)device->set_current(ordinal).ok();
    (void)function(comm);
    ending->done.store(true, std::memory_order_release);
  });
  if (!begun) ending_.reset();
}

void NcclComm::give_up() {
  aborted_.store(true, std::memory_order_release);
  const bool first = !given_up_.exchange(true, std::memory_order_acq_rel);
  if (first && owner_ == Owner::us) end_by(library_.abort);
}

Status NcclComm::join(const nccl::Id& id, int ranks, int rank) {
  GQ_TRY(device_.current(&ordinal_));
  nccl::Config config;
  config.blocking = blocks_ ? 1 : 0;
  const nccl::Result result = library_.init(&comm_, ranks, id, rank, &config);
  if (comm_ != nullptr) owner_ = Owner::us;
  const Status joined = through(result, "ncclCommInitRankConfig");
  if (joined.code() != GQSGD_TIMEOUT) return joined;
  return fail(GQSGD_TIMEOUT,
              "rank %d waited %" PRId64
              " ms for %d ranks to join by NCCL, which does not say who is missing (timeout_ms "
              "sets the limit)",
              rank, timeout_ms_, ranks);
}

Status NcclComm::borrow(nccl::Comm comm) {
  comm_ = comm;
  owner_ = Owner::caller;
  nccl::Result state = nccl::kSuccess;
  GQ_TRY(through(library_.async_error(comm_, &state), "ncclCommGetAsyncError"));
  return through(state, "the communicator");
}

Status NcclComm::through(nccl::Result result, const char* call) {
  const uint64_t deadline_us = deadline_after_ms(timeout_ms_);
  const uint64_t spin_end_us = result == nccl::kInProgress ? monotonic_us() + kSpinUs : 0;
  while (result == nccl::kInProgress) {
    const uint64_t now_us = monotonic_us();
    if (was_aborted()) {
      give_up();
      return fail(GQSGD_ABORTED, "%s: aborted meanwhile", call);
    }
    if (now_us >= deadline_us) {
      give_up();
      return fail(GQSGD_TIMEOUT, "%s: NCCL was not through after %" PRId64 " ms", call,
                  timeout_ms_);
    }
    if (now_us < spin_end_us) {
      sched_yield();
    } else {
      nap();
    }
    nccl::Result state = nccl::kSuccess;
    const nccl::Result asked = library_.async_error(comm_, &state);
    result = asked == nccl::kSuccess ? state : asked;
  }
  if (result == nccl::kSuccess) return Status();
  if (was_aborted()) return fail(GQSGD_ABORTED, "%s: aborted meanwhile", call);
  const char* more = library_.last_error(comm_);
  return fail(GQSGD_BACKEND, "%s: NCCL error %d (%s): %s [%s, version number %d]", call, result,
              library_.error_string(result),
              Shown(more == nullptr ? "" : more, Shown::kPathBytes).text(), library_.path,
              library_.version);
}

Status NcclComm::check() {
  if (was_aborted()) {
    give_up();
    return fail(GQSGD_ABORTED, "the NCCL communicator was aborted");
  }
  nccl::Result state = nccl::kSuccess;
  const nccl::Result asked = library_.async_error(comm_, &state);
  if (asked != nccl::kSuccess) return through(asked, "ncclCommGetAsyncError");
  return state == nccl::kInProgress ? Status() : through(state, "an operation under way");
}

}  // namespace gq
