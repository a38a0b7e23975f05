// Graphs of allreduces of threads, by one kernel of each rank, on whatever device there is: all
// ranks have their graph before any replays it (docs/CUDA.md).
#ifndef GQ_TESTS_GPU_GRAPH_RANKS_H
#define GQ_TESTS_GPU_GRAPH_RANKS_H

#include <functional>
#include <memory>
#include <string>

#include "tests/gpu/allreduce_call.h"

namespace gq::test {

/** Each check returns "" or a line for each rank that something went wrong on. */
struct GraphRanks {
  std::function<std::unique_ptr<StreamGraph>()> make_graph;
  int ranks;

  /** A call that is made, captured, replayed twice and made again; its step is counted, or in
   * memory of the device. */
  std::string check_bits(const std::string& quantizer, size_t value_count, bool at_device) const;
  /** Rank 0's host enqueues all replays before the others enqueue their first. */
  std::string check_hosts_apart(const std::string& quantizer, size_t value_count) const;
  /** Rank 1 does not replay: the others leave at the deadline, write nothing and report it. */
  std::string check_lost_replay() const;
  /** Streams of so many ranks share queues of the device. */
  std::string check_refusal() const;
};

}  // namespace gq::test

#endif
