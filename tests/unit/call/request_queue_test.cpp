// The queue of requests on a transport that may be called on the caller's threads only, with ranks
// that one thread advances one after the other; and on one where the library has its own thread.
#include "src/call/request_queue.h"

#include <gtest/gtest.h>

#include <memory>
#include <thread>
#include <vector>

#include "src/api/quantizer/quantizer_spec.h"
#include "src/transport/shared_memory/local.h"
#include "tests/support/succeeds.h"

namespace gq {
namespace {

/** A local transport that notes calls on threads other than the one that made it. */
class HomebodyTransport final : public HostTransport {
 public:
  explicit HomebodyTransport(std::unique_ptr<HostTransport> inner) : inner_(std::move(inner)) {
    set_group_rank({inner_->rank(), inner_->size(), inner_->tag()});
  }

  bool callers_thread_only() const override { return true; }
  bool reads_in_place() const override { return inner_->reads_in_place(); }
  Status arena(size_t size_bytes, unsigned char** base) override {
    return at_home().arena(size_bytes, base);
  }
  Status send_control(uint64_t sequence, const ControlMessage& control) override {
    return at_home().send_control(sequence, control);
  }
  Status receive_control(uint32_t peer, uint64_t sequence, ControlMessage* control,
                         bool* there) override {
    return at_home().receive_control(peer, sequence, control, there);
  }
  Status send(const Message& message) override { return at_home().send(message); }
  Status expect(const Message& message) override { return at_home().expect(message); }
  Status receive(const Message& message, const unsigned char** words) override {
    return at_home().receive(message, words);
  }
  const unsigned char* view(const Message& message) const override { return inner_->view(message); }
  Status flushed(bool* done) override { return at_home().flushed(done); }
  Status wait(uint32_t slice_us) override {
    ++waits_;
    return at_home().wait(slice_us);
  }
  Status check() override { return at_home().check(); }
  void abort_group(gqsgd_status cause, uint32_t culprit) override {
    inner_->abort_group(cause, culprit);
  }
  TransportCounters counters() const override { return inner_->counters(); }

  int waits() const { return waits_; }
  int calls_from_elsewhere() const { return calls_from_elsewhere_; }

 private:
  HostTransport& at_home() {
    calls_from_elsewhere_ += std::this_thread::get_id() == home_ ? 0 : 1;
    return *inner_;
  }

  std::unique_ptr<HostTransport> inner_;
  std::thread::id home_ = std::this_thread::get_id();
  int waits_ = 0;
  int calls_from_elsewhere_ = 0;
};

constexpr size_t kValues = 1000;

/** One rank: an endpoint, its queue, and buffers for a few calls. */
struct Rank {
  Endpoint endpoint;
  std::unique_ptr<RequestQueue> queue = std::make_unique<RequestQueue>(&endpoint);
  std::vector<std::vector<float>> values;

  HomebodyTransport& transport() { return static_cast<HomebodyTransport&>(*endpoint.host); }

  /** In place; the values are `value` on every rank. */
  std::shared_ptr<Request> start(float value) {
    values.emplace_back(kValues, value);
    Call call;
    EXPECT_TRUE(parse_quantizer("paper-gl8", &call.format).ok());
    call.send = call.recv = values.back().data();
    call.value_count = kValues;
    auto request = std::make_shared<Request>();
    request->set(call, Status());
    EXPECT_TRUE(test::succeeds(queue->start(request)));
    return request;
  }

