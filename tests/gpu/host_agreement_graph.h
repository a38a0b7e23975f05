// Graphs of ranks of one process, all of which are on the device before any is replayed: while one
// rank's kernels wait for another's, that one can neither make a graph nor have it uploaded.
#ifndef GQ_TESTS_GPU_HOST_AGREEMENT_GRAPH_H
#define GQ_TESTS_GPU_HOST_AGREEMENT_GRAPH_H

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>

#include "tests/gpu/allreduce_call.h"

namespace gq::test {

/** Where all ranks come to; one that failed before makes the others go on after some time. */
class HostBarrier {
 public:
  explicit HostBarrier(int ranks) : ranks_(ranks) {}

  std::string come() {
    constexpr int kLongestMs = 20000;
    ++there_;
    for (int k = 0; k < kLongestMs && there_ < ranks_; ++k) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return there_ >= ranks_ ? "" : "another rank has no graph";
  }

 private:
  const int ranks_;
  std::atomic<int> there_{0};
};

/** A graph that is whole when those of all ranks are. */
class HostAgreementGraph final : public StreamGraph {
 public:
  HostAgreementGraph(std::unique_ptr<StreamGraph> graph, HostBarrier* barrier)
      : graph_(std::move(graph)), barrier_(*barrier) {}

  void begin_capture(StreamHandle stream) override { graph_->begin_capture(stream); }
  std::string end_capture(StreamHandle stream) override {
    const std::string failure = graph_->end_capture(stream);
    const std::string met = barrier_.come();
    return failure.empty() ? met : failure;
  }
  void replay(StreamHandle stream) override { graph_->replay(stream); }

 private:
  const std::unique_ptr<StreamGraph> graph_;
  HostBarrier& barrier_;
};

}  // namespace gq::test

#endif
