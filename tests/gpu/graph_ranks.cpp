// Each rank is a thread with a stream of its own.
#include "tests/gpu/graph_ranks.h"

#include <chrono>
#include <thread>

#include "tests/gpu/device_values.h"
#include "tests/gpu/host_agreement_graph.h"
#include "tests/support/ranks.h"

namespace gq::test {
namespace {

constexpr size_t kValues = 9001;

Operation direct(const std::string& quantizer, uint64_t step = 0) {
  Operation operation;
  operation.quantizer = quantizer;
  operation.schedule = GQSGD_SCHEDULE_DIRECT;
  operation.step = step;
  return operation;
}

/** Buffers of a rank, a call on them that was made once, and its graph. */
class Captured {
 public:
  Captured(const std::string& quantizer, const Values& input, std::unique_ptr<StreamGraph> made)
      : graph(std::move(made)),
        spoiled(input.size(), 77.0f),
        quantizer_(quantizer),
        input_(input),
        given_(input.size()),
        result_(input.size()) {}

  std::string make(gqsgd_comm comm) {
    const gqsgd_status status =
        gqsgd_allreduce(comm, quantizer_.get(), given_.data(), result_.data(), input_.size(),
                        GQSGD_FLOAT32, GQSGD_MEAN, nullptr, queue.get());
    return status == GQSGD_OK ? "" : gqsgd_last_error();
  }
  std::string make_and_capture(gqsgd_comm comm, int64_t timeout_ms) {
    given_.put(input_, queue);
    std::string failure = make(comm);
    if (failure.empty() && !queue.wait(kStreamTimeoutMs)) failure = "the first call does not end";
    if (gqsgd_comm_set_timeout(comm, timeout_ms) != GQSGD_OK) return gqsgd_last_error();
    graph->begin_capture(queue.get());
    if (failure.empty()) failure = make(comm);
    const std::string captured = graph->end_capture(queue.get());
    return failure.empty() ? captured : failure;
  }
  void spoil() { result_.put(spoiled, queue); }
  Values result() const { return result_.values(queue); }

  const DeviceQueue queue;
  const std::unique_ptr<StreamGraph> graph;
  const Values spoiled;

 private:
  const Quantizer quantizer_;
  const Values input_;
  DeviceValues given_, result_;
};

}  // namespace

std::string GraphRanks::check_bits(const std::string& quantizer, size_t value_count,
                                   bool at_device) const {
  Operation operation = direct(quantizer);
  operation.at_device = at_device;
  const ReplayedCall call(ranks, operation, value_count);
  HostBarrier barrier(ranks);
  std::vector<Kept> kept(static_cast<size_t>(ranks));
  return run_threads(ranks, "timeout_ms=20000", [&](int rank, gqsgd_comm comm) {
    HostAgreementGraph graph(make_graph(), &barrier);
    const std::string found = call.make_and_compare(rank, comm, &graph, kStreamTimeoutMs,
                                                    &kept[static_cast<size_t>(rank)]);
    return found.empty() ? was_fused(comm) : found;
  });
}

std::string GraphRanks::check_hosts_apart(const std::string& quantizer, size_t value_count) const {
  constexpr int kReplays = 20;
  const std::vector<Values> inputs = gradients(ranks, value_count, 17);
  const Values expected = simulate(direct(quantizer, kReplays), inputs);
  HostBarrier barrier(ranks);
  return run_threads(ranks, "timeout_ms=20000", [&](int rank, gqsgd_comm comm) -> std::string {
    Captured call(quantizer, inputs[static_cast<size_t>(rank)],
                  std::make_unique<HostAgreementGraph>(make_graph(), &barrier));
    const std::string failure = call.make_and_capture(comm, 20000);
    if (!failure.empty()) return failure;
    std::this_thread::sleep_for(std::chrono::milliseconds(50 * rank));
    for (int k = 0; k < kReplays; ++k) call.graph->replay(call.queue.get());
    if (!call.queue.wait(kStreamTimeoutMs)) return "the stream is not through";
    return difference(call.result(), expected);
  });
}

std::string GraphRanks::check_lost_replay() const {
  const std::vector<Values> inputs = gradients(ranks, kValues, 17);
  HostBarrier barrier(ranks);
  return run_threads(ranks, "timeout_ms=20000", [&](int rank, gqsgd_comm comm) -> std::string {
    Captured call("paper-ge8", inputs[static_cast<size_t>(rank)],
                  std::make_unique<HostAgreementGraph>(make_graph(), &barrier));
    const std::string failure = call.make_and_capture(comm, 2000);
    if (!failure.empty()) return failure;
    call.spoil();
    if (rank != 1) call.graph->replay(call.queue.get());
    if (!call.queue.wait(kStreamTimeoutMs)) return "the stream is not through";
    if (call.result() != call.spoiled) return "something was written";
    if (rank == 1) return "";
    const gqsgd_status status = gqsgd_comm_status(comm);
    const std::string sentence = gqsgd_last_error();
    const bool told = status == GQSGD_TIMEOUT && sentence.find("of rank 1") != std::string::npos;
    return told ? "" : gqsgd_status_name(status) + (": " + sentence);
  });
}

std::string GraphRanks::check_refusal() const {
  const std::vector<Values> inputs = gradients(ranks, kValues, 17);
  HostBarrier barrier(ranks);
  return run_threads(ranks, "timeout_ms=20000", [&](int rank, gqsgd_comm comm) -> std::string {
    Captured call("paper-ge8", inputs[static_cast<size_t>(rank)],
                  std::make_unique<HostAgreementGraph>(make_graph(), &barrier));
    const std::string failure = call.make_and_capture(comm, 20000);
    if (failure.find("whose streams share its") == std::string::npos) {
      return "it was not refused: " + failure;
    }
    const std::string again = call.make(comm);  // outside of a graph
    return call.queue.wait(kStreamTimeoutMs) ? again : "the stream is not through";
  });
}

}  // namespace gq::test
