// Making calls on threads and looking at what they left.
#include "tests/api/faults/support/call.h"

#include <cmath>
#include <cstring>
#include <memory>
#include <thread>

namespace gq::test {
namespace {

constexpr float kUntouched = -123.25f;

}  // namespace

Call::Call(int rank)
    : input(gradients(rank + 1, kCallValues, 5).back()), result(kCallValues, kUntouched) {
  original_ = input;
  send = input.data();
  recv = result.data();
  use("paper-gl8");
}

void Call::use(const char* quantizer_spec) {
  gqsgd_quantizer_destroy(quantizer);
  EXPECT_TRUE(is_ok(outcome_of(gqsgd_quantizer_create(quantizer_spec, &quantizer))));
}

gqsgd_status Call::make_status(gqsgd_comm comm) {
  return gqsgd_allreduce(comm, quantizer, send, recv, value_count, dtype, op, config, stream);
}

gqsgd_status Call::start(gqsgd_comm comm) {
  return gqsgd_allreduce_start(comm, quantizer, send, recv, value_count, dtype, op, config, stream,
                               &request);
}

bool Call::result_untouched() const {
  for (const float value : result) {
    if (value != kUntouched) return false;
  }
  return true;
}

bool Call::input_untouched() const {
  return std::memcmp(input.data(), original_.data(), sizeof(float) * kCallValues) == 0;
}

bool Call::result_is_finite() const {
  for (const float value : result) {
    if (!std::isfinite(value) || value == kUntouched) return false;
  }
  return true;
}

Group::Group(int rank_count, const std::string& options) : comms_(static_cast<size_t>(rank_count)) {
  EXPECT_TRUE(
      is_ok(outcome_of(gqsgd_comm_create_local(rank_count, options.c_str(), comms_.data()))));
}

Group::~Group() {
  for (gqsgd_comm comm : comms_) EXPECT_EQ(gqsgd_comm_destroy(comm), GQSGD_OK);
}

GroupOutcome Group::call(int culprit, const Change& change, const Change& on_all) {
  std::vector<std::unique_ptr<Call>> calls;
  for (int rank = 0; rank < size(); ++rank) {
    calls.push_back(std::make_unique<Call>(rank));
    if (on_all) on_all(*calls.back());
  }
  if (culprit >= 0) change(*calls[static_cast<size_t>(culprit)]);
  GroupOutcome outcome;
  outcome.ranks.resize(comms_.size());
  std::vector<std::thread> threads;
  for (size_t rank = 0; rank < comms_.size(); ++rank) {
    threads.emplace_back([&, rank] { outcome.ranks[rank] = calls[rank]->make(comms_[rank]); });
  }
  for (std::thread& thread : threads) thread.join();
  for (const auto& call : calls) {
    outcome.all_untouched = outcome.all_untouched && call->result_untouched();
  }
  return outcome;
}

testing::AssertionResult Group::still_works() {
  std::vector<std::unique_ptr<Call>> calls;
  std::vector<Outcome> outcomes(comms_.size());
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size(); ++rank) calls.push_back(std::make_unique<Call>(rank));
  for (size_t rank = 0; rank < comms_.size(); ++rank) {
    threads.emplace_back([&, rank] { outcomes[rank] = calls[rank]->make(comms_[rank]); });
  }
  for (std::thread& thread : threads) thread.join();
  for (size_t rank = 0; rank < comms_.size(); ++rank) {
    const bool same = calls[rank]->result == calls[0]->result && calls[rank]->result_is_finite();
    if (outcomes[rank].status == GQSGD_OK && same) continue;
    return testing::AssertionFailure() << "rank " << rank << ": " << outcomes[rank].text()
                                       << (same ? "" : ", and its result is not rank 0's");
  }
  return testing::AssertionSuccess();
}

}  // namespace gq::test
