// Calls whose step the communicator counts, and graphs of them.
#ifndef GQ_TESTS_GPU_STREAM_CALLS_COUNTED_CALL_H
#define GQ_TESTS_GPU_STREAM_CALLS_COUNTED_CALL_H

#include <cstring>

#include "tests/gpu/nccl/group.h"

namespace gq::test {

inline constexpr size_t kCount = 3000;

/** Buffers of one kind of call on one rank, whose step is counted. */
class CountedCall {
 public:
  explicit CountedCall(const Operation& operation, size_t value_count = kCount)
      : operation_(operation),
        value_count_(value_count),
        send_(value_count * sizeof(float)),
        recv_(value_count * sizeof(float)) {}

  void give(const Values& values) {
    std::memcpy(send_.as<float>(), values.data(), value_count_ * sizeof(float));
    std::memset(recv_.as<char>(), 0x5A, value_count_ * sizeof(float));
  }
  gqsgd_status make(gqsgd_comm comm, const OwnStream& stream) {
    return enqueue(comm, operation_, send_.as<float>(), recv_.as<float>(), value_count_,
                   config_of(operation_.schedule), stream.get());
  }
  Values result() const { return Values(recv_.as<float>(), recv_.as<float>() + value_count_); }
  bool untouched() const { return recv_.as<char>()[0] == 0x5A; }

 private:
  Operation operation_;
  size_t value_count_;
  DeviceMemory send_, recv_;
};

/** What it makes now becomes a graph. */
inline std::string capture_only(gqsgd_comm comm, CountedCall* call, const OwnStream& stream,
                                HostGraph* graph) {
  graph->begin_capture(stream.get());
  const gqsgd_status status = call->make(comm, stream);
  const bool whole = graph->end_capture(stream.get());
  if (status != GQSGD_OK) return gqsgd_last_error();
  return whole ? "" : "the capture has work that the stream does not come after";
}

/** Makes the call once, then captures it. */
inline std::string capture(gqsgd_comm comm, CountedCall* call, const OwnStream& stream,
                           const Values& values, HostGraph* graph) {
  call->give(values);
  if (call->make(comm, stream) != GQSGD_OK || !stream.synchronize()) return gqsgd_last_error();
  return capture_only(comm, call, stream, graph);
}

/** Other values at each step, and another norm. */
inline std::vector<Values> inputs_of(uint64_t step, int ranks, size_t value_count = kCount) {
  std::vector<Values> inputs = gradients(ranks, value_count, 30 + step);
  for (Values& values : inputs) {
    for (float& value : values) value *= static_cast<float>(step + 1);
  }
  return inputs;
}

inline Values expected_of(Operation operation, uint64_t step, int ranks,
                          size_t value_count = kCount) {
  operation.step = step;
  return simulate(operation, inputs_of(step, ranks, value_count));
}

}  // namespace gq::test

#endif
