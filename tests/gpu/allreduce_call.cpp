// Buffers on the device, calls on a stream, results back on the host.
#include "tests/gpu/allreduce_call.h"

#include <cmath>
#include <iterator>
#include <limits>
#include <memory>

#include "tests/gpu/device_values.h"

namespace gq::test {
namespace {

// What a stream may take to get through once its group is aborted.
constexpr int kAbortedMs = 5000;

/** "" if the stream is through; else it is freed, and memory that it uses can be given back. */
std::string wait(const DeviceQueue& queue, gqsgd_comm comm, int timeout_ms) {
  if (queue.wait(timeout_ms)) return "";
  gqsgd_comm_abort(comm);
  const bool freed = queue.wait(kAbortedMs);
  return "the stream is not through after " + std::to_string(timeout_ms) + " ms" +
         (freed ? "" : ", nor when its group is aborted");
}

/** What one call reads and writes on the device. */
struct CallMemory {
  CallMemory(const Operation& call, const Values& input, size_t number, const DeviceQueue& queue)
      : send(input.size(), number % 4),
        recv(call.in_place ? 1 : input.size(), (number + 1) % 4),
        result(call.in_place ? send : recv) {
    send.put(input, queue);
    if (!call.in_place) recv.clear(queue);
    if (!call.at_device) return;
    step = std::make_unique<DeviceStep>();
    step->put(call.step, call.index, queue);
  }

