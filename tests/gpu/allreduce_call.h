// Allreduces of a rank on memory of the device, and whether they have the bits of virtual ranks.
#ifndef GQ_TESTS_GPU_ALLREDUCE_CALL_H
#define GQ_TESTS_GPU_ALLREDUCE_CALL_H

#include <string>
#include <utility>
#include <vector>

#include "src/device/device.h"
#include "tests/support/operation.h"

namespace gq::test {

inline constexpr int kStreamTimeoutMs = 60000;

/** Calls of every schedule, formats of every kind, and what virtual ranks make of them. */
class DeviceCalls {
 public:
  /** `adds_natively`: the transport can, and exact formats take that schedule as well. */
  DeviceCalls(int rank_count, const std::vector<std::string>& formats, size_t value_count,
              bool adds_natively = false);

  /** Enqueues all calls of rank `rank` on one stream of its own, waits once, compares: "" or what
   *  went wrong. A stream that is not through in time has its group aborted. */
  std::string make_and_compare(int rank, gqsgd_comm comm, int timeout_ms = kStreamTimeoutMs) const;

 protected:
  explicit DeviceCalls(std::vector<Values> inputs) : inputs_(std::move(inputs)) {}
  void add(const std::string& format, int32_t schedule);

 private:
  std::vector<Values> inputs_;
  std::vector<Operation> operations_;
  std::vector<Values> expected_;
};

/** Calls of schedule direct alone, `repeats` of each format. */
class DirectCalls : public DeviceCalls {
 public:
  DirectCalls(int rank_count, const std::vector<std::string>& formats, size_t value_count,
              size_t repeats);
};

/** How what is enqueued on a stream becomes a graph. */
class StreamGraph {
 public:
  virtual ~StreamGraph() = default;
  virtual void begin_capture(StreamHandle stream) = 0;
  /** "" or why there is no graph. */
  virtual std::string end_capture(StreamHandle stream) = 0;
  virtual void replay(StreamHandle stream) = 0;
};

/** A call that is made, captured, replayed twice and made again: four steps of the counter. */
class ReplayedCall {
 public:
  ReplayedCall(int rank_count, const Operation& operation, size_t value_count);

  std::string make_and_compare(int rank, gqsgd_comm comm, StreamGraph* graph,
                               int timeout_ms = kStreamTimeoutMs) const;

 private:
  static constexpr uint64_t kSteps = 4;

  Operation operation_;
  std::vector<Values> inputs_;
  std::vector<Values> expected_;  // of each step
};

}  // namespace gq::test

#endif