  /** Blocking. */
  Status run(const Call& call) {
    GQ_TRY(queue->await_turn());
    return allreduce(endpoint, call, Status());
  }
};

enum class Thread { callers, own };

std::vector<std::unique_ptr<Rank>> make_ranks(uint32_t count, Thread thread,
                                              int64_t timeout_ms = 20000) {
  std::vector<std::unique_ptr<HostTransport>> transports(count);
  EXPECT_TRUE(test::succeeds(create_local(count, transports.data())));
  std::vector<std::unique_ptr<Rank>> ranks;
  for (auto& transport : transports) {
    auto rank = std::make_unique<Rank>();
    if (thread == Thread::callers) {
      transport = std::make_unique<HomebodyTransport>(std::move(transport));
    }
    rank->endpoint.set_transport(std::move(transport));
    rank->endpoint.stages = cpu_stages_named("scalar");
    rank->endpoint.chunk_value_count = 64;
    rank->endpoint.timeout_ms = timeout_ms;
    ranks.push_back(std::move(rank));
  }
  return ranks;
}

void expect_all(const std::vector<float>& values, float expected) {
  EXPECT_EQ(values, std::vector<float>(kValues, expected));
}

TEST(RequestsOfCallersThread, InTests_AdvanceWithoutSleeping) {
  auto ranks = make_ranks(3, Thread::callers);
  std::vector<std::shared_ptr<Request>> requests[3];
  for (size_t rank = 0; rank < 3; ++rank) {
    for (const float value : {1.0f, 2.0f, 3.0f}) {
      requests[rank].push_back(ranks[rank]->start(value));
    }
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  for (const auto& rank : ranks) EXPECT_EQ(rank->endpoint.calls, 0u) << "no request was tested";
  for (size_t rank = 0, ended = 0; ended < 3; rank = (rank + 1) % 3) {
    const Request& last = *requests[rank].back();
    if (!last.has_ended() && ranks[rank]->queue->test(last)) ++ended;
  }
  for (size_t rank = 0; rank < 3; ++rank) {
    for (size_t i = 0; i < 3; ++i) {
      EXPECT_TRUE(requests[rank][i]->has_ended()) << "earlier ones end first";
      EXPECT_TRUE(test::succeeds(requests[rank][i]->status()));
      expect_all(ranks[rank]->values[i], static_cast<float>(i + 1));
    }
    EXPECT_EQ(ranks[rank]->transport().waits(), 0);
    EXPECT_EQ(ranks[rank]->transport().calls_from_elsewhere(), 0);
  }
}

TEST(RequestsOfCallersThread, InWaitAndBlockingCalls_Sleep) {
  auto ranks = make_ranks(2, Thread::callers);
  std::thread peer([&] {
    auto others = std::make_unique<HomebodyTransport>(std::move(ranks[1]->endpoint.host));
    ranks[1]->endpoint.set_transport(std::move(others));  // at home on this thread
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    const auto request = ranks[1]->start(5.0f);
    ranks[1]->queue->wait(*request);
    EXPECT_TRUE(request->status().ok());
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    const auto second = ranks[1]->start(6.0f);
    ranks[1]->queue->wait(*second);
    EXPECT_TRUE(ranks[1]->run(second->call()).ok());
  });
  const auto request = ranks[0]->start(5.0f);
  ranks[0]->queue->wait(*request);
  EXPECT_TRUE(request->has_ended() && request->status().ok());
  EXPECT_GT(ranks[0]->transport().waits(), 0);
  const auto second = ranks[0]->start(6.0f);
  EXPECT_TRUE(test::succeeds(ranks[0]->run(second->call())));
  EXPECT_TRUE(second->has_ended()) << "a blocking call takes its turn after requests";
  peer.join();
  EXPECT_EQ(ranks[0]->transport().calls_from_elsewhere(), 0);
}

TEST(RequestsOfCallersThread, InTests_TimeOut) {
  auto ranks = make_ranks(2, Thread::callers, 50);
  const auto first = ranks[0]->start(1.0f), second = ranks[0]->start(1.0f);
  while (!ranks[0]->queue->test(*second)) std::this_thread::yield();
  EXPECT_EQ(first->status().code(), GQSGD_TIMEOUT) << first->status().sentence();
  EXPECT_EQ(second->status().code(), GQSGD_TIMEOUT) << "the first failure again";
  expect_all(ranks[0]->values[0], 1.0f);
}

TEST(RequestsOfCallersThread, QueueCloses_End) {
  auto ranks = make_ranks(2, Thread::callers);
  const auto begun = ranks[0]->start(1.0f), waiting = ranks[0]->start(1.0f);
  EXPECT_FALSE(ranks[0]->queue->test(*begun));
  ranks[0]->queue->close();
  for (const auto& request : {begun, waiting}) {
    EXPECT_TRUE(request->has_ended());
    EXPECT_EQ(request->status().code(), GQSGD_ABORTED) << request->status().sentence();
  }
}

TEST(RequestsOfCallersThread, AnotherThreadClosesTheQueueDuringAWait_End) {
  auto ranks = make_ranks(2, Thread::callers);
  const auto first = ranks[0]->start(1.0f), second = ranks[0]->start(1.0f);
  std::thread closer([&] {
    while (ranks[0]->endpoint.calls == 0) std::this_thread::yield();
    ranks[0]->queue->close();
    EXPECT_TRUE(first->has_ended() && second->has_ended()) << "buffers are the caller's again";
  });
  ranks[0]->queue->wait(*first);
  closer.join();
  for (const auto& request : {first, second}) {
    EXPECT_TRUE(request->has_ended());
    EXPECT_EQ(request->status().code(), GQSGD_ABORTED) << request->status().sentence();
  }
}

TEST(RequestsOfTheLibrarysThread, ProgressWithoutTest_Completes) {
  auto ranks = make_ranks(2, Thread::own);
  const auto here = ranks[0]->start(4.0f), there = ranks[1]->start(4.0f);
  while (!here->has_ended() || !there->has_ended()) std::this_thread::yield();
  expect_all(ranks[0]->values[0], 4.0f);
  expect_all(ranks[1]->values[0], 4.0f);
}

TEST(RequestsOfTheLibrarysThread, QueueClosed_NotTaken) {
  auto ranks = make_ranks(1, Thread::own);
  ranks[0]->queue->wait(*ranks[0]->start(1.0f));
  ranks[0]->queue->close();
  auto late = std::make_shared<Request>();
  late->set(Call(), Status());
  EXPECT_EQ(ranks[0]->queue->start(late).code(), GQSGD_ABORTED);
}

}  // namespace
}  // namespace gq
