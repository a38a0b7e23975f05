// Children, shared addresses, loops with deadlines.
#include "tests/unit/transport/ucx/ucx_ranks.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "src/support/clock.h"
#include "tests/unit/transport/exchange.h"

namespace gq::test {
namespace {

constexpr int64_t kTestTimeoutMs = 20000;
constexpr uint32_t kBarrierChannel = 0xffffffffu;

/** Many ranks of a test share few processors: one that has waited for longer than a message takes
 *  sleeps. */
void give_way(uint64_t begin_us) {
  constexpr uint64_t kAwakeUs = 200;
  if (monotonic_us() - begin_us < kAwakeUs) {
    sched_yield();
  } else {
    usleep(50);
  }
}

}  // namespace

UcxOptions library_under_test() { return {getenv("GQSGD_TEST_UCX_LIBRARY"), "", 1}; }

std::string why_no_ucx() {
  Child child([] {
    std::unique_ptr<UcxEngine> engine;
    const Status status = UcxEngine::open(library_under_test(), 0, 1, &engine);
    return status.ok() ? std::string() : text_of(status);
  });
  return child.line();
}

Status UcxRank::open(const UcxOptions& options) {
  GQ_TRY(UcxEngine::open(options, rank_, size_, &engine_));
  const std::vector<unsigned char>& own = engine_->address();
  PostedAddress& posted = addresses_[rank_];
  if (own.size() > sizeof posted.bytes) return fail(GQSGD_INTERNAL, "%zu bytes", own.size());
  memcpy(posted.bytes, own.data(), own.size());
  posted.size_bytes.store(static_cast<uint32_t>(own.size()), std::memory_order_release);
  return Status();
}

Status UcxRank::connect() {
  const uint64_t deadline_us = deadline_after_ms(kTestTimeoutMs), begin_us = monotonic_us();
  for (uint32_t peer = 0; peer < size_; ++peer) {
    uint32_t size_bytes;
    while ((size_bytes = addresses_[peer].size_bytes.load(std::memory_order_acquire)) == 0) {
      if (monotonic_us() > deadline_us) return fail(GQSGD_TIMEOUT, "no address of rank %u", peer);
      give_way(begin_us);
    }
    GQ_TRY(engine_->connect(peer, addresses_[peer].bytes, size_bytes));
  }
  return Status();
}

Status UcxRank::greet() {
  for (uint32_t k = 0; k < size_ * engine_->paths(); ++k) {
    const uint32_t peer = k % size_;
    GQ_TRY(engine_->start_receive(peer, kBarrierChannel, nullptr, 0, &requests_.emplace_back()));
    GQ_TRY(engine_->start_greeting(peer, kBarrierChannel, &requests_.emplace_back()));
  }
  for (UcxRequest& request : requests_) GQ_TRY(wait(&request));
  GQ_TRY(barrier());
  return engine_->set_connected();
}

Status UcxRank::wait(UcxRequest* request, int64_t timeout_ms) {
  const uint64_t deadline_us = deadline_after_ms(timeout_ms), begin_us = monotonic_us();
  for (;;) {
    bool done = false;
    GQ_TRY(engine_->test(request, &done));
    if (done) return Status();
    if (engine_->progress()) continue;
    if (monotonic_us() > deadline_us) return fail(GQSGD_TIMEOUT, "a request is not done");
    give_way(begin_us);
  }
}

Status UcxRank::send(uint32_t peer, uint32_t channel, const std::string& bytes) {
  UcxRequest& request = requests_.emplace_back();
  GQ_TRY(engine_->start_send(peer, channel, bytes.data(), bytes.size(), &request));
  return wait(&request);
}

Status UcxRank::receive(uint32_t peer, uint32_t channel, std::string* bytes) {
  UcxRequest& request = requests_.emplace_back();
  GQ_TRY(engine_->start_receive(peer, channel, bytes->data(), bytes->size(), &request));
  return wait(&request);
}

Status UcxRank::flush(uint32_t peer) {
  UcxRequest& request = requests_.emplace_back();
  GQ_TRY(engine_->start_flush(peer, &request));
  return wait(&request);
}

Status UcxRank::barrier() {
  for (uint32_t peer = 0; peer < size_; ++peer) GQ_TRY(send(peer, kBarrierChannel, "b"));
  for (uint32_t peer = 0; peer < size_; ++peer) {
    std::string byte(1, ' ');
    GQ_TRY(receive(peer, kBarrierChannel, &byte));
  }
  return Status();
}

void UcxRank::progress_for_ms(int64_t duration_ms) {
  const uint64_t end_us = deadline_after_ms(duration_ms), begin_us = monotonic_us();
  while (monotonic_us() < end_us) {
    if (!engine_->progress()) give_way(begin_us);
  }
}

Child ucx_child(uint32_t rank, uint32_t size, PostedAddress* addresses, const Wire& wire,
                const UcxBody& body) {
  return Child([&] {
    if (wire.tls != nullptr) setenv("UCX_TLS", wire.tls, 1);
    UcxRank end(rank, addresses, size);
    UcxOptions options = library_under_test();
    options.paths = wire.paths;
    Status status = end.open(options);
    if (status.ok()) status = end.connect();
    if (status.ok()) status = end.greet();
    return status.ok() ? body(end) : text_of(status);
  });
}

std::vector<std::string> run_ucx_ranks(uint32_t size, const Wire& wire, const UcxBody& body) {
  SharedArray<PostedAddress> addresses(size);
  std::vector<Child> children;
  for (uint32_t rank = 0; rank < size; ++rank) {
    children.push_back(ucx_child(rank, size, addresses.data(), wire, body));
  }
  std::vector<std::string> lines;
  for (Child& child : children) lines.push_back(child.line());
  return lines;
}

std::string pattern(size_t size_bytes, uint32_t seed) {
  std::string bytes(size_bytes, '\0');
  uint32_t state = seed * 2654435761u + 1;
  for (char& byte : bytes) {
    state = state * 1664525u + 1013904223u;
    byte = static_cast<char>(state >> 24);
  }
  return bytes;
}

}  // namespace gq::test