  DeviceValues send, recv;
  DeviceValues& result;
  std::unique_ptr<DeviceStep> step;
};

gqsgd_status enqueue(gqsgd_comm comm, const Operation& call, size_t value_count,
                     const CallMemory& memory, const DeviceQueue& queue) {
  const Config config =
      memory.step ? config_on_device(memory.step->address(), call.schedule) : config_of(call);
  return enqueue(comm, call, memory.send.data(), memory.result.data(), value_count, config,
                 queue.get());
}

float special_value(Special special, float usual, int rank, size_t e) {
  const float infinity = std::numeric_limits<float>::infinity();
  switch (special) {
    case Special::nan:
      return rank == 1 && e % 1001 == 300 ? std::numeric_limits<float>::quiet_NaN() : usual;
    case Special::infinite:
      return rank == 0 && e % 1001 == 77 ? -infinity : usual;
    case Special::opposite_infinities:
      return e % 1001 == 500 ? (rank % 2 == 0 ? infinity : -infinity) : usual;
    case Special::denormal:
      return std::ldexp(usual, -132);
    case Special::tiny:
      return std::ldexp(usual, -124);
    case Special::huge:
      return std::ldexp(usual, 124);
    case Special::zero:
      return rank % 2 == 0 ? 0.0f : -0.0f;
  }
  return usual;
}

}  // namespace

std::vector<Values> special_inputs(int rank_count, size_t value_count, Special special) {
  std::vector<Values> inputs = gradients(rank_count, value_count, 17);
  for (int rank = 0; rank < rank_count; ++rank) {
    Values& values = inputs[static_cast<size_t>(rank)];
    for (size_t e = 0; e < value_count; ++e) {
      values[e] = special_value(special, values[e], rank, e);
    }
  }
  return inputs;
}

DeviceCalls::DeviceCalls(int rank_count, const std::vector<std::string>& formats,
                         size_t value_count, bool adds_natively)
    : DeviceCalls(gradients(rank_count, value_count, 12), formats, adds_natively) {}

DeviceCalls::DeviceCalls(std::vector<Values> inputs, const std::vector<std::string>& formats,
                         bool adds_natively)
    : DeviceCalls(std::move(inputs)) {
  for (const std::string& format : formats) {
    const bool wide = format.find("paper") != 0 && format != "none";
    const bool one_norm = format.find("block") == std::string::npos;
    const bool exact = format.find("paper-gl8") == 0;
    std::vector<gqsgd_schedule> schedules(std::begin(kSchedules), std::end(kSchedules));
    if (wide) schedules = {GQSGD_SCHEDULE_DIRECT, GQSGD_SCHEDULE_HIERARCHICAL};
    if (!wide && one_norm && format != "none") schedules.push_back(GQSGD_SCHEDULE_SPARSE);
    if (exact && adds_natively) schedules.push_back(GQSGD_SCHEDULE_NATIVE);
    for (const gqsgd_schedule schedule : schedules)
      add(format, schedule, operations_.size() % 3 == 1);
  }
}

void DeviceCalls::add(const std::string& format, gqsgd_schedule schedule, bool at_device,
                      const std::string& options, const std::vector<size_t>& counts) {
  Operation call;
  call.counts = counts;
  call.quantizer = format;
  call.schedule = schedule;
  call.op = operations_.size() % 2 == 0 ? GQSGD_MEAN : GQSGD_SUM;
  call.in_place = operations_.size() % 5 < 2;
  call.step = operations_.size();
  call.index = operations_.size() % 7;
  call.at_device = at_device;
  operations_.push_back(call);
  expected_.push_back(simulate(call, inputs_, options));
}

ListCalls::ListCalls(int rank_count, const std::vector<std::string>& formats,
                     const std::vector<size_t>& counts)
    : ListCalls(gradients(rank_count, total_of(counts), 15), formats, counts) {}

ListCalls::ListCalls(std::vector<Values> inputs, const std::vector<std::string>& formats,
                     const std::vector<size_t>& counts)
    : DeviceCalls(std::move(inputs)) {
  for (const std::string& format : formats) {
    add(format, GQSGD_SCHEDULE_DIRECT, false, "", counts);
  }
}

DirectCalls::DirectCalls(std::vector<Values> inputs, const std::vector<std::string>& formats,
                         size_t repeats)
    : DeviceCalls(std::move(inputs)) {
  for (size_t k = 0; k < repeats * formats.size(); ++k) {
    add(formats[k % formats.size()], GQSGD_SCHEDULE_DIRECT, false);
  }
}

NodeCalls::NodeCalls(const std::vector<int32_t>& node_ids, const std::vector<std::string>& formats,
                     size_t value_count)
    : DeviceCalls(gradients(static_cast<int>(node_ids.size()), value_count, 14)) {
  for (const std::string& format : formats) {
    add(format, GQSGD_SCHEDULE_HIERARCHICAL, false, nodes_option(node_ids));
  }
}

/** Memory is made before the first call. */
std::string DeviceCalls::make_and_compare(int rank, gqsgd_comm comm, int timeout_ms,
                                          Kept* kept) const {
  const DeviceQueue queue;
  const Values& input = inputs_[static_cast<size_t>(rank)];
  std::vector<std::shared_ptr<CallMemory>> memory;
  for (size_t k = 0; k < operations_.size(); ++k) {
    memory.push_back(std::make_shared<CallMemory>(operations_[k], input, k, queue));
  }
  if (kept != nullptr) kept->insert(kept->end(), memory.begin(), memory.end());
  if (!queue.wait(timeout_ms)) return "values do not get to the device";
  std::string failure;
  for (size_t k = 0; k < operations_.size() && failure.empty(); ++k) {
    if (enqueue(comm, operations_[k], input.size(), *memory[k], queue) != GQSGD_OK) {
      failure = describe(operations_[k]) + ": " + gqsgd_last_error();
    }
  }
  const std::string late = wait(queue, comm, timeout_ms);
  if (!late.empty() || !failure.empty()) return failure.empty() ? late : failure;
  for (size_t k = 0; k < operations_.size() && failure.empty(); ++k) {
    failure = difference(memory[k]->result.values(queue), expected_[k]);
    if (failure.empty() && !operations_[k].in_place) {
      failure = difference(memory[k]->send.values(queue), input);
    }
    if (!failure.empty()) failure = describe(operations_[k]) + ": " + failure;
  }
  return failure;
}

ReplayedCall::ReplayedCall(int rank_count, const Operation& operation, size_t value_count)
    : operation_(operation), inputs_(gradients(rank_count, value_count, 13)) {
  for (uint64_t step = 0; step < kSteps; ++step) {
    Operation call = operation;
    call.step = step;
    expected_.push_back(simulate(call, inputs_));
  }
}

std::string ReplayedCall::make_and_compare(int rank, gqsgd_comm comm, StreamGraph* graph,
                                           int timeout_ms, Kept* kept) const {
  struct Memory {
    DeviceValues given, result;
    DeviceStep step;
  };
  const Values& input = inputs_[static_cast<size_t>(rank)];
  const DeviceQueue queue;
  const std::shared_ptr<Memory> memory(
      new Memory{DeviceValues(input.size()), DeviceValues(input.size()), DeviceStep()});
  kept->push_back(memory);
  DeviceValues &given = memory->given, &result = memory->result;
  DeviceStep& there = memory->step;
  const Config config = operation_.at_device
                            ? config_on_device(there.address(), operation_.schedule)
                            : config_of(operation_.schedule);
  const auto make = [&] {
    const gqsgd_status status =
        enqueue(comm, operation_, given.data(), result.data(), input.size(), config, queue.get());
    return status == GQSGD_OK ? std::string() : gqsgd_last_error();
  };
  given.put(input, queue);
  there.put(0, operation_.index, queue);
  std::string failure =
      gqsgd_comm_set_counter(comm, 0) == GQSGD_OK ? make() : std::string(gqsgd_last_error());
  for (uint64_t step = 0; step < kSteps && failure.empty(); ++step) {
    if (step > 0) there.put(step, operation_.index, queue);
    if (step == 1) {
      graph->begin_capture(queue.get());
      failure = make();
      const std::string captured = graph->end_capture(queue.get());
      if (failure.empty()) failure = captured;
      if (!failure.empty()) break;
    }
    if (step == 1 || step == 2) graph->replay(queue.get());
    if (step == 3) failure = make();
    if (failure.empty()) failure = wait(queue, comm, timeout_ms);
    if (failure.empty()) failure = difference(result.values(queue), expected_[step]);
    if (!failure.empty()) failure = "step " + std::to_string(step) + ": " + failure;
  }
  if (failure.empty()) return "";
  gqsgd_comm_abort(comm);
  (void)queue.wait(kAbortedMs);
  return describe(operation_) + ", replayed: " + failure;
}

std::string was_fused(gqsgd_comm comm) {
  uint64_t copied = 0;
  gqsgd_comm_stat(comm, "payload_bytes_copied", &copied);
  return copied == 0 ? "" : "stages and copies have made the calls";
}

}  // namespace gq::test
